// Rows that several blocks share.
#pragma once

#include "clusters.cuh"
#include "row_batches.cuh"

namespace gpu {

// The elements of a group of threads: a row, or a part of a row that `ranks` blocks share.
template<class T, int N, bool peels>
struct Share {
    Place place;
    int rank;
    Part part;     // of the row
    int64_t begin; // in the tensor
    Vectors<N, peels> vectors;

    static __device__ __forceinline__ Share of(const T *tensor, int64_t rows, int64_t size, int threads, int ranks) {
        const int rank = static_cast<int>(blockIdx.x) & (ranks - 1);
        Place place = place_of(threads, rows * ranks);
        place.row >>= 31 - __clz(ranks);
        const T *row = tensor + place.row * size;
        const Part part = part_of(row, place.exists ? size : 0, rank, ranks);
        return {place, rank, part, place.row * size + part.begin, Vectors<N, peels>(row + part.begin, part.n)};
    }

    // True if the thread has this element of the row in every pass.
    __device__ __forceinline__ bool has(int64_t i) const {
        const int64_t at = i - part.begin;
        return at >= 0 && at < part.n && vectors.thread_of(at, place) == place.thread;
    }

    // The vectors of the row's part that stay in registers, at most V per thread.
    template<int V>
    __device__ __forceinline__ Row<T, N, V> held(const T *row) const {
        return Row<T, N, V>(row + vectors.begin, vectors.end - vectors.begin, place);
    }
};

// Number of blocks of a cluster that share a row of `vectors` vectors, if one block per row leaves half of the device
// idle: as many as there is room for, as long as each thread has more than one vector.

// Blocks that read in batches. They have 512 threads, two of them per multiprocessor, or 1024 if there is work for all.
inline int share_few_rows(const opdock::Call &call, RowPlan &plan, int64_t rows, int64_t vectors) {
    constexpr int64_t threads = 512;
    const int units = compute_units(call);
    int64_t ranks = 1;
    while (has_clusters(call) && 2 * rows <= units && ranks < most_ranks && rows * ranks <= units &&
           vectors > 2 * threads * ranks) {
        ranks *= 2;
    }
    if (ranks > 1) {
        const bool has_work = rows * ranks <= units && vectors > batch * threads * ranks;
        plan.threads = static_cast<int>(has_work ? 2 * threads : threads);
        plan.rows_of_block = 1;
    }
    return static_cast<int>(ranks);
}

// Blocks of `threads` threads, each block holding up to `held` vectors, one per multiprocessor.
inline int hold_few_rows(const opdock::Call &call, RowPlan &plan, int64_t rows, int64_t vectors, int threads,
                         int64_t held) {
    const int units = compute_units(call);
    int64_t ranks = 1;
    while (has_clusters(call) && 2 * rows <= units && ranks < most_ranks && vectors > int64_t(2) * threads * ranks &&
           (2 * rows * ranks <= units || vectors > held * ranks)) {
        ranks *= 2;
    }
    if (ranks == 1 || vectors > held * ranks) {
        return 1;
    }
    plan.threads = threads;
    plan.rows_of_block = 1;
    return static_cast<int>(ranks);
}

} // namespace gpu
