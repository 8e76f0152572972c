#include "column_sums.hpp"

#include <cstring>

#include "row_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "column_sums.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Sums rows [begin, end) into `sums`.
void sum_rows(DLDataType t, const Rows &rows, int64_t begin, int64_t end, size_t n, float *sums) {
    std::memset(sums, 0, n * sizeof(float));
    opdock::visit_floating(t, [&](auto tag) HWY_ATTR {
        using T = typename decltype(tag)::type;
        for (int64_t r = begin; r < end; ++r) {
            const T *row = rows.row<const T>(r);
            along(n, [=](size_t i, auto extent)
                         HWY_ATTR { store(hn::Add(load(sums + i, extent), load(row + i, extent)), sums + i, extent); });
        }
    });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(sum_rows);

void sum_columns(const DLTensor &tensor, const Rows &rows, const Rows &out, float *workspace, const Knobs &knobs) {
    const RowBlocks blocks(row_count(tensor));
    const int64_t n = row_size(tensor);
    in_chunks(blocks.count, blocks.rows_per_block * n * element_bytes(tensor), knobs, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b)
            HWY_DYNAMIC_DISPATCH(sum_rows)
        (tensor.dtype, rows, blocks.begin(b), blocks.end(b), static_cast<size_t>(n), workspace + b * n);
    });
    add_blocks(workspace, blocks, n, tensor.dtype, out, knobs);
}

} // namespace cpu
#endif
