// grouped_linear_fwd, grouped_linear_dgrad and grouped_linear_wgrad: one kernel for
// all groups, whose blocks find their group from the starts on the device. The host
// cannot check these starts; invalid ones cause no access outside the tensors.
//
// On NVIDIA, tensor cores multiply f16 and bf16 if rows are aligned, and on compute capability 9.0 warpgroups do
// (grouped_linear_warpgroups.cu); one plain kernel does everything else.
#include "copy_async.cuh"
#include "grouped_linear.cuh"
#include "numbers.cuh"
#include "ops/ops.hpp"
#include "shared_memory.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

// A block's part of the product; the pointers point to its corner.
template<class T>
struct Tile {
    const T *a, *b;
    T *c;
    int64_t rows, columns, depth; // rows <= 0: nothing to do
};

struct Piece {
    int64_t group, begin, end;
};

// Group g begins with piece start(g) / side + g, which leaves enough pieces for the groups before it. A single thread
// finds the group, but all threads of the block have to call it.
template<class T>
__device__ __forceinline__ Piece find_piece(const Groups<T> &all, int64_t piece, int side) {
    __shared__ Piece found;
    if (threadIdx.x == 0) {
        found = {0, 0, 0};
    }
    __syncthreads();
    for (int64_t g = threadIdx.x; g <= all.groups; g += blockDim.x) {
        const int64_t begin = all.start(g), end = all.start(g + 1);
        const int64_t first = begin / side + g;
        if (piece >= first && (g == all.groups || piece <= end / side + g)) {
            found = {g, begin + (piece - first) * side, end};
        }
    }
    __syncthreads();
    return found;
}

template<class T>
__device__ __forceinline__ Tile<T> find_tile(const Groups<T> &all, int side) {
    const int64_t across = ceil_div(all.columns, side), block = blockIdx.x;
    if (all.a_down) {
        const int64_t down = ceil_div(all.height, side);
        const int64_t group = block / (down * across);
        const int64_t i = block / across % down * side, j = block % across * side;
        const int64_t begin = all.start(group), end = all.start(group + 1);
        return {all.a + begin * all.a_step + i,
                all.b + begin * all.b_step + j,
                all.c + (group * all.height + i) * all.columns + j,
                all.height - i,
                all.columns - j,
                end - begin};
    }
    // Eight tiles down, then the next column: blocks that run at the same time share tiles of both matrices.
    constexpr int64_t band = 8;
    const int64_t first = block / (band * across) * band, left = all.pieces(side) - first;
    const int64_t high = left < band ? left : band, within = block % (band * across);
    const Piece piece = find_piece(all, first + within % high, side);
    const int64_t j = within / high * side;
    return {all.a + piece.begin * all.a_step,
            all.b + piece.group * all.depth * all.columns + j * (all.b_down ? 1 : all.b_step),
            all.c + piece.begin * all.columns + j,
            piece.end - piece.begin,
            all.columns - j,
            piece.group == all.groups ? 0 : all.depth};
}

// --- the plain kernel ------------------------------------------------------------------------------------------------

constexpr int plain_side = 64, plain_depth = 16, plain_block = 256;

// [plain_depth][plain_side] of a matrix, as f32; 0 outside.
struct alignas(16) Panel {
    float at[plain_depth][plain_side + 4];
};

template<class T>
__device__ __forceinline__ void load_plain(const T *from, int64_t step, bool down, int64_t extent, int64_t begin,
                                           int64_t depth, Panel &to) {
#pragma unroll
    for (int n = 0; n < plain_side * plain_depth / plain_block; ++n) {
        const int q = static_cast<int>(threadIdx.x) + n * plain_block;
        const int p = down ? q / plain_side : q % plain_depth, i = down ? q % plain_side : q / plain_depth;
        const bool exists = i < extent && begin + p < depth;
        to.at[p][i] = exists ? to_f32(from[down ? (begin + p) * step + i : i * step + begin + p]) : 0.0f;
    }
}

template<class T>
__global__ void __launch_bounds__(plain_block) plain_kernel(Groups<T> all) {
    wait_for_earlier_kernels();
    __shared__ Panel a, b;
    const Tile<T> tile = find_tile(all, plain_side);
    if (tile.rows <= 0) {
        return;
    }
    const int x = static_cast<int>(threadIdx.x) % 16 * 4, y = static_cast<int>(threadIdx.x) / 16 * 4;
    float sums[4][4] = {};
    for (int64_t begin = 0; begin < tile.depth; begin += plain_depth) {
        load_plain(tile.a, all.a_step, all.a_down, tile.rows, begin, tile.depth, a);
        load_plain(tile.b, all.b_step, all.b_down, tile.columns, begin, tile.depth, b);
        __syncthreads();
#pragma unroll
        for (int p = 0; p < plain_depth; ++p) {
            float of_a[4], of_b[4];
            load<4>(&a.at[p][y], of_a);
            load<4>(&b.at[p][x], of_b);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    sums[i][j] = fmaf(of_a[i], of_b[j], sums[i][j]);
                }
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (y + i < tile.rows && x + j < tile.columns) {
                tile.c[(y + i) * all.columns + x + j] = from_f32<T>(sums[i][j]);
            }
        }
    }
}

// --- tensor cores ----------------------------------------------------------------------------------------------------

#ifndef __HIP__

constexpr int side = 128, step_depth = 64, block = 256, stages = 3;
constexpr int chunks = side * step_depth / 8; // of 16 bytes, in a tile of either matrix
constexpr int64_t tile_bytes = int64_t(stages) * 2 * chunks * 16;
constexpr int64_t besides = 1024; // upper bound for a block's bytes of shared memory besides its tiles

// A tile in shared memory has rows of 8 chunks, or of 16 if it is down. The chunks of a row are permuted by the row
// number, so that the same chunk of eight rows is in eight different banks.
template<bool down>
__device__ __forceinline__ int slot_of(int row, int chunk) {
    return row * (down ? 16 : 8) + (chunk ^ (row & 7));
}

// Starts to copy one step of the depth; 0 outside.
template<class T, bool down>
__device__ __forceinline__ void load_tile(const T *from, int64_t step, int64_t extent, int64_t begin, int64_t depth,
                                          uint4 *to) {
    constexpr int of_row = down ? 16 : 8, rows = block / of_row;
    const int chunk = static_cast<int>(threadIdx.x) % of_row;
#pragma unroll
    for (int i = 0; i < chunks / block; ++i) {
        const int row = static_cast<int>(threadIdx.x) / of_row + i * rows;
        const bool exists =
            down ? begin + row < depth && chunk * 8 < extent : row < extent && begin + chunk * 8 < depth;
        uint4 *const slot = to + slot_of<down>(row, chunk);
        if (exists) {
            const T *const source =
                down ? from + (begin + row) * step + chunk * 8 : from + row * step + begin + chunk * 8;
            copy_async(slot, reinterpret_cast<const uint4 *>(source));
        } else {
            *slot = uint4{};
        }
    }
}

// Loads four matrices of 8 x 8, whose rows the lanes point to in turn; transposed if the tile is down.
template<bool down>
__device__ __forceinline__ void load_matrices(const uint4 *row, uint32_t (&to)[4]) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
    if constexpr (down) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address));
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(address));
    }
}

// Multiplies 16 x 16 by 16 x 8.
template<class T>
__device__ __forceinline__ void multiply_add(const uint32_t (&a)[4], uint32_t b0, uint32_t b1, float (&c)[4]) {
    if constexpr (std::is_same_v<T, f16>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

// Multiplies a warp's 64 x 32 of the tile, from row i and column j on.
template<class T, bool a_down, bool b_down>
__device__ __forceinline__ void multiply_tiles(const uint4 *a, const uint4 *b, int i, int j, float (&sums)[4][4][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8, odd = lane / 8 % 2, high = lane / 16;
#pragma unroll
    for (int p = 0; p < step_depth; p += 16) {
        uint32_t of_a[4][4], of_b[2][4];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            const int first = i + m * 16;
            const int slot = a_down ? slot_of<true>(p + high * 8 + row, first / 8 + odd)
                                    : slot_of<false>(first + odd * 8 + row, p / 8 + high);
            load_matrices<a_down>(a + slot, of_a[m]);
        }
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            const int first = j + n * 16;
            const int slot = b_down ? slot_of<true>(p + odd * 8 + row, first / 8 + high)
                                    : slot_of<false>(first + high * 8 + row, p / 8 + odd);
            load_matrices<b_down>(b + slot, of_b[n]);
        }
#pragma unroll
        for (int m = 0; m < 4; ++m) {
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                multiply_add<T>(of_a[m], of_b[n / 2][n % 2 * 2], of_b[n / 2][n % 2 * 2 + 1], sums[m][n]);
            }
        }
    }
}

template<class T>
__device__ __forceinline__ void write_sums(const Tile<T> &tile, int64_t step, int i, int j,
                                           const float (&sums)[4][4][4]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = i + m * 16 + half * 8 + lane / 4;
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                const int column = j + n * 8 + lane % 4 * 2;
                if (row < tile.rows && column < tile.columns) {
                    const float pair[2] = {sums[m][n][half * 2], sums[m][n][half * 2 + 1]};
                    store<2>(tile.c + row * step + column, pair);
                }
            }
        }
    }
}

template<class T, bool a_down, bool b_down>
__global__ void __launch_bounds__(block, 2) tensor_kernel(Groups<T> all) {
    wait_for_earlier_kernels();
    extern __shared__ uint4 tiles[];
    const Tile<T> tile = find_tile(all, side);
    if (tile.rows <= 0) {
        return;
    }
    const int steps = static_cast<int>(ceil_div(tile.depth, step_depth));
    const auto load = [&](int step) {
        if (step < steps) {
            uint4 *const a = tiles + step % stages * 2 * chunks;
            load_tile<T, a_down>(tile.a, all.a_step, tile.rows, int64_t(step) * step_depth, tile.depth, a);
            load_tile<T, b_down>(tile.b, all.b_step, tile.columns, int64_t(step) * step_depth, tile.depth, a + chunks);
        }
        end_group_of_copies();
    };
    const int warp = static_cast<int>(threadIdx.x) / 32, i = warp % 2 * 64, j = warp / 2 * 32;
    float sums[4][4][4] = {};
    for (int step = 0; step < stages - 1; ++step) {
        load(step);
    }
    for (int step = 0; step < steps; ++step) {
        wait_for_copies_but<stages - 2>();
        __syncthreads(); // also guards the last use of the slots that are overwritten next
        load(step + stages - 1);
        const uint4 *const a = tiles + step % stages * 2 * chunks;
        multiply_tiles<T, a_down, b_down>(a, a + chunks, i, j, sums);
    }
    write_sums(tile, all.columns, i, j, sums);
}

template<class T, bool a_down, bool b_down>
opdock::Status on_tensor_cores(const opdock::Call &call, const Groups<T> &all) {
    opdock::Status allowed = allow_all_shared_memory(call, tensor_kernel<T, a_down, b_down>, besides);
    return allowed.ok() ? launch(call, {all.blocks(side), block, tile_bytes}, tensor_kernel<T, a_down, b_down>, all)
                        : std::move(allowed);
}

#endif

template<class T>
opdock::Status multiply(const opdock::Call &call, const Groups<T> &all) {
#ifndef __HIP__
    if constexpr (sizeof(T) == 2) {
        if (fits_warpgroups(call, all)) {
            return multiply_by_warpgroups(call, all);
        }
        const int64_t unaligned = (all.height | all.columns | all.a_step | all.b_step) % 8;
        if (unaligned == 0 && all_aligned(all.a, all.b, all.c) && shared_memory(call) >= tile_bytes + besides) {
            return all.a_down   ? on_tensor_cores<T, true, true>(call, all)
                   : all.b_down ? on_tensor_cores<T, false, true>(call, all)
                                : on_tensor_cores<T, false, false>(call, all);
        }
    }
#endif
    return launch(call, {all.blocks(plain_side), plain_block}, plain_kernel<T>, all);
}

// Multiplies the rows of input or grad, by group, with the group's weight.
template<bool down>
opdock::Status along_rows(const opdock::Call &call) {
    const DLTensor &x = *call.input(0), &weight = *call.input(1);
    return visit_floating(x.dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        Groups<T> all = {};
        all.a = static_cast<const T *>(input_data(call, 0));
        all.b = static_cast<const T *>(input_data(call, 1));
        all.c = static_cast<T *>(output_data(call, 0));
        all.starts = static_cast<const int32_t *>(input_data(call, 2));
        all.rows = x.shape[0];
        all.groups = weight.shape[0];
        all.columns = call.output(0)->shape[1];
        all.depth = x.shape[1];
        all.a_step = x.shape[1];
        all.b_step = weight.shape[2];
        all.b_down = down;
        return multiply(call, all);
    });
}

opdock::Status wgrad(const opdock::Call &call) {
    const DLTensor &grad = *call.input(0), &input = *call.input(1);
    return visit_floating(grad.dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        Groups<T> all = {};
        all.a = static_cast<const T *>(input_data(call, 0));
        all.b = static_cast<const T *>(input_data(call, 1));
        all.c = static_cast<T *>(output_data(call, 0));
        all.starts = static_cast<const int32_t *>(input_data(call, 2));
        all.rows = grad.shape[0];
        all.groups = call.output(0)->shape[0];
        all.height = grad.shape[1];
        all.columns = input.shape[1];
        all.a_step = grad.shape[1];
        all.b_step = input.shape[1];
        all.a_down = true;
        all.b_down = true;
        return multiply(call, all);
    });
}

} // namespace

void add_grouped_linear(Plugin &plugin) {
    namespace ops = opdock::ops;
    const auto workspace = opdock::workspace_size<&warpgroups_workspace>;
    plugin.add(ops::grouped_linear_fwd, any_float,
               {opdock::kernel<&along_rows<false>>, Knobs::none, nullptr, workspace});
    plugin.add(ops::grouped_linear_dgrad, any_float,
               {opdock::kernel<&along_rows<true>>, Knobs::none, nullptr, workspace});
    plugin.add(ops::grouped_linear_wgrad, any_float, {opdock::kernel<&wgrad>, Knobs::none, nullptr, workspace});
}

} // namespace gpu
