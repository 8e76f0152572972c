#include <string>
#include <utility>

#include "float64.hpp"
#include "ops/ops.hpp"

namespace reference {

namespace {

using opdock::TensorView;

// T and P; T, U and P.
constexpr const char *with_positions = "f32,i32|f32,i64|f16,i32|f16,i64|bf16,i32|bf16,i64|f64,i32|f64,i64";
constexpr const char *weighted_with_positions =
    "f32,f32,i32|f32,f32,i64|f16,f16,i32|f16,f16,i64|f16,f32,i32|f16,f32,i64|bf16,bf16,i32|bf16,bf16,i64|"
    "bf16,f32,i32|bf16,f32,i64|f64,f64,i32|f64,f64,i64";

std::string odd(std::int64_t rotated) {
    return "freqs: dims rotate in pairs, so the last dimension must be even; found " + std::to_string(rotated);
}

// The cosine and sine of each rotated dim.
struct Turns {
    std::vector<double> cosines, sines;
    bool interleaved;

    Turns(std::int64_t dims, bool is_interleaved)
        : cosines(static_cast<std::size_t>(dims)), sines(cosines.size()), interleaved(is_interleaved) {}

    // Calls body(i, j) for the dims of each pair.
    template<class Body>
    void each_pair(Body body) const {
        const std::size_t pairs = cosines.size() / 2;
        for (std::size_t pair = 0; pair < pairs; ++pair)
            interleaved ? body(2 * pair, 2 * pair + 1) : body(pair, pair + pairs);
    }
};

void turn_forward(std::vector<double> &row, const Turns &turns) {
    turns.each_pair([&](std::size_t i, std::size_t j) {
        const double x = row[i], y = row[j];
        row[i] = x * turns.cosines[i] - y * turns.sines[i];
        row[j] = y * turns.cosines[j] + x * turns.sines[j];
    });
}

void turn_backward(std::vector<double> &row, const Turns &turns) {
    turns.each_pair([&](std::size_t i, std::size_t j) {
        const double u = row[i], v = row[j];
        row[i] = u * turns.cosines[i] + v * turns.sines[j];
        row[j] = v * turns.cosines[j] - u * turns.sines[i];
    });
}

using Turn = void (*)(std::vector<double> &, const Turns &);

// Rotates the rows of input `which` into the same output; load(row, turns) is called before each row.
template<class Load>
Status turn_rows(const Call &call, std::uint32_t which, Turn turn, Turns turns, Load load) {
    return visit_floating(call.input(which)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const auto input = call.input<const T>(which);
        const auto output = call.output<T>(which);
        std::vector<double> x;
        for (std::int64_t row = 0; row < input.rows(); ++row) {
            load(row, turns);
            widen(input.row(row), x);
            turn(x, turns);
            narrow(x, output.row(row));
        }
        return Status();
    });
}

// The angles are the last input.
Status rotate(const Call &call, std::uint32_t which, Turn turn) {
    const auto freqs = call.input<const float>(call.c().n_inputs - 1);
    const DLTensor &input = *call.input(which);
    const std::int64_t rows_per_position = input.shape[1] * input.shape[2];
    return turn_rows(call, which, turn, Turns(freqs.size(-1), call.get_bool(0)), [&](std::int64_t row, Turns &turns) {
        if (row % rows_per_position != 0)
            return;
        for (std::size_t i = 0; i < turns.cosines.size(); ++i) {
            const double angle = wide(freqs(row / rows_per_position, 0, 0, static_cast<std::int64_t>(i)));
            turns.cosines[i] = std::cos(angle);
            turns.sines[i] = std::sin(angle);
        }
    });
}

Status rotate_both(const Call &call, Turn turn) {
    Status first = rotate(call, 0, turn);
    return first.ok() ? rotate(call, 1, turn) : std::move(first);
}

Status supports_rope(const Problem &problem) {
    const std::int64_t rotated = problem.input(problem.c().n_inputs - 1)->shape[3];
    return rotated % 2 == 0 ? Status() : opdock::invalid_argument(odd(rotated));
}

Status supports_positions(const Problem &problem) {
    const std::uint32_t positions = problem.c().n_inputs - 3;
    return problem.input(positions)->shape[0] > 0 && problem.input(positions + 1)->shape[0] == 0
               ? opdock::invalid_argument("positions: the tables have no rows")
               : Status();
}

// The last inputs of a rope with positions: the positions and the tables.
class Tables {
  public:
    Tables(const Call &call, bool interleaved)
        : cos_(call.input<const float>(call.c().n_inputs - 2)), sin_(call.input<const float>(call.c().n_inputs - 1)),
          interleaved_(interleaved) {
        const std::uint32_t which = call.c().n_inputs - 3;
        const auto take = [&](auto positions) {
            for (std::int64_t i = 0; i < positions.size(0); ++i)
                positions_.push_back(positions[i]);
        };
        opdock_dtype_pack(call.input(which)->dtype) == OPDOCK_I64 ? take(call.input<const std::int64_t>(which))
                                                                  : take(call.input<const std::int32_t>(which));
    }

    Status check() const {
        for (std::size_t i = 0; i < positions_.size(); ++i)
            if (positions_[i] < 0 || positions_[i] >= cos_.size(0))
                return opdock::invalid_argument("positions: token " + std::to_string(i) + " has " +
                                                std::to_string(positions_[i]) + "; expected 0 <= position < " +
                                                std::to_string(cos_.size(0)));
        return {};
    }

    Turns turns() const { return {2 * cos_.size(1), interleaved_}; }

    void load(std::int64_t token, Turns &turns) const {
        const std::int64_t position = positions_[static_cast<std::size_t>(token)];
        std::int64_t pair = 0;
        turns.each_pair([&](std::size_t i, std::size_t j) {
            turns.cosines[i] = turns.cosines[j] = wide(cos_(position, pair));
            turns.sines[i] = turns.sines[j] = wide(sin_(position, pair));
            ++pair;
        });
    }

  private:
    TensorView<const float> cos_, sin_;
    bool interleaved_;
    std::vector<std::int64_t> positions_;
};

// Rotates `count` tensors.
template<Turn turn, std::uint32_t count>
Status rotate_to_positions(const Call &call) {
    const Tables tables(call, call.get_bool(0));
    Status status = tables.check();
    for (std::uint32_t which = 0; which < count && status.ok(); ++which) {
        const std::int64_t heads = call.input(which)->shape[1];
        status = turn_rows(call, which, turn, tables.turns(),
                           [&](std::int64_t row, Turns &turns) { tables.load(row / heads, turns); });
    }
    return status;
}

// 1 / sqrt(mean(x^2) + eps)
double reciprocal_size(const std::vector<double> &x, double eps) {
    double squares = 0;
    for (const double element : x)
        squares += element * element;
    return 1 / std::sqrt(squares / std::max(1.0, static_cast<double>(x.size())) + eps);
}

template<class T, class U>
void norm_and_rotate(const Call &call, std::uint32_t which, const Tables &tables) {
    const auto input = call.input<const T>(which);
    const auto weight = call.input<const U>(which + 2);
    const auto output = call.output<T>(which);
    Turns turns = tables.turns();
    std::vector<double> x;
    for (std::int64_t row = 0; row < input.rows(); ++row) {
        widen(input.row(row), x);
        const double reciprocal = reciprocal_size(x, call.get_float(0));
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] *= reciprocal * wide(weight[static_cast<std::int64_t>(i)]);
        tables.load(row / input.size(1), turns);
        turn_forward(x, turns);
        narrow(x, output.row(row));
    }
}

template<class T, class U>
void norm_and_rotate_bwd(const Call &call, std::uint32_t which, const Tables &tables) {
    const auto grad = call.input<const T>(which), input = call.input<const T>(which + 2);
    const auto weight = call.input<const U>(which + 4);
    const auto grad_input = call.output<T>(which);
    const auto grad_weight = call.output<U>(which + 2);
    const auto n = static_cast<std::size_t>(weight.size(0));
    Turns turns = tables.turns();
    std::vector<double> u, y, sums(n);
    for (std::int64_t row = 0; row < input.rows(); ++row) {
        widen(grad.row(row), u);
        widen(input.row(row), y);
        tables.load(row / input.size(1), turns);
        turn_backward(u, turns);
        const double reciprocal = reciprocal_size(y, call.get_float(0));
        double along = 0;
        for (std::size_t i = 0; i < n; ++i) {
            y[i] *= reciprocal;
            sums[i] += u[i] * y[i];
            u[i] *= wide(weight[static_cast<std::int64_t>(i)]);
            along += u[i] * y[i] / static_cast<double>(n);
        }
        for (std::size_t i = 0; i < n; ++i)
            u[i] = reciprocal * (u[i] - y[i] * along);
        narrow(u, grad_input.row(row));
    }
    if (grad_weight)
        narrow(sums, grad_weight.row(0));
}

// The dtype of the weights is the dtype of the input before the positions.
template<bool is_backward>
Status qk_norm_rope(const Call &call) {
    const Tables tables(call, call.get_bool(1));
    Status valid = tables.check();
    if (!valid.ok())
        return valid;
    return visit_floating(call.input(0)->dtype, [&](auto t) {
        return visit_floating(call.input(call.c().n_inputs - 4)->dtype, [&](auto u) {
            using T = typename decltype(t)::type;
            using U = typename decltype(u)::type;
            for (const std::uint32_t which : {0u, 1u})
                is_backward ? norm_and_rotate_bwd<T, U>(call, which, tables)
                            : norm_and_rotate<T, U>(call, which, tables);
            return Status();
        });
    });
}

Status fused_rope_fwd(const Call &call) {
    return rotate(call, 0, turn_forward);
}

Status fused_rope_bwd(const Call &call) {
    return rotate(call, 0, turn_backward);
}

Status fused_rope_qk_fwd(const Call &call) {
    return rotate_both(call, turn_forward);
}

Status fused_rope_qk_bwd(const Call &call) {
    return rotate_both(call, turn_backward);
}

} // namespace

void add_rope(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::fused_rope_fwd, any_float, opdock::kernel<&fused_rope_fwd>, opdock::supports<&supports_rope>);
    plugin.add(ops::fused_rope_bwd, any_float, opdock::kernel<&fused_rope_bwd>, opdock::supports<&supports_rope>);
    plugin.add(ops::fused_rope_qk_fwd, any_float, opdock::kernel<&fused_rope_qk_fwd>, opdock::supports<&supports_rope>);
    plugin.add(ops::fused_rope_qk_bwd, any_float, opdock::kernel<&fused_rope_qk_bwd>, opdock::supports<&supports_rope>);
    const auto at_positions = opdock::supports<&supports_positions>;
    plugin.add(ops::rope_positions, with_positions, opdock::kernel<&rotate_to_positions<turn_forward, 1>>,
               at_positions);
    plugin.add(ops::rope_positions_bwd, with_positions, opdock::kernel<&rotate_to_positions<turn_backward, 1>>,
               at_positions);
    plugin.add(ops::rope_qk_positions, with_positions, opdock::kernel<&rotate_to_positions<turn_forward, 2>>,
               at_positions);
    plugin.add(ops::rope_qk_positions_bwd, with_positions, opdock::kernel<&rotate_to_positions<turn_backward, 2>>,
               at_positions);
    plugin.add(ops::qk_norm_rope, weighted_with_positions, opdock::kernel<&qk_norm_rope<false>>, at_positions);
    plugin.add(ops::qk_norm_rope_bwd, weighted_with_positions, opdock::kernel<&qk_norm_rope<true>>, at_positions);
}

} // namespace reference
