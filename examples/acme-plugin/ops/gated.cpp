#include <cmath>

#include "failure.hpp"
#include "ops/blocks.hpp"
#include "ops/ops.hpp"

namespace acme {

Status silu_and_mul(const Call &call) {
    if (Status status = asked_to_fail("silu_and_mul"); !status.ok())
        return status;
    opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto gate = call.input<const T>(0);
        const auto up = call.input<const T>(1);
        const auto output = call.output<T>(0);
        Block x, y;
        for (std::int64_t r = 0; r < output.rows(); ++r) {
            for_each_block(output.size(-1), call.knob(0), [&](std::int64_t begin, std::int64_t count) {
                widen(gate.row(r), begin, count, x);
                widen(up.row(r), begin, count, y);
                for (std::int64_t i = 0; i < count; ++i)
                    y[i] *= x[i] / (1 + std::exp(-x[i]));
                narrow(y, begin, count, output.row(r));
            });
        }
    });
    return {};
}

} // namespace acme
