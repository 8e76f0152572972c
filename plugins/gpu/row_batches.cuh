// Rows that are too long for registers: a few vectors of each thread at a time, so that their reads overlap.
#pragma once

#include "rows.cuh"

namespace gpu {

// Vectors of a thread that are on their way at once.
inline constexpr int batch = 4;

// body(from, count): the elements of a row that are next, for a Row<T, N, V>. An element belongs to the same thread in
// every pass.
template<int N, int V = batch, class Body>
__device__ __forceinline__ void in_batches(int64_t n, const Place &place, Body body) {
    const int64_t step = static_cast<int64_t>(V) * N * place.threads;
    for (int64_t from = 0; from < n; from += step) {
        body(from, min(n - from, step));
    }
}

// Zeros for the elements [from, n) of a row, whole vectors.
template<int N, class T>
__device__ __forceinline__ void clear(T *row, int64_t from, int64_t n, const Place &place) {
    const float zeros[N] = {};
    for (int64_t i = from + static_cast<int64_t>(place.thread) * N; i < n;
         i += static_cast<int64_t>(place.threads) * N) {
        store<N>(row + i, zeros);
    }
}

} // namespace gpu
