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

// Every kernel begins with it, or with what place_of() or functions *_by_parameters find (tests/check_waits.py). A
// kernel after another one of this plugin in a graph may start before that ends ("programmatic dependent launch",
// launch.cu), and may touch no memory until then, not even to read: the kernel before may write it.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel start early if this one has at most so many blocks: more are slower where they still have to
// read. Kernels that may write parameters of a model do not call it: kernels of others read those without waiting.
__device__ __forceinline__ void let_the_next_start(unsigned most_blocks) {
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (gridDim.x <= most_blocks) {
        asm volatile("griddepcontrol.launch_dependents;");
    }
#else
    static_cast<void>(most_blocks);
#endif
}

// Puts a kernel on the call's stream; the launch's own error is returned. Nothing is launched for no blocks.
opdock::Status launch_kernel(const opdock::Call &call, const Grid &grid, const void *kernel, void **arguments);

template<class... Parameters, class... Arguments>
opdock::Status launch(const opdock::Call &call, const Grid &grid, void (*kernel)(Parameters...),
                      Arguments &&...arguments) {
    // What a kernel takes may differ from what is passed (int64_t from int); it reads its own types.
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

// Compute units of the call's device, for kernels whose blocks stay.
inline int compute_units(const opdock::Problem &problem) {
    const opdock_device_properties *properties = problem.device_properties();
    return properties != nullptr && properties->compute_units != 0 ? static_cast<int>(properties->compute_units) : 64;
}

} // namespace gpu
