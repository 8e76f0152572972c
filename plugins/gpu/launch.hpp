// Starting kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime.hpp"

namespace gpu {

struct Grid {
    int64_t blocks;
    int threads; // of a block
    size_t shared_bytes = 0;
    int cluster = 1; // blocks of a cluster; more than one where has_clusters() says so
};

__host__ __device__ inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

inline int64_t next_power_of_two(int64_t n) {
    int64_t power = 1;
    while (power < n) {
        power *= 2;
    }
    return power;
}

// Puts kernel(arguments...) on the call's stream; the launch's own error is returned. Nothing is launched for no
// blocks.
template<class... Parameters, class... Arguments>
opdock::Status launch(const opdock::Call &call, const Grid &grid, void (*kernel)(Parameters...),
                      Arguments &&...arguments) {
    if (grid.blocks == 0) {
        return {};
    }
    // What a kernel takes may differ from what is passed (int64_t from int); it reads its own types.
    return [&](Parameters... converted) {
        void *pointers[] = {static_cast<void *>(&converted)...};
        const void *const start = reinterpret_cast<const void *>(kernel);
        const dim3 blocks(static_cast<unsigned>(grid.blocks)), threads(static_cast<unsigned>(grid.threads));
        const auto stream = static_cast<Stream>(call.stream());
#ifndef __HIP__
        if (grid.cluster != 1) {
            cudaLaunchAttribute cluster = {};
            cluster.id = cudaLaunchAttributeClusterDimension;
            cluster.val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
            cudaLaunchConfig_t config = {};
            config.gridDim = blocks;
            config.blockDim = threads;
            config.dynamicSmemBytes = grid.shared_bytes;
            config.stream = stream;
            config.attrs = &cluster;
            config.numAttrs = 1;
            return checked("launching a kernel", cudaLaunchKernelExC(&config, start, pointers));
        }
#endif
        return checked("launching a kernel",
                       GPU(LaunchKernel)(start, blocks, threads, pointers, grid.shared_bytes, stream));
    }(std::forward<Arguments>(arguments)...);
}

// Compute units of the call's device, for kernels whose blocks stay.
inline int compute_units(const opdock::Problem &problem) {
    const opdock_device_properties *properties = problem.device_properties();
    return properties != nullptr && properties->compute_units != 0 ? static_cast<int>(properties->compute_units) : 64;
}

} // namespace gpu
