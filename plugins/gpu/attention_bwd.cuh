// The kernels of attention_bwd, none with atomic sums: one for the dot products of gradients and outputs, one with a
// block per tile of queries (for their gradients and the bias's), and one with a block per tile of keys and values.
#pragma once

#include "attention_bwd_plain.cuh"
#ifndef __HIP__
#include "attention_bwd_cores.cuh"
#endif

namespace gpu {

// Launches for heads of up to D elements. A tile of keys has a block for each of `parts` of its columns.
template<class T, int D>
struct PlainBackward {
    static constexpr int threads = plain_threads, rows = plain_rows, parts = 1, bytes = sizeof(PlainMemory);
    static constexpr auto of_queries = &plain_query_gradients_kernel<T, D / 64>;
    static constexpr auto of_keys = &plain_key_gradients_kernel<T, D / 64>;
};
#ifdef __HIP__
template<class T, int D>
using Backward = PlainBackward<T, D>;
#else
template<class T, int D>
struct CoreBackward {
    using Tiles = BackwardTiles<T, D>;
    static constexpr int threads = core_threads, rows = Tiles::rows, parts = D / Tiles::columns, bytes = Tiles::bytes;
    static constexpr auto of_queries = &query_gradients_kernel<T, D>;
    static constexpr auto of_keys = &key_gradients_kernel<T, D>;
};
template<class T, int D>
using Backward = std::conditional_t<sizeof(T) == 2, CoreBackward<T, D>, PlainBackward<T, D>>;
#endif

} // namespace gpu
