#include "launch.hpp"

#ifndef __HIP__
#include <array>

#include <cuda.h> // only types: the runtime looks up the driver's functions
#endif

namespace gpu {

#ifdef __HIP__

opdock::Status launch_kernel(const opdock::Call &call, const Grid &grid, const void *kernel, void **arguments) {
    if (grid.blocks == 0) {
        return {};
    }
    const dim3 blocks(static_cast<unsigned>(grid.blocks)), threads(static_cast<unsigned>(grid.threads));
    const auto stream = static_cast<Stream>(call.stream());
    return checked("launching a kernel",
                   hipLaunchKernel(kernel, blocks, threads, arguments, grid.shared_bytes, stream));
}

#else

namespace {

// State of a capture of a stream into a graph.
struct Captured {
    unsigned long long capture = 0; // 0 if nothing is captured
    cudaGraphNode_t last = nullptr; // the next node's predecessor, if there is exactly one
};

Captured captured(Stream stream) {
#if CUDART_VERSION >= 12030 // graphs have programmatic edges since then
#if CUDART_VERSION < 13000
    constexpr auto get_info = cudaStreamGetCaptureInfo_v3;
#else
    constexpr auto get_info = cudaStreamGetCaptureInfo;
#endif
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    unsigned long long capture = 0;
    const cudaGraphNode_t *nodes = nullptr;
    const cudaGraphEdgeData *edges = nullptr;
    size_t count = 0;
    if (get_info(stream, &status, &capture, nullptr, &nodes, &edges, &count) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
    } else if (status == cudaStreamCaptureStatusActive) {
        return {capture, count == 1 ? nodes[0] : nullptr};
    }
#else
    static_cast<void>(stream);
#endif
    return {};
}

// True if the kernel's code waits for earlier kernels. Code for an older device does not, even
// if the driver compiled it for this device.
bool waits(const void *kernel) {
    cudaFuncAttributes attributes = {};
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    return attributes.ptxVersion >= 90;
}

thread_local Captured own; // after the last kernel of this plugin that this thread captured

cudaError_t as_runtime(CUresult result) {
    return static_cast<cudaError_t>(result); // both use the same numbers
}

template<class Function>
void find(const char *name, unsigned version, Function *&function) {
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    void *address = nullptr;
#if CUDART_VERSION >= 12050
    const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault, &found);
#else
    static_cast<void>(version);
    const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &found);
#endif
    if (error == cudaSuccess && found == cudaDriverEntryPointSuccess) {
        function = reinterpret_cast<Function *>(address);
    } else {
        static_cast<void>(cudaGetLastError());
    }
}

// The driver's functions that every launch needs. The runtime's launch looks up the kernel
// each time, and its query for a capture takes three times as long.
struct Driver {
    CUresult (*launch)(const CUlaunchConfig *, CUfunction, void **, void **) = nullptr;
    CUresult (*is_capturing)(CUstream, CUstreamCaptureStatus *) = nullptr;
    CUresult (*context_id)(CUcontext, unsigned long long *) = nullptr; // ID of the current context; never reused

    Driver() {
        find("cuLaunchKernelEx", 11060, launch);
        find("cuStreamIsCapturing", 10000, is_capturing);
        find("cuCtxGetId", 12000, context_id);
    }
    explicit operator bool() const { return launch != nullptr && is_capturing != nullptr && context_id != nullptr; }
};

// The driver's handle of a kernel in the current context. Each thread caches the handles of kernels that it launched.
cudaError_t function_of(const Driver &driver, const void *kernel, CUfunction *function) {
    struct Known {
        const void *kernel = nullptr;
        unsigned long long context = 0;
        CUfunction function = nullptr;
    };
    constexpr int bits = 8;
    thread_local std::array<Known, 1 << bits> all;
    unsigned long long context = 0;
    CUresult error = driver.context_id(nullptr, &context);
    if (error == CUDA_ERROR_INVALID_CONTEXT) { // a thread gets one with its first runtime call that needs it
        int device = 0;
        if (cudaGetDevice(&device) == cudaSuccess && cudaSetDevice(device) == cudaSuccess) {
            error = driver.context_id(nullptr, &context);
        }
    }
    if (error != CUDA_SUCCESS) {
        return as_runtime(error);
    }
    Known &known = all[(reinterpret_cast<uint64_t>(kernel) * 0x9e3779b97f4a7c15u) >> (64 - bits)];
    if (known.kernel != kernel || known.context != context) {
        cudaFunction_t found = nullptr;
        if (const cudaError_t missing = cudaGetFuncBySymbol(&found, kernel); missing != cudaSuccess) {
            return missing;
        }
        known = {kernel, context, found};
    }
    *function = known.function;
    return cudaSuccess;
}

bool is_capturing(const Driver &driver, Stream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver.is_capturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE;
}

} // namespace

// In a graph, a kernel that directly follows another kernel of this plugin is launched so that it
// starts while that one ends: starting takes a third of the time of a short kernel. After other
// kernels this is slower than a normal launch (by 0.5 us after a cuBLAS product on an H200).
// Outside of graphs the preceding kernel is not known, and the host takes longer than the device.
opdock::Status launch_kernel(const opdock::Call &call, const Grid &grid, const void *kernel, void **arguments) {
    if (grid.blocks == 0) {
        return {};
    }
    static const Driver driver;
    if (!driver) {
        return opdock::failed_clean(
            "the driver has no cuLaunchKernelEx, cuStreamIsCapturing or cuCtxGetId: it is too old");
    }
    CUfunction function = nullptr;
    if (const cudaError_t error = function_of(driver, kernel, &function); error != cudaSuccess) {
        return checked("finding a kernel", error);
    }
    const auto stream = static_cast<Stream>(call.stream());
    CUlaunchAttribute attributes[2] = {};
    CUlaunchConfig config = {};
    config.gridDimX = static_cast<unsigned>(grid.blocks);
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = static_cast<unsigned>(grid.threads);
    config.blockDimY = config.blockDimZ = 1;
    config.sharedMemBytes = static_cast<unsigned>(grid.shared_bytes);
    config.hStream = stream;
    config.attrs = attributes;
    if (grid.cluster != 1) {
        CUlaunchAttribute &cluster = attributes[config.numAttrs++];
        cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        cluster.value.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
    }
    const Captured before = is_capturing(driver, stream) ? captured(stream) : Captured();
    if (before.last != nullptr && before.capture == own.capture && before.last == own.last && waits(kernel)) {
        CUlaunchAttribute &overlap = attributes[config.numAttrs++];
        overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        overlap.value.programmaticStreamSerializationAllowed = 1;
    }
    const cudaError_t error = as_runtime(driver.launch(&config, function, arguments, nullptr));
    if (before.capture != 0 && error == cudaSuccess) {
        own = captured(stream);
    }
    return checked("launching a kernel", error);
}

#endif

} // namespace gpu
