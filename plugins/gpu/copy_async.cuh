// Asynchronous copies from global to shared memory. A thread sees its own copies once it has waited for them; other
// threads see them after a subsequent barrier.
#pragma once

#include "runtime.hpp"

namespace gpu {

// Defined if copies are asynchronous; otherwise they go through registers and are done on return.
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GPU_COPIES_ASYNC
#endif

// Copies 16 bytes; both addresses are aligned to 16.
template<class Vector>
__device__ __forceinline__ void copy_async(Vector *shared, const Vector *global) {
    static_assert(sizeof(Vector) == 16);
#ifdef GPU_COPIES_ASYNC
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(__cvta_generic_to_global(global))
        : "memory");
#else
    *shared = *global;
#endif
}

// The same if the source exists. Otherwise it writes zeros, and `global` may point anywhere.
template<class Vector>
__device__ __forceinline__ void copy_async_or_clear(Vector *shared, const Vector *global, bool exists) {
    static_assert(sizeof(Vector) == 16);
#ifdef GPU_COPIES_ASYNC
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "l"(__cvta_generic_to_global(global)), "r"(exists ? 16 : 0)
        : "memory");
#else
    if (exists) {
        *shared = *global;
    } else {
        *reinterpret_cast<uint4 *>(shared) = {0, 0, 0, 0};
    }
#endif
}

// Makes a group of the copies since the last call.
__device__ __forceinline__ void end_group_of_copies() {
#ifdef GPU_COPIES_ASYNC
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the `last` most recent groups are in flight.
template<int last>
__device__ __forceinline__ void wait_for_copies_but() {
#ifdef GPU_COPIES_ASYNC
    asm volatile("cp.async.wait_group %0;" ::"n"(last) : "memory");
#endif
}

} // namespace gpu
