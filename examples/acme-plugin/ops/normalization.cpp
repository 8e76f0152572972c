#include <cmath>

#include "failure.hpp"
#include "ops/blocks.hpp"
#include "ops/ops.hpp"

namespace acme {

namespace {

// The sum over one row; 0 for an empty row. Blocks are summed in float, and their sums in double.
template<class T>
double mean_of_squares(opdock::Row<const T> row, std::int64_t block_size) {
    Block block;
    double sum = 0;
    for_each_block(row.size(), block_size, [&](std::int64_t begin, std::int64_t count) {
        widen(row, begin, count, block);
        float partial = 0;
        for (std::int64_t i = 0; i < count; ++i)
            partial += block[i] * block[i];
        sum += static_cast<double>(partial);
    });
    return row.size() == 0 ? 0 : sum / static_cast<double>(row.size());
}

template<class T, class U>
void rmsnorm(const Call &call) {
    const auto input = call.input<const T>(0);
    const auto weight = call.input<const U>(1).row(0);
    const auto output = call.output<T>(0);
    const auto rsigma = call.output<float>(1);
    const double eps = call.get_float(0);
    const float zero = call.get_bool(1) ? 1.0f : 0.0f; // factor of a zero weight
    const std::int64_t block_size = call.knob(0);

    Block block, gain;
    for (std::int64_t r = 0; r < input.rows(); ++r) {
        const auto from = input.row(r);
        const auto to = output.row(r);
        const auto scale = static_cast<float>(1 / std::sqrt(mean_of_squares<T>(from, block_size) + eps));
        for_each_block(from.size(), block_size, [&](std::int64_t begin, std::int64_t count) {
            widen(from, begin, count, block);
            widen(weight, begin, count, gain);
            for (std::int64_t i = 0; i < count; ++i)
                block[i] *= scale * (zero + gain[i]);
            narrow(block, begin, count, to);
        });
        if (rsigma)
            rsigma[r] = scale;
    }
}

} // namespace

Status rmsnorm_fwd(const Call &call) {
    if (Status status = asked_to_fail("rmsnorm_fwd"); !status.ok())
        return status;
    opdock::visit_floating(call.input(0)->dtype, [&](auto input) {
        opdock::visit_floating(call.input(1)->dtype, [&](auto weight) {
            rmsnorm<typename decltype(input)::type, typename decltype(weight)::type>(call);
        });
    });
    return {};
}

} // namespace acme
