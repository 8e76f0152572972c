// Clusters: blocks that run at the same time and can access each other's shared memory. NVIDIA devices have them since
// compute capability 9.0; they are never launched on others.
#pragma once

#include <cstdlib>
#include <cstring>

#include "reduce.cuh"

namespace gpu {

#if !defined(__HIP__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GPU_CLUSTERS
#endif

// True if the call's device has clusters, and runs code that was compiled for them.
inline bool has_clusters(const opdock::Problem &problem) {
#ifdef __HIP__
    static_cast<void>(problem);
#else
    const opdock_device_properties *properties = problem.device_properties();
    if (properties != nullptr && std::strncmp(properties->architecture, "sm_", 3) == 0) {
        const int device = std::atoi(properties->architecture + 3) * 10;
        for (const int compiled : {__CUDA_ARCH_LIST__}) { // a device runs the newest code that it can
            if (compiled >= 900 && compiled <= device) {
                return true;
            }
        }
    }
#endif
    return false;
}

// Makes earlier writes of all threads of the cluster visible to all of them. All threads take part.
__device__ __forceinline__ void wait_for_cluster() {
#ifdef GPU_CLUSTERS
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Split barrier: once the second call returns, all blocks of the cluster have begun. Work that needs no other block
// goes in between. All threads take part in both.
__device__ __forceinline__ void arrive_at_cluster() {
#ifdef GPU_CLUSTERS
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wait_for_arrivals() {
#ifdef GPU_CLUSTERS
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Writes to the location of `shared` in the block of the given rank.
__device__ __forceinline__ void store_in_cluster(float *shared, int rank, float value) {
#ifdef GPU_CLUSTERS
    asm volatile(
        "{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %0, %1;\n\t"
        "st.shared::cluster.f32 [there], %2;\n\t}" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))),
        "r"(rank), "f"(value)
        : "memory");
#else
    static_cast<void>(shared), static_cast<void>(rank), static_cast<void>(value);
#endif
}

// Reads the location of `shared` in the block of the given rank.
__device__ __forceinline__ uint64_t load_from_cluster(const uint64_t *shared, int rank) {
    uint64_t value = *shared;
#ifdef GPU_CLUSTERS
    asm volatile("{\n\t.reg .u32 there;\n\tmapa.shared::cluster.u32 there, %1, %2;\n\t"
                 "ld.shared::cluster.u64 %0, [there];\n\t}"
                 : "=l"(value)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "r"(rank)
                 : "memory");
#else
    static_cast<void>(rank);
#endif
    return value;
}

// Cluster size that every device with clusters supports.
inline constexpr int most_ranks = 8;

// Each thread gets the values of one block of the cluster, in turn. `shared`, of count * most_ranks floats, is at the
// same place in all. Before the first call, the blocks must have waited once, so that all of them have begun.
template<int count>
__device__ __forceinline__ void exchange_in_cluster(float (&values)[count], int rank, int ranks, float *shared) {
    if (thread_in_block() < ranks) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            store_in_cluster(shared + i * most_ranks + rank, thread_in_block(), values[i]);
        }
    }
    wait_for_cluster();
#pragma unroll
    for (int i = 0; i < count; ++i) {
        values[i] = shared[i * most_ranks + (thread_in_block() & (ranks - 1))];
    }
}

// reduce() over two blocks of at most 512 threads each. `shared`, as in reduce(), is at the same place in both. Before
// the first call, the blocks must have waited for each other once, so that both have begun.
template<class Operation, int count>
__device__ __forceinline__ void reduce_in_cluster(float (&values)[count], float *shared) {
    reduce_lanes<Operation>(values, warp_size());
    const int warps = static_cast<int>(blockDim.x) / warp_size();
    const int lane = thread_in_block() % warp_size();
    const int warp = thread_in_block() / warp_size();
    if (lane < 2) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            store_in_cluster(shared + i * most_warps + static_cast<int>(blockIdx.x) % 2 * warps + warp, lane,
                             values[i]);
        }
    }
    wait_for_cluster();
#pragma unroll
    for (int i = 0; i < count; ++i) {
        values[i] = shared[i * most_warps + (lane & (2 * warps - 1))];
    }
    reduce_lanes<Operation>(values, 2 * warps);
}

} // namespace gpu
