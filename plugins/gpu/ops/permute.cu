// permute_021: square tiles go through shared memory, so that both tensors are accessed row by row.
#include <algorithm>

#include "launch.hpp"
#include "ops/ops.hpp"
#include "tensors.hpp"

namespace gpu {
namespace {

constexpr int side = 32; // of a square
constexpr int lines = 8; // rows of a square that a block processes at once

struct Matrices {
    int64_t rows, columns; // of the input
    int64_t down, across;  // squares
};

template<class Bits>
__global__ void __launch_bounds__(side *lines) permute_kernel(Matrices shape, const Bits *input, Bits *output) {
    wait_for_earlier_kernels();
    let_the_next_start(128);
    __shared__ Bits square[side][side + 1]; // padded, so that a column's elements are in different banks
    const int64_t of_matrix = shape.down * shape.across;
    const int64_t matrix = static_cast<int64_t>(blockIdx.x) / of_matrix;
    const int64_t place = static_cast<int64_t>(blockIdx.x) % of_matrix;
    const int64_t top = place / shape.across * side, left = place % shape.across * side;
    const int x = static_cast<int>(threadIdx.x) % side, y = static_cast<int>(threadIdx.x) / side;
    const int64_t base = matrix * shape.rows * shape.columns;
#pragma unroll
    for (int above = 0; above < side; above += lines) {
        const int i = above + y;
        if (top + i < shape.rows && left + x < shape.columns) {
            square[i][x] = input[base + (top + i) * shape.columns + left + x];
        }
    }
    __syncthreads();
#pragma unroll
    for (int above = 0; above < side; above += lines) {
        const int i = above + y;
        if (left + i < shape.columns && top + x < shape.rows) {
            output[base + (left + i) * shape.rows + top + x] = square[x][i];
        }
    }
}

opdock::Status run(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    Matrices shape = {input.shape[1], input.shape[2], 0, 0};
    shape.down = ceil_div(shape.rows, side);
    shape.across = ceil_div(shape.columns, side);
    const Grid grid = {input.shape[0] * shape.down * shape.across, side * lines};
    const void *from = input_data(call, 0);
    void *to = output_data(call, 0);
    return element_bytes(input) == 2 ? launch(call, grid, permute_kernel<uint16_t>, shape,
                                              static_cast<const uint16_t *>(from), static_cast<uint16_t *>(to))
                                     : launch(call, grid, permute_kernel<uint32_t>, shape,
                                              static_cast<const uint32_t *>(from), static_cast<uint32_t *>(to));
}

} // namespace

void add_permute(Plugin &plugin) {
    plugin.add(opdock::ops::permute_021, any_float, {opdock::kernel<&run>, Knobs::none});
}

} // namespace gpu
