// The kernels of attention_bwd on tensor cores, for f16 and bf16.
#pragma once

#include "attention_bwd_slopes.cuh"
#include "attention_cores.cuh"

namespace gpu {

// A warp has 16 rows, and two tiles of the other side are being copied at a time.
template<class T, int D>
struct BackwardTiles {
    static constexpr int rows = core_warps * 16;
    static constexpr int others = D == 256 ? 32 : 64;
    static constexpr int columns = D == 256 ? 128 : D; // columns per block of the gradients of keys and values
    static constexpr int numbers = 4 * others * static_cast<int>(sizeof(float)); // log sums and projections
    static constexpr int bytes = (2 * rows + 4 * others) * D * static_cast<int>(sizeof(T)) + numbers;
};

// Slopes, scaled for a product. f16 has a small exponent range, so there each row of slopes and
// the row's sums are scaled by a power of 2 that follows from the row's largest slope so far.
template<class T>
struct SlopeRange {
    static constexpr float start = std::is_same_v<T, f16> ? 0x1p126f : 1.0f;
    float factors[2] = {start, start}; // one for each of the thread's rows

    __device__ __forceinline__ float inverse(int half) const { return 1.0f / factors[half]; }

    template<int N, int C>
    __device__ __forceinline__ void fit(float (&slopes)[1][N][4], float (&sums)[1][C][4]) {
        if constexpr (std::is_same_v<T, f16>) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float largest[1] = {0.0f};
#pragma unroll
                for (int k = 0; k < 2 * N; ++k) {
                    const float size = fabsf(slopes[0][k / 2][half * 2 + k % 2]);
                    largest[0] = fmaxf(largest[0], size == INFINITY ? 0.0f : size);
                }
                reduce_lanes<Largest>(largest, 4);
                if (largest[0] * factors[half] > 0x1p14f) {
                    const uint32_t exponent = __float_as_uint(largest[0]) >> 23;
                    const float next = __uint_as_float(min(127u + 8u + 127u - exponent, 253u) << 23);
                    const float by = next / factors[half];
                    factors[half] = next;
#pragma unroll
                    for (int k = 0; k < 2 * C; ++k) {
                        sums[0][k / 2][half * 2 + k % 2] *= by;
                    }
                }
#pragma unroll
                for (int k = 0; k < 2 * N; ++k) {
                    slopes[0][k / 2][half * 2 + k % 2] *= factors[half];
                }
            }
        }
    }
};

// Turns the dot products of a warp's rows (queries or keys) and 8 N rows of the other side into weights, and the
// products with the values into slopes. `number` returns the log sum and the projection of a query.
template<bool of_keys, class T, int N, class Number>
__device__ __forceinline__ void change_to_slopes(float (&z)[1][N][4], float (&products)[1][N][4],
                                                 const BackwardArguments<T> &all, const Sequence &one, int head,
                                                 int row, int other, bool is_plain, Number number) {
    const Attention &a = all.attention;
    const int lane = lane_of_warp();
    const float inverse = a.soft_cap > 0 ? a.factor / a.soft_cap : 0.0f, cap = a.soft_cap * log2_e;
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const float2 of_query = number(n, k);
            float &dot = z[0][n][k], &product = products[0][n][k];
            if (is_plain) {
                const Slope slope = slope_of(fmaf(dot, a.factor, -of_query.x), 1.0f, product, of_query.y);
                dot = slope.weight;
                product = slope.of_dot;
                continue;
            }
            const int mine = row + k / 2 * 8 + lane / 4, its = other + n * 8 + lane % 4 * 2 + k % 2;
            const int query = of_keys ? its : mine, key = of_keys ? mine : its;
            const bool exists = query < one.queries && key < one.keys;
            const float bias = exists ? bias_of(all.bias, one, head, query, key) : 0.0f;
            const float t = a.soft_cap > 0 ? tanh_of(dot * inverse) : 0.0f;
            const float score = a.soft_cap > 0 ? cap * t : dot * a.factor;
            Slope slope = slope_of(score + bias - of_query.x, fmaf(-t, t, 1.0f), product, of_query.y);
            slope = dot == -INFINITY ? Slope{0.0f, 0.0f, 0.0f} : slope; // hidden
            dot = slope.weight;
            product = slope.of_dot;
            if (!of_keys && exists && all.grad_bias.data != nullptr) {
                all.grad_bias.at(one.batch, head, one.query + query, one.key + key) = from_f32<T>(slope.of_bias);
            }
        }
    }
}

// The same, with 0 for hidden keys.
template<bool of_keys, class T, int N, class Number>
__device__ __forceinline__ void to_slopes(float (&z)[1][N][4], float (&products)[1][N][4],
                                          const BackwardArguments<T> &all, const Sequence &one, int head,
                                          const CoreRows<of_keys> &rows, int other, bool is_plain, Number number) {
    const Attention &a = all.attention;
    const bool hides = !rows.go_with_all(other, 8 * N);
    if (hides && !is_plain) {
        rows.hide(z, -INFINITY, a, one, other);
    }
    change_to_slopes<of_keys>(z, products, all, one, head, rows.first, other, is_plain, number);
    if (hides && is_plain) { // only now, since a query whose log sum is NaN does not contribute either
        rows.hide(z, 0.0f, a, one, other);
        rows.hide(products, 0.0f, a, one, other);
    }
}

// Starts to copy two tiles of the other side into adjacent buffers: keys and values, or queries and gradients.
template<class T, int D, bool of_keys>
__device__ __forceinline__ void stage_pair(const CoreBlock<of_keys, 16> &block, int head, int first,
                                           const HeadRows<const T> &left, int left_width,
                                           const HeadRows<const T> &right, int right_width, T *to) {
    constexpr int others = BackwardTiles<T, D>::others;
    stage_rows<D, others>(block.other(left, head, first, left_width), to);
    stage_rows<D, others>(block.other(right, head, first, right_width), to + others * D);
}

// Adds the contribution of the keys from `first` on, staged in `keys` with their values, to a warp's query gradients.
template<class T, int D>
__device__ __forceinline__ void add_keys(const BackwardArguments<T> &all, const CoreBlock<false, 16> &block, int first,
                                         const T *queries, const T *grads, T *keys, const float2 (&numbers)[2],
                                         float (&sums)[1][D / 8][4], SlopeRange<T> &slopes) {
    constexpr int others = BackwardTiles<T, D>::others;
    const bool has_bias = all.bias.data != nullptr;
    const bool is_plain = has_plain_scores(all.attention, has_bias || all.grad_bias.data != nullptr);
    const bool takes_part = block.rows.go_with_any(first, others);
    float z[1][others / 8][4] = {}, products[1][others / 8][4] = {};
    if (takes_part) {
        multiply_rows<T, D>(z, rows_address<D>(queries, block.warp_row), columns_address<D>(keys, 0));
        multiply_rows<T, D>(products, rows_address<D>(grads, block.warp_row), columns_address<D>(keys, others));
        to_slopes(z, products, all, block.tile.sequence, block.tile.head, block.rows, first, is_plain,
                  [&](int /*n*/, int k) { return numbers[k / 2]; });
        slopes.fit(products, sums);
    }
    multiply_seen<D, others>(sums, products, rows_address<D>(keys, 0), takes_part,
                             has_bias || !block.all_rows.go_with_all(first, others),
                             block.other(all.key, block.group, first, all.attention.d), keys);
}

template<class T, int D>
__global__ void __launch_bounds__(core_threads) query_gradients_kernel(GPU_READ_ONLY const BackwardArguments<T> all) {
    wait_for_earlier_kernels();
    using Tiles = BackwardTiles<T, D>;
    constexpr int others = Tiles::others;
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    T *queries = reinterpret_cast<T *>(shared_bytes), *grads = queries + Tiles::rows * D;
    T *buffers = grads + Tiles::rows * D; // keys and values, double-buffered
    const Attention &a = all.attention;
    const Tile tile = tile_of(a, blockIdx.x, Tiles::rows, false);
    if (tile.count <= 0) {
        return;
    }
    const CoreBlock<false, 16> block(a, tile);
    const KeyRange range = block.others;
    const Sequence &one = tile.sequence;
    const auto stage = [&](int first, T *to) {
        if (first < range.end) {
            stage_pair<T, D>(block, block.group, first, all.key, a.d, all.value, a.e, to);
        }
        end_group_of_copies();
    };
    stage_rows<D, Tiles::rows>(block.own(all.query, a.d), queries);
    stage_rows<D, Tiles::rows>(block.own(all.grad, a.e), grads);
    stage(range.begin, buffers);
    float2 numbers[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int query = block.rows.first + half * 8 + lane_of_warp() / 4;
        numbers[half] = {all.log_sum_of(one, tile.head, query), all.projection_of(one, tile.head, query)};
    }
    float sums[1][D / 8][4] = {};
    SlopeRange<T> slopes;
    int slot = 0;
    for (int first = range.begin; first < range.end; first += others, slot ^= 1) {
        wait_for_copies_but<0>();
        __syncthreads(); // the tile has arrived, and no thread still reads the one before
        stage(first + others, buffers + (slot ^ 1) * 2 * others * D);
        add_keys<T, D>(all, block, first, queries, grads, buffers + slot * 2 * others * D, numbers, sums, slopes);
    }
    wait_for_copies_but<0>();
    __syncthreads();
    const float by[1][2] = {{all.scale * slopes.inverse(0), all.scale * slopes.inverse(1)}};
    put_core_rows<D>(all.grad_query, one.batch, one.query + block.rows.first, tile.head, tile.count - block.warp_row,
                     a.d, sums, by, queries + block.warp_row * D);
}

// The gradients of a warp's keys and values: `columns` of their columns, from `first_column` on.
template<class T, int columns>
struct KeyGradients {
    int first_column;
    float of_keys[1][columns / 8][4] = {}, of_values[1][columns / 8][4] = {};
    SlopeRange<T> slopes;

    __device__ __forceinline__ explicit KeyGradients(int first) : first_column(first) {}
};

// Adds the contribution of the queries from `first` on, staged in `queries` with their output gradients.
template<class T, int D, int columns>
__device__ __forceinline__ void add_queries(const BackwardArguments<T> &all, const CoreBlock<true, 16> &block, int head,
                                            int first, const T *keys, const T *values, T *queries,
                                            const float2 *numbers, KeyGradients<T, columns> &sums) {
    constexpr int others = BackwardTiles<T, D>::others;
    T *grads = queries + others * D;
    const Attention &a = all.attention;
    const bool has_bias = all.bias.data != nullptr, is_plain = has_plain_scores(a, has_bias);
    const bool takes_part = block.rows.go_with_any(first, others);
    float z[1][others / 8][4] = {}, products[1][others / 8][4] = {};
    if (takes_part) {
        multiply_rows<T, D>(z, rows_address<D>(keys, block.warp_row), columns_address<D>(queries, 0));
        multiply_rows<T, D>(products, rows_address<D>(values, block.warp_row), columns_address<D>(grads, 0));
        const float2 *of_tile = numbers + lane_of_warp() % 4 * 2;
        to_slopes(z, products, all, block.tile.sequence, head, block.rows, first, is_plain,
                  [&](int n, int k) { return of_tile[n * 8 + k % 2]; });
        sums.slopes.fit(products, sums.of_keys);
    }
    const bool may_hide = has_bias || !block.all_rows.go_with_all(first, others);
    const auto at = static_cast<unsigned>(sums.first_column * 2);
    multiply_seen<D, others>(sums.of_values, z, rows_address<D>(grads, 0) ^ at, takes_part, may_hide,
                             block.other(all.grad, head, first, a.e), grads);
    multiply_seen<D, others>(sums.of_keys, products, rows_address<D>(queries, 0) ^ at, takes_part, may_hide,
                             block.other(all.query, head, first, a.d), queries);
}

// Writes a warp's columns of one of the gradients, through the warp's rows of a tile.
template<class T, int D, int columns>
__device__ __forceinline__ void put_columns(HeadRows<T> to, int width, const CoreBlock<true, 16> &block,
                                            int first_column, const float (&sums)[1][columns / 8][4],
                                            const float (&by)[1][2], T *tile) {
    to.data += first_column;
    put_core_rows<columns>(to, block.tile.sequence.batch, block.tile.sequence.key + block.rows.first, block.tile.head,
                           block.tile.count - block.warp_row, width - first_column, sums, by,
                           tile + block.warp_row * D);
}

// A block has all columns of the gradients, or half of them.
template<class T, int D>
__global__ void __launch_bounds__(core_threads) key_gradients_kernel(GPU_READ_ONLY const BackwardArguments<T> all) {
    wait_for_earlier_kernels();
    using Tiles = BackwardTiles<T, D>;
    constexpr int others = Tiles::others, columns = Tiles::columns;
    extern __shared__ __align__(1024) unsigned char shared_bytes[];
    T *keys = reinterpret_cast<T *>(shared_bytes), *values = keys + Tiles::rows * D;
    T *buffers = values + Tiles::rows * D; // queries and gradients, double-buffered
    auto *numbers = reinterpret_cast<float2 *>(buffers + 4 * others * D);
    const Attention &a = all.attention;
    const Tile tile = tile_of(a, blockIdx.x / (D / columns), Tiles::rows, true);
    if (tile.count <= 0) {
        return;
    }
    const CoreBlock<true, 16> block(a, tile);
    const KeyRange range = block.others;
    const Sequence &one = tile.sequence;
    float2 number = {INFINITY, 0.0f}; // for a query of the tile that is being copied
    const int thread = static_cast<int>(threadIdx.x), last_head = (tile.head + 1) * a.heads_per_key;
    const auto stage = [&](int head, int first, T *to) {
        if (head < last_head) {
            stage_pair<T, D>(block, head, first, all.query, a.d, all.grad, a.e, to);
            if (thread < others) {
                number = {all.log_sum_of(one, head, first + thread), all.projection_of(one, head, first + thread)};
            }
        }
        end_group_of_copies();
    };
    stage_rows<D, Tiles::rows>(block.own(all.key, a.d), keys);
    stage_rows<D, Tiles::rows>(block.own(all.value, a.e), values);
    int head = range.begin < range.end ? tile.head * a.heads_per_key : last_head, first = range.begin, slot = 0;
    stage(head, first, buffers);
    KeyGradients<T, columns> sums(static_cast<int>(blockIdx.x % (D / columns)) * columns);
    while (head < last_head) {
        if (thread < others) {
            numbers[slot * others + thread] = number;
        }
        wait_for_copies_but<0>();
        __syncthreads(); // the tile has arrived, and no thread still reads the one before
        const bool is_last = first + others >= range.end;
        const int next_head = is_last ? head + 1 : head, next = is_last ? range.begin : first + others;
        stage(next_head, next, buffers + (slot ^ 1) * 2 * others * D);
        add_queries<T, D>(all, block, head, first, keys, values, buffers + slot * 2 * others * D,
                          numbers + slot * others, sums);
        head = next_head;
        first = next;
        slot ^= 1;
    }
    wait_for_copies_but<0>();
    __syncthreads();
    const float by_keys[1][2] = {{all.scale * sums.slopes.inverse(0), all.scale * sums.slopes.inverse(1)}};
    const float by_values[1][2] = {{1.0f, 1.0f}};
    put_columns<T, D, columns>(all.grad_key, a.d, block, sums.first_column, sums.of_keys, by_keys, keys);
    put_columns<T, D, columns>(all.grad_value, a.e, block, sums.first_column, sums.of_values, by_values, values);
}

} // namespace gpu
