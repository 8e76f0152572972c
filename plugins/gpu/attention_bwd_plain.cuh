// The kernels of attention_bwd for any device, in f32.
#pragma once

#include "attention_bwd_slopes.cuh"
#include "attention_plain.cuh"

namespace gpu {

template<class T>
__device__ __forceinline__ Slope plain_slope(const BackwardArguments<T> &all, const Sequence &one, int head, int query,
                                             int key, float dot, float product, float log_sum, float projection) {
    const Attention &a = all.attention;
    const KeyRange seen = query < one.queries ? a.seen(one, query) : KeyRange{0, 0};
    if (key < seen.begin || key >= seen.end) {
        return {0.0f, 0.0f, 0.0f};
    }
    const float bias = bias_of(all.bias, one, head, query, key);
    if (a.soft_cap == 0.0f) {
        return slope_of(dot * a.factor + bias - log_sum, 1.0f, product, projection);
    }
    const float t = tanhf(dot * a.factor / a.soft_cap);
    return slope_of(a.soft_cap * log2_e * t + bias - log_sum, fmaf(-t, t, 1.0f), product, projection);
}

template<class T, int G>
__global__ void __launch_bounds__(plain_threads)
    plain_query_gradients_kernel(GPU_READ_ONLY const BackwardArguments<T> all) {
    wait_for_earlier_kernels();
    PlainMemory &shared = plain_memory();
    const Attention &a = all.attention;
    const Tile tile = tile_of(a, blockIdx.x, plain_rows, false);
    if (tile.count <= 0) {
        return;
    }
    const Sequence &one = tile.sequence;
    const int group = tile.head / a.heads_per_key;
    const auto query = plain_queries(all.query, tile, a.d), grad = plain_queries(all.grad, tile, a.e);
    const KeyRange keys = a.seen(one, tile.first, tile.first + tile.count);
    float sums[G][4][4] = {}, log_sums[4], projections[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        log_sums[i] = all.log_sum_of(one, tile.head, tile.first + plain_row() + i);
        projections[i] = all.projection_of(one, tile.head, tile.first + plain_row() + i);
    }
    for (int first = keys.begin; first < keys.end; first += plain_rows) {
        const int n = min(plain_rows, keys.end - first);
        const auto key = plain_rows_of(all.key, one.batch, one.key + first, group, n, a.d);
        float z[4][4] = {}, products[4][4] = {};
        plain_dots(z, query, key, shared);
        plain_dots(products, grad, plain_rows_of(all.value, one.batch, one.key + first, group, n, a.e), shared);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int at = tile.first + plain_row() + i, to = first + plain_column() + k;
                const Slope slope =
                    plain_slope(all, one, tile.head, at, to, z[i][k], products[i][k], log_sums[i], projections[i]);
                shared.slopes[plain_column() + k][plain_row() + i] = slope.of_dot;
                if (all.grad_bias.data != nullptr && at < one.queries && to < keys.end) {
                    all.grad_bias.at(one.batch, tile.head, one.query + at, one.key + to) = from_f32<T>(slope.of_bias);
                }
            }
        }
        __syncthreads();
        plain_add(sums, shared.slopes, key, shared);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (plain_row() + i < tile.count) {
            put_plain_row(all.grad_query, one.batch, one.query + tile.first + plain_row() + i, tile.head, a.d, sums, i,
                          all.scale);
        }
    }
}

template<class T, int G>
__global__ void __launch_bounds__(plain_threads)
    plain_key_gradients_kernel(GPU_READ_ONLY const BackwardArguments<T> all) {
    wait_for_earlier_kernels();
    PlainMemory &shared = plain_memory();
    const Attention &a = all.attention;
    const Tile tile = tile_of(a, blockIdx.x, plain_rows, true);
    if (tile.count <= 0) {
        return;
    }
    const Sequence &one = tile.sequence;
    const auto key = plain_keys(all.key, tile, a.d), value = plain_keys(all.value, tile, a.e);
    const KeyRange queries = a.seeing(one, tile.first, tile.first + tile.count);
    float of_keys[G][4][4] = {}, of_values[G][4][4] = {};
    for (int head = tile.head * a.heads_per_key; head < (tile.head + 1) * a.heads_per_key; ++head) {
        for (int first = queries.begin; first < queries.end; first += plain_rows) {
            const int n = min(plain_rows, queries.end - first);
            const auto query = plain_rows_of(all.query, one.batch, one.query + first, head, n, a.d);
            const auto grad = plain_rows_of(all.grad, one.batch, one.query + first, head, n, a.e);
            float z[4][4] = {}, products[4][4] = {};
            plain_dots(z, key, query, shared);
            plain_dots(products, value, grad, shared);
            __syncthreads(); // needed if there was nothing to multiply
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int at = first + plain_column() + k;
                const float log_sum = all.log_sum_of(one, head, at), projection = all.projection_of(one, head, at);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const Slope slope = plain_slope(all, one, head, at, tile.first + plain_row() + i, z[i][k],
                                                    products[i][k], log_sum, projection);
                    shared.weights[plain_column() + k][plain_row() + i] = slope.weight;
                    shared.slopes[plain_column() + k][plain_row() + i] = slope.of_dot;
                }
            }
            __syncthreads();
            plain_add(of_values, shared.weights, grad, shared);
            plain_add(of_keys, shared.slopes, query, shared);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int row = one.key + tile.first + plain_row() + i;
        if (plain_row() + i < tile.count) {
            put_plain_row(all.grad_key, one.batch, row, tile.head, a.d, of_keys, i, all.scale);
            put_plain_row(all.grad_value, one.batch, row, tile.head, a.e, of_values, i, 1.0f);
        }
    }
}

} // namespace gpu
