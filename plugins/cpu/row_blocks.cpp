#include "row_blocks.hpp"

#include "schedule.hpp"

namespace cpu {

namespace {

template<class T>
void add_columns(const float *sums, int64_t blocks, int64_t n, T *out, int64_t begin, int64_t end) {
    constexpr int64_t tile = 512; // 4 KiB of f64 stay in L1 while rows of sums go by
    double total[tile];
    for (int64_t first = begin; first < end; first += tile) {
        const int64_t count = std::min(tile, end - first);
        std::fill_n(total, count, 0.0);
        for (int64_t b = 0; b < blocks; ++b) {
            const float *row = sums + b * n + first;
            for (int64_t j = 0; j < count; ++j)
                total[j] += static_cast<double>(row[j]);
        }
        for (int64_t j = 0; j < count; ++j)
            out[first + j] = T(static_cast<float>(total[j]));
    }
}

} // namespace

void add_blocks(const float *sums, const RowBlocks &blocks, int64_t n, DLDataType dtype, const Rows &out,
                const Knobs &knobs) {
    opdock::visit_floating(dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const int64_t bytes_per_column = blocks.count * static_cast<int64_t>(sizeof(float));
        in_chunks(n, bytes_per_column, knobs,
                  [&](int64_t begin, int64_t end) { add_columns(sums, blocks.count, n, out.row<T>(0), begin, end); });
    });
}

} // namespace cpu
