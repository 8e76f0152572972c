// CUDA and HIP under one name: nvcc compiles this folder into one plugin, and hipcc into another.
//
// GPU(Malloc) is cudaMalloc or hipMalloc. Other differences between the two are handled here; other files use neither
// directly. A kernel parameter that is GPU_READ_ONLY is never written, so that threads need no copy of it.
#pragma once

#ifdef __HIP__
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#define GPU_READ_ONLY
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#define GPU_READ_ONLY __grid_constant__
#endif

#include <string>
#include <utility>

#include "opdock/plugin.hpp"

namespace gpu {

using Stream = GPU(Stream_t);

#ifdef GPU_EMULATED // tests/emulated
inline constexpr const char *device_name = "cpu";
inline constexpr DLDeviceType device_type = kDLCPU;
#elif defined(__HIP__)
inline constexpr const char *device_name = "rocm";
inline constexpr DLDeviceType device_type = kDLROCM;
#else
inline constexpr const char *device_name = "cuda";
inline constexpr DLDeviceType device_type = kDLCUDA;
#endif

// Maps a runtime error to the ABI's status. After some errors nothing runs on the device any more.
inline opdock_status status_of(GPU(Error_t) error) {
    switch (error) {
    case GPU(Success):
        return OPDOCK_OK;
    case GPU(ErrorMemoryAllocation):
        return OPDOCK_OUT_OF_MEMORY;
    case GPU(ErrorIllegalAddress):
    case GPU(ErrorLaunchFailure):
    case GPU(ErrorAssert):
        return OPDOCK_DEVICE_LOST;
#ifndef __HIP__
    case cudaErrorECCUncorrectable:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchTimeout:
    case cudaErrorMpsClientTerminated:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
        return OPDOCK_DEVICE_LOST;
#endif
    default:
        return OPDOCK_FAILED_CLEAN;
    }
}

inline std::string error_text(const char *what, GPU(Error_t) error) {
    return std::string(what) + ": " + GPU(GetErrorString)(error) + " (" + GPU(GetErrorName)(error) + ")";
}

inline opdock::Status checked(const char *what, GPU(Error_t) error) {
    if (error == GPU(Success)) {
        return {};
    }
    static_cast<void>(GPU(GetLastError)()); // clears it, so that nobody else sees it
    return {status_of(error), error_text(what, error)};
}

// For libraries: a thread that has not used the device has no context. Runtime calls create
// one on demand, but libraries do not ("the function failed to launch on the GPU").
inline opdock::Status make_current(DLDevice device) {
    return checked("setting the current device", GPU(SetDevice)(device.device_id));
}

// Converts a later kernel's status for an op that writes its inputs:
// once the first kernel runs, it is too late for "nothing was touched".
inline opdock::Status after_the_first(opdock::Status status) {
    if (status.ok() || status.code() == OPDOCK_DEVICE_LOST) {
        return status;
    }
    return opdock::failed(status.message() != nullptr ? status.message() : "");
}

} // namespace gpu
