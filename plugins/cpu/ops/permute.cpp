// permute_021: squares of elements, so that both tensors are read and written by whole cache lines.
#include <algorithm>

#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {
namespace {

constexpr int64_t side = 32; // of a square

// Rows [begin, end) of the output, which are columns of the input.
template<class Bits>
void permute(const opdock::Call &call, int64_t begin, int64_t end) {
    const DLTensor &input = *call.input(0), &output = *call.output(0);
    const int64_t columns = output.shape[2], rows_of_matrix = output.shape[1];
    const auto *from = static_cast<const Bits *>(call.call().data[call.c().tensor_offsets[0]]);
    auto *to = static_cast<Bits *>(call.call().data[call.c().tensor_offsets[1]]);
    for (int64_t first = begin; first < end; first += side) {
        const int64_t last = std::min(first + side, end);
        for (int64_t left = 0; left < columns; left += side) {
            const int64_t right = std::min(left + side, columns);
            for (int64_t r = first; r < last; ++r) {
                const int64_t matrix = r / rows_of_matrix, row = r % rows_of_matrix;
                const Bits *source = from + matrix * input.strides[0] + row * input.strides[2];
                Bits *target = to + matrix * output.strides[0] + row * output.strides[1];
                for (int64_t i = left; i < right; ++i)
                    target[i * output.strides[2]] = source[i * input.strides[1]];
            }
        }
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
