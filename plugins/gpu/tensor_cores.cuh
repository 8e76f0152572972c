// Products of 16-bit numbers on tensor cores (mma.sync, since compute capability 8.0), with sums in f32.
//
// A tile in shared memory has rows of D elements. The 16-byte chunks of a row are permuted within
// groups of eight by the row number, so that the same chunk of eight rows is in different banks.
// A tile is aligned to the size of a row. All threads of a warp work together. Each has four of a
// block of 16 x 8 sums: two adjacent ones in row lane / 4, and two in row lane / 4 + 8.
//
// With GPU_EMULATED the same source runs on the CPU; the functions of the first part are then defined elsewhere.
#pragma once

#include <cstdint>

#include "copy_async.cuh"
#include "numbers.cuh"
#include "reduce.cuh"

namespace gpu {

#ifndef GPU_EMULATED
using SharedAddress = uint32_t;

__device__ __forceinline__ SharedAddress shared_address(const void *pointer) {
    return static_cast<SharedAddress>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ int lane_of_warp() {
    return static_cast<int>(threadIdx.x) % 32;
}

// Loads four blocks of 8 x 8 elements; each thread passes the address of one row.
__device__ __forceinline__ void load_blocks(uint32_t (&to)[4], SharedAddress row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
#endif
}
__device__ __forceinline__ void load_transposed_blocks(uint32_t (&to)[4], SharedAddress row) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(row)
                 : "memory");
#endif
}

// sums += a (16 x 16) b (16 x 8).
template<class T>
__device__ __forceinline__ void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, bf16>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
#endif
}
#endif

// Packs two elements into a register.
template<class T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
    Vector<T, 2> pair;
#ifndef GPU_EMULATED
    if constexpr (std::is_same_v<T, bf16>) { // one instruction for both
        const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
        return *reinterpret_cast<const uint32_t *>(&both);
    } else {
        const __half2 both = __floats2half2_rn(low, high);
        return *reinterpret_cast<const uint32_t *>(&both);
    }
#endif
    pair.elements[0] = from_f32<T>(low);
    pair.elements[1] = from_f32<T>(high);
    return *reinterpret_cast<const uint32_t *>(pair.elements);
}

// Location of chunk `chunk` of a row in a tile.
template<int D, class T>
__device__ __forceinline__ Vector<T, 8> *chunk_of(T *tile, int row, int chunk) {
    return reinterpret_cast<Vector<T, 8> *>(tile + row * D) + (chunk ^ (row & 7));
}

// A thread's address for load_blocks() of 16 rows from `row` on and two chunks: rows of a product, or, transposed, its
// depth. `^ 32` advances by two chunks.
template<int D, class T>
__device__ __forceinline__ SharedAddress rows_address(const T *tile, int row) {
    const int lane = lane_of_warp();
    return shared_address(tile + (row + lane % 16) * D) + static_cast<unsigned>((lane / 16 ^ lane % 8) * 16);
}
// The same for columns of a product.
template<int D, class T>
__device__ __forceinline__ SharedAddress columns_address(const T *tile, int row) {
    const int lane = lane_of_warp();
    return shared_address(tile + (row + lane / 16 * 8 + lane % 8) * D) +
           static_cast<unsigned>((lane / 8 % 2 ^ lane % 8) * 16);
}

// sums += the rows at `left` times the transposed rows at `right` (dot products of rows): M
// blocks of 16 rows at the left, N blocks of 8 at the right.
template<class T, int D, int M, int N>
__device__ __forceinline__ void multiply_rows(float (&sums)[M][N][4], SharedAddress left, SharedAddress right) {
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) {
            load_blocks(a[m], (left ^ (step * 32)) + m * 32 * D);
        }
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            uint32_t b[4];
            load_blocks(b, (right ^ (step * 32)) + n * 16 * D);
#pragma unroll
            for (int m = 0; m < M; ++m) {
                multiply_add<T>(sums[m][n], a[m], b[0], b[1]);
                multiply_add<T>(sums[m][n + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// sums += weights times the 8 N rows at `rows`, for C blocks of eight columns, beginning with
// the one that `rows` points to. `weights` have the layout of sums.
template<class T, int D, int M, int N, int C>
__device__ __forceinline__ void multiply_weights(float (&sums)[M][C][4], const float (&weights)[M][N][4],
                                                 SharedAddress rows) {
#pragma unroll
    for (int n = 0; n < N; n += 2) {
        uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) {
            a[m][0] = pack<T>(weights[m][n][0], weights[m][n][1]);
            a[m][1] = pack<T>(weights[m][n][2], weights[m][n][3]);
            a[m][2] = pack<T>(weights[m][n + 1][0], weights[m][n + 1][1]);
            a[m][3] = pack<T>(weights[m][n + 1][2], weights[m][n + 1][3]);
        }
#pragma unroll
        for (int c = 0; c < C; c += 2) {
            uint32_t b[4];
            load_transposed_blocks(b, (rows ^ (c * 16)) + n * 16 * D);
#pragma unroll
            for (int m = 0; m < M; ++m) {
                multiply_add<T>(sums[m][c], a[m], b[0], b[1]);
                multiply_add<T>(sums[m][c + 1], a[m], b[2], b[3]);
            }
        }
    }
}

// Copies eight elements of an unaligned row of `width` elements, from `at` on, with 0 past the row's end.
template<class T>
__device__ __noinline__ void copy_elements(Vector<T, 8> *to, const T *row, int at, int width) {
    Vector<T, 8> values;
#pragma unroll 1
    for (int k = 0; k < 8; ++k) {
        values.elements[k] = at + k < width ? row[at + k] : from_f32<T>(0.0f);
    }
    *to = values;
}

// Starts to copy a chunk of a row; a null row gives zeros.
template<class T>
__device__ __forceinline__ void copy_chunk(Vector<T, 8> *to, const T *row, int at, int width, bool vectors) {
    if (row == nullptr || at >= width) {
        *reinterpret_cast<uint4 *>(to) = {0, 0, 0, 0};
    } else if (vectors) {
        copy_async(to, reinterpret_cast<const Vector<T, 8> *>(row + at));
    } else {
        copy_elements(to, row, at, width);
    }
}

} // namespace gpu
