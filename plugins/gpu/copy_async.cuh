// Copies from global to shared memory that a thread starts without waiting for them. A thread sees what it copied
// itself once it has waited for that; others do after a barrier besides.
#pragma once

#include "runtime.hpp"

namespace gpu {

// Whether copies go on by themselves; else they are done on return, by way of registers.
#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GPU_COPIES_ASYNC
#endif

// 16 bytes, both sides aligned to them.
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

// The same where it exists, which may be nowhere in memory else, and zeros where it does not.
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

// Copies since the last call become one group.
__device__ __forceinline__ void end_group_of_copies() {
#ifdef GPU_COPIES_ASYNC
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until no more than the `last` groups are under way.
template<int last>
__device__ __forceinline__ void wait_for_copies_but() {
#ifdef GPU_COPIES_ASYNC
    asm volatile("cp.async.wait_group %0;" ::"n"(last) : "memory");
#endif
}

} // namespace gpu
