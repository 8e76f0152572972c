#include <string>
#include <utility>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

std::string odd(std::int64_t rotated) {
    return "freqs: dims rotate in pairs, so its last dimension must be even; found " + std::to_string(rotated);
}

// Turns every pair of dims of input i into output i; turn(x, y, i, j) gives the new pair for dims i and j, with the
// cosines and sines at hand. The angles are the last input.
template<class Turn>
Status rotate(const Call &call, std::uint32_t which, Turn turn) {
    const auto freqs = call.input<const float>(call.c().n_inputs - 1);
    const std::int64_t r = freqs.size(-1);
    const bool interleaved = call.get_bool(0);
    return visit_floating(call.input(which)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(which);
        const auto output = call.output<T>(which);
        std::vector<double> cosines(static_cast<std::size_t>(r)), sines(static_cast<std::size_t>(r));
        const std::int64_t rows_per_position = input.size(1) * input.size(2);
        for (std::int64_t row = 0; row < input.rows(); ++row) {
            const std::int64_t position = row / rows_per_position;
            if (row % rows_per_position == 0)
                for (std::int64_t i = 0; i < r; ++i) {
                    const double angle = wide(freqs(position, 0, 0, i));
                    cosines[static_cast<std::size_t>(i)] = std::cos(angle);
                    sines[static_cast<std::size_t>(i)] = std::sin(angle);
                }
            const auto from = input.row(row);
            const auto to = output.row(row);
            for (std::int64_t pair = 0; pair < r / 2; ++pair) {
                const std::int64_t i = interleaved ? 2 * pair : pair;
                const std::int64_t j = interleaved ? i + 1 : pair + r / 2;
                const auto [x, y] = turn(wide(from[i]), wide(from[j]), cosines.data(), sines.data(), i, j);
                to[i] = rounded<T>(x);
                to[j] = rounded<T>(y);
            }
            for (std::int64_t i = r; i < to.size(); ++i)
                to[i] = from[i];
        }
        return Status();
    });
}

struct Pair {
    double x, y;
};

Pair forward(double x, double y, const double *cos, const double *sin, std::int64_t i, std::int64_t j) {
    return {x * cos[i] - y * sin[i], y * cos[j] + x * sin[j]};
}

Pair backward(double u, double v, const double *cos, const double *sin, std::int64_t i, std::int64_t j) {
    return {u * cos[i] + v * sin[j], v * cos[j] - u * sin[i]};
}

template<class Turn>
Status rotate_both(const Call &call, Turn turn) {
    Status first = rotate(call, 0, turn);
    return first.ok() ? rotate(call, 1, turn) : std::move(first);
}

Status supports_rope(const Problem &problem) {
    const std::int64_t rotated = problem.input(problem.c().n_inputs - 1)->shape[3];
    return rotated % 2 == 0 ? Status() : opdock::invalid_argument(odd(rotated));
}

Status fused_rope_fwd(const Call &call) {
    return rotate(call, 0, forward);
}

Status fused_rope_bwd(const Call &call) {
    return rotate(call, 0, backward);
}

Status fused_rope_qk_fwd(const Call &call) {
    return rotate_both(call, forward);
}

Status fused_rope_qk_bwd(const Call &call) {
    return rotate_both(call, backward);
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::fused_rope_fwd, any_float, opdock::kernel<&fused_rope_fwd>, opdock::supports<&supports_rope>);
    plugin.add(ops::fused_rope_bwd, any_float, opdock::kernel<&fused_rope_bwd>, opdock::supports<&supports_rope>);
    plugin.add(ops::fused_rope_qk_fwd, any_float, opdock::kernel<&fused_rope_qk_fwd>, opdock::supports<&supports_rope>);
    plugin.add(ops::fused_rope_qk_bwd, any_float, opdock::kernel<&fused_rope_qk_bwd>, opdock::supports<&supports_rope>);
}

} // namespace reference
