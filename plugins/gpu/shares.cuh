// Rows that several blocks share.
#pragma once

#include "clusters.cuh"
#include "row_batches.cuh"

namespace gpu {

// The elements of a group of threads: a row, or a part of one that `ranks` blocks share.
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

    // Whether the thread has this element of the row in every pass.
    __device__ __forceinline__ bool has(int64_t i) const {
        const int64_t at = i - part.begin;
        return at >= 0 && at < part.n && vectors.thread_of(at, place) == place.thread;
    }

    // The vectors of such a row that stay in registers, at most V of each thread.
    template<int V>
    __device__ __forceinline__ Row<T, N, V> held(const T *row) const {
        return Row<T, N, V>(row + vectors.begin, vectors.end - vectors.begin, place);
    }
};

// Chooses how many blocks of a cluster share a row of so many vectors, where a block for each leaves half of the device
// idle: as many as there is room for, as long as each of their threads has more than a vector. All that they hold fits
// into `most_held` vectors of each thread, if that is not 0.
inline int share_few_rows(const opdock::Call &call, RowPlan &plan, int64_t rows, int64_t vectors, int most_held) {
    constexpr int64_t threads = 512; // one block reads while another one writes
    const int units = compute_units(call);
    if (!has_clusters(call) || 2 * rows > units) {
        return 1;
    }
    int64_t ranks = 1;
    const auto fits = [&](int64_t of_block) { return most_held == 0 || vectors <= most_held * of_block * ranks; };
    while (ranks < most_ranks && vectors > 2 * threads * ranks && (rows * ranks <= units || !fits(2 * threads))) {
        ranks *= 2;
    }
    if (ranks == 1 || !fits(2 * threads)) {
        return 1;
    }
    const bool has_work = rows * ranks <= units && vectors > batch * threads * ranks;
    plan.threads = static_cast<int>(has_work || !fits(threads) ? 2 * threads : threads);
    plan.rows_of_block = 1;
    return static_cast<int>(ranks);
}

} // namespace gpu
