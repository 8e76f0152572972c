// topk.
#include "topk.hpp"

#include <limits>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {
namespace {

constexpr Operand operands[] = {{"input"}, {"values"}, {"indices"}};

opdock::Status check(const opdock::Problem &problem) {
    if (row_size(*problem.input(0)) > std::numeric_limits<uint32_t>::max())
        return opdock::unsupported("it needs rows of fewer than 2^32 elements");
    return check_rows(problem, operands);
}

template<class T>
void choose_rows(const opdock::Call &call, int64_t begin, int64_t end) {
    const Rows input = Rows::of_input(call, 0), values = Rows::of_output(call, 0), indices = Rows::of_output(call, 1);
    const auto k = static_cast<size_t>(call.get_int(0));
    std::vector<uint64_t> keys(static_cast<size_t>(row_size(*call.input(0))));
    for (int64_t r = begin; r < end; ++r) {
        const T *from = input.row<const T>(r);
        choose_largest(k, keys, [=](size_t i) { return static_cast<float>(from[i]); });
        for (size_t i = 0; i < k; ++i) {
            values.row<T>(r)[i] = from[place_of(keys[i])];
            indices.row<int64_t>(r)[i] = place_of(keys[i]);
        }
    }
}

opdock::Status run(const opdock::Call &call) {
    const DLTensor &input = *call.input(0);
    if (call.get_int(0) == 0)
        return {};
    in_chunks(row_count(input), 8 * row_size(input) * element_bytes(input), Knobs::of(call),
              [&](int64_t begin, int64_t end) {
                  opdock::visit_floating(input.dtype,
                                         [&](auto t) { choose_rows<typename decltype(t)::type>(call, begin, end); });
              });
    return {};
}

} // namespace

void add_topk(Plugin &plugin) {
    plugin.add(opdock::ops::topk, any_float, {opdock::kernel<&run>, opdock::supports<&check>});
}

} // namespace cpu
