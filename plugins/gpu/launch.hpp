// Launching kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime.hpp"

namespace gpu {

struct Grid {
    int64_t blocks;
    int threads; // per block
    size_t shared_bytes = 0;
    int cluster = 1; // blocks per cluster; more than one only if has_clusters()
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

// Every kernel calls this first; only results of place_of() and of functions *_by_parameters may be computed before it
// (tests/check_waits.py). In a graph, a kernel may start before the preceding kernel of this plugin ends ("programmatic
// dependent launch", launch.cu). Until then it must not even read memory, since the preceding kernel may write it.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start early if this one has at most `most_blocks` blocks: with more, those that still read are
// slowed down. Not for kernels that may write a model's parameters: other kernels read those without waiting.
__device__ __forceinline__ void let_the_next_start(unsigned most_blocks) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (gridDim.x <= most_blocks) {
        asm volatile("griddepcontrol.launch_dependents;");
    }
#else
    static_cast<void>(most_blocks);
#endif
}

// Puts a kernel on the call's stream, and returns the launch's own error. Launches nothing if there are no blocks.
opdock::Status launch_kernel(const opdock::Call &call, const Grid &grid, const void *kernel, void **arguments);

template<class... Parameters, class... Arguments>
opdock::Status launch(const opdock::Call &call, const Grid &grid, void (*kernel)(Parameters...),
                      Arguments &&...arguments) {
    // Converts arguments to the kernel's parameter types (such as int to int64_t).
    return [&](Parameters... converted) {
#ifdef GPU_EMULATED // tests/emulated/hip/hip_runtime.h
        const std::function<void()> entry = [&] { kernel(converted...); };
        return launch_kernel(call, grid, &entry, nullptr);
#else
        void *pointers[] = {static_cast<void *>(&converted)...};
        return launch_kernel(call, grid, reinterpret_cast<const void *>(kernel), pointers);
#endif
    }(std::forward<Arguments>(arguments)...);
}

// Compute units of the call's device, for kernels with resident blocks.
inline int compute_units(const opdock::Problem &problem) {
    const opdock_device_properties *properties = problem.device_properties();
    return properties != nullptr && properties->compute_units != 0 ? static_cast<int>(properties->compute_units) : 64;
}

} // namespace gpu
