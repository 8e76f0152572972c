// permute_021 works on square tiles, so that both tensors are read and written in whole cache lines.
#include <algorithm>

#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {
namespace {

constexpr int64_t side = 64; // of a tile

// Transposes one tile of a matrix: rows [first, last) and columns [left, right) of the output. The tile is assembled in
// a buffer whose row stride is not a power of two: the row stride of a tensor often is, which would map its rows to a
// few lines of L1.
template<class Bits>
void permute_square(const Bits *from, Bits *to, const DLTensor &input, const DLTensor &output, int64_t first,
                    int64_t last, int64_t left, int64_t right) {
    Bits square[side][side + 1];
    for (int64_t i = left; i < right; ++i)
        for (int64_t r = first; r < last; ++r)
            square[r - first][i - left] = from[i * input.strides[1] + r * input.strides[2]];
    for (int64_t r = first; r < last; ++r) {
        Bits *row = to + r * output.strides[1] + left * output.strides[2];
        if (output.strides[2] == 1)
            std::copy_n(square[r - first], right - left, row);
        else
            for (int64_t i = 0; i < right - left; ++i)
                row[i * output.strides[2]] = square[r - first][i];
    }
}

// Writes rows [begin, end) of the output, counted over all its matrices.
template<class Bits>
void permute(const opdock::Call &call, int64_t begin, int64_t end) {
    const DLTensor &input = *call.input(0), &output = *call.output(0);
    const int64_t rows = output.shape[1], columns = output.shape[2];
    const auto *from = static_cast<const Bits *>(call.call().data[call.c().tensor_offsets[0]]);
    auto *to = static_cast<Bits *>(call.call().data[call.c().tensor_offsets[1]]);
    while (begin < end) {
        const int64_t matrix = begin / rows, first = begin % rows;
        const int64_t last = std::min({first + side, rows, first + end - begin});
        for (int64_t left = 0; left < columns; left += side)
            permute_square(from + matrix * input.strides[0], to + matrix * output.strides[0], input, output, first,
                           last, left, std::min(left + side, columns));
        begin += last - first;
    }
}

opdock::Status run(const opdock::Call &call) {
    const DLTensor &output = *call.output(0);
    const int64_t bytes = element_bytes(output);
    if (element_count(output) == 0)
        return {};
    const int64_t rows = row_count(output), squares = (rows + side - 1) / side;
    in_chunks(squares, 2 * side * row_size(output) * bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        begin *= side;
        end = std::min(end * side, rows);
        bytes == 2 ? permute<uint16_t>(call, begin, end) : permute<uint32_t>(call, begin, end);
    });
    return {};
}

} // namespace

void add_permute(Plugin &plugin) {
    plugin.add(opdock::ops::permute_021, any_float, {opdock::kernel<&run>, nullptr});
}

} // namespace cpu
