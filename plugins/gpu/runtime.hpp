// CUDA and HIP under one name: this folder is compiled by nvcc into one plugin and by hipcc into another.
//
// GPU(Malloc) is cudaMalloc or hipMalloc. What the two spell differently beyond the prefix is here; other files know
// neither. A kernel's parameter that is GPU_READ_ONLY is written to by nobody, so that no thread has a copy.
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

// What the ABI says of a runtime's error. After some of them nothing runs on the device any more.
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
    static_cast<void>(GPU(GetLastError)()); // so that nobody else finds it
    return {status_of(error), error_text(what, error)};
}

// For libraries: a thread that was not on the device before has no context, which runtime calls make at their first
// need and libraries do not ("the function failed to launch on the GPU").
inline opdock::Status make_current(DLDevice device) {
    return checked("making a device current", GPU(SetDevice)(device.device_id));
}

// The status of an op that writes its inputs, from that of a later kernel: once the first one runs, it is too late for
// "nothing was touched".
inline opdock::Status after_the_first(opdock::Status status) {
    if (status.ok() || status.code() == OPDOCK_DEVICE_LOST) {
        return status;
    }
    return opdock::failed(status.message() != nullptr ? status.message() : "");
}

} // namespace gpu
