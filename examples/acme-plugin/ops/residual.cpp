#include "failure.hpp"
#include "ops/blocks.hpp"
#include "ops/ops.hpp"

namespace acme {

namespace {

template<class T, class U>
void add_scaled(const Call &call) {
    const auto input = call.input<const T>(0);
    const auto residual = call.input<const T>(1);
    const auto scale = call.input<const U>(2).row(0);
    const auto output = call.output<T>(0); // may be residual itself: each block is read before it is written
    Block x, sum, factor;
    for (std::int64_t r = 0; r < output.rows(); ++r) {
        for_each_block(output.size(-1), call.knob(0), [&](std::int64_t begin, std::int64_t count) {
            widen(input.row(r), begin, count, x);
            widen(residual.row(r), begin, count, sum);
            widen(scale, begin, count, factor);
            for (std::int64_t i = 0; i < count; ++i)
                sum[i] += factor[i] * x[i];
            narrow(sum, begin, count, output.row(r));
        });
    }
}

} // namespace

Status scaled_residual(const Call &call) {
    if (Status status = asked_to_fail("acme.scaled_residual"); !status.ok())
        return status;
    opdock::visit_floating(call.input(0)->dtype, [&](auto input) {
        opdock::visit_floating(call.input(2)->dtype, [&](auto scale) {
            add_scaled<typename decltype(input)::type, typename decltype(scale)::type>(call);
        });
    });
    return {};
}

} // namespace acme
