#include <cmath>
#include <string>

#include "float64.hpp"
#include "ops/ops.hpp"
#include "philox.hpp"

namespace reference {

namespace {

bool is_probability(double p) {
    return p >= 0 && p <= 1;
}

std::string no_probability(double p) {
    return "p: " + std::to_string(p) + " is not a probability; expected 0 <= p <= 1";
}

std::array<std::uint32_t, 2> halves(std::uint64_t number) {
    return {static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32)};
}

// Decides which elements of a tensor are kept, by their row-major position.
class Draw {
  public:
    Draw(opdock::TensorView<const std::int64_t> rng_state, double p)
        : seed_(static_cast<std::uint64_t>(rng_state[0])), offset_(static_cast<std::uint64_t>(rng_state[1])),
          threshold_(static_cast<std::uint64_t>(std::floor(p * 0x1p32 + 0.5))) {}

    bool keeps(std::int64_t element) const {
        const auto [low, high] = halves(static_cast<std::uint64_t>(element) / 4);
        const auto [offset_low, offset_high] = halves(offset_);
        const auto words = philox({low, high, offset_low, offset_high}, halves(seed_));
        return words[static_cast<std::size_t>(element % 4)] >= threshold_;
    }

  private:
    std::uint64_t seed_, offset_, threshold_;
};

Status supports_dropout(const Problem &problem) {
    const double p = problem.get_float(0);
    return is_probability(p) ? Status() : opdock::invalid_argument(no_probability(p));
}

Status dropout_fwd(const Call &call) {
    const double p = call.get_float(0);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(0);
        const auto output = call.output<T>(0);
        const auto mask = call.output<std::uint8_t>(1);
        const Draw draw(call.input<const std::int64_t>(1), p);
        std::int64_t element = 0;
        for (std::int64_t r = 0; r < input.rows(); ++r) {
            const auto from = input.row(r);
            const auto to = output.row(r);
            const auto kept = mask.row(r);
            for (std::int64_t i = 0; i < to.size(); ++i) {
                const bool keep = draw.keeps(element++);
                to[i] = rounded<T>(keep ? wide(from[i]) / (1 - p) : 0);
                kept[i] = keep ? 1 : 0;
            }
        }
        return Status();
    });
}

Status dropout_bwd(const Call &call) {
    const double p = call.get_float(0);
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto pass = [p](double grad, double keep) { return keep != 0 ? grad / (1 - p) : 0; };
        map(call.output<T>(0), pass, call.input<const T>(0), call.input<const std::uint8_t>(1));
        return Status();
    });
}

} // namespace

void add_dropout(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::dropout_fwd, any_float, opdock::kernel<&dropout_fwd>, opdock::supports<&supports_dropout>);
    plugin.add(ops::dropout_bwd, any_float, opdock::kernel<&dropout_bwd>, opdock::supports<&supports_dropout>);
}

} // namespace reference
