// quantize_1x128 and quantize_128x128. 32 threads have 128 elements of a row, four each. A block has eight such groups,
// with eight rows and a scale for each, or with 16 rows per group of a single square.
#include "ops/ops.hpp"
#include "quantize.cuh"
#include "rows.cuh"

namespace gpu {
namespace {

constexpr int side = 128, lanes = 32, groups = 8;
constexpr int most_rows = 16; // per group

struct Blocks {
    int64_t rows, n;
    int64_t across; // blocks per row
    bool vectors;   // four elements are accessed at once
};

template<class T>
__device__ __forceinline__ void read_four(const Blocks &blocks, const T *row, int64_t column, float (&to)[4]) {
    if (blocks.vectors) {
        if (column < blocks.n) {
            load<4>(row + column, to);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        to[k] = column + k < blocks.n ? to_f32(row[column + k]) : 0.0f;
    }
}

__device__ __forceinline__ void write_four(const Blocks &blocks, uint8_t *row, int64_t column, Code code, float scale,
                                           const float (&from)[4]) {
    if (blocks.vectors) {
        if (column < blocks.n) {
            store_coded(row + column, code, scale, from);
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (column + k < blocks.n) {
            const float one[1] = {from[k]};
            store_coded(row + column + k, code, scale, one);
        }
    }
}

// `count`: rows per group. If it is more than one, all rows of all groups share a scale.
template<class T, int count>
__global__ void __launch_bounds__(lanes *groups)
    quantize_blocks_kernel(Blocks blocks, Code code, const T *input, uint8_t *output, float *scales) {
    wait_for_earlier_kernels();
    __shared__ float shared[most_warps];
    const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
    const int64_t down = static_cast<int64_t>(blockIdx.x) / blocks.across;
    const int64_t block = static_cast<int64_t>(blockIdx.x) - down * blocks.across;
    const int64_t column = block * side + lane * 4;
    const int64_t first = (down * groups + group) * count;
    float values[count][4] = {};
    float largest = 0.0f;
#pragma unroll
    for (int r = 0; r < count; ++r) {
        if (first + r < blocks.rows) {
            read_four(blocks, input + (first + r) * blocks.n, column, values[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < count; ++r) {
        raise(largest, values[r]);
    }
    largest = reduce<Largest>(largest, count > 1 ? lanes * groups : lanes, shared);
    const float scale = __fdiv_rn(largest, largest_of(code));
    if (lane == 0 && first < blocks.rows && (count == 1 || group == 0)) {
        scales[(count == 1 ? first : down) * blocks.across + block] = scale;
    }
#pragma unroll
    for (int r = 0; r < count; ++r) {
        if (first + r < blocks.rows) {
            write_four(blocks, output + (first + r) * blocks.n, column, code, scale, values[r]);
        }
    }
}

template<int count>
opdock::Status run(const opdock::Call &call) {
    Blocks blocks = {row_count(*call.input(0)), row_size(*call.input(0)), 0, false};
    blocks.across = ceil_div(blocks.n, side);
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        using T = typename decltype(t)::type;
        const auto *input = static_cast<const T *>(input_data(call, 0));
        auto *output = static_cast<uint8_t *>(output_data(call, 0));
        blocks.vectors = blocks.n % 4 == 0 && all_aligned(input, output);
        return launch(call, {ceil_div(blocks.rows, groups * count) * blocks.across, lanes * groups},
                      quantize_blocks_kernel<T, count>, blocks, code_of(call.output(0)->dtype), input, output,
                      static_cast<float *>(output_data(call, 1)));
    });
}

} // namespace

void add_quantize_blocks(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::quantize_1x128, to_8_bits, {opdock::kernel<&run<1>>, Knobs::none});
    plugin.add(ops::quantize_128x128, to_8_bits, {opdock::kernel<&run<most_rows>>, Knobs::none});
}

} // namespace gpu
