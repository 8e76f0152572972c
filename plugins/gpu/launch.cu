#include "launch.hpp"

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

// Where a capture of a stream into a graph stands.
struct Captured {
    unsigned long long capture = 0; // 0 where nothing is captured
    cudaGraphNode_t last = nullptr; // what the next node will follow, where that is one alone
};

Captured captured(Stream stream) {
#if CUDART_VERSION >= 12030 // whose graphs have programmatic edges
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

// Returns whether the kernel's code waits. Code for an older device does not, also once the driver compiled it for this
// one.
bool waits(const void *kernel) {
    cudaFuncAttributes attributes = {};
    if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    return attributes.ptxVersion >= 90;
}

thread_local Captured own; // after the last kernel of this plugin that this thread captured

} // namespace

// A kernel that directly follows another one of this plugin in a graph is launched so that it starts while that one
// ends: starting costs a third of the time of a short kernel. After kernels of others that takes longer than without (a
// product of cuBLAS: 0.5 us on an H200). Outside of graphs nobody knows who is before, and the host takes longer than
// the device.
opdock::Status launch_kernel(const opdock::Call &call, const Grid &grid, const void *kernel, void **arguments) {
    if (grid.blocks == 0) {
        return {};
    }
    const auto stream = static_cast<Stream>(call.stream());
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
    config.blockDim = dim3(static_cast<unsigned>(grid.threads));
    config.dynamicSmemBytes = grid.shared_bytes;
    config.stream = stream;
    config.attrs = attributes;
    if (grid.cluster != 1) {
        cudaLaunchAttribute &cluster = attributes[config.numAttrs++];
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
    }
    const Captured before = captured(stream);
    if (before.last != nullptr && before.capture == own.capture && before.last == own.last && waits(kernel)) {
        cudaLaunchAttribute &overlap = attributes[config.numAttrs++];
        overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
        overlap.val.programmaticStreamSerializationAllowed = 1;
    }
    const cudaError_t error = cudaLaunchKernelExC(&config, kernel, arguments);
    if (before.capture != 0 && error == cudaSuccess) {
        own = captured(stream);
    }
    return checked("launching a kernel", error);
}

#endif

} // namespace gpu
