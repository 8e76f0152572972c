// fused_linear_cross_entropy processes some rows at a time: it computes their logits in f32, turns them into gradients,
// and multiplies these for the gradients of input, weight and bias. Sums over all rows accumulate in f32.
#include <algorithm>
#include <string>

#include "cross_entropy.hpp"
#include "ops/ops.hpp"
#include "product.hpp"
#include "row_blocks.hpp"

namespace cpu {
namespace {

// Rows at a time: enough for fast products and to make adding to the sums a small part of the work.
constexpr int64_t most_rows = 1024;
constexpr int64_t most_logits = int64_t(1) << 28; // bytes

// Layout of the workspace.
struct Layout {
    int64_t rows, of_input, classes; // sizes of the op
    int64_t bytes;                   // per element
    int64_t rows_of_chunk;
    uint64_t gradients, bias, weight_sums, bias_sums, ones, size; // offsets; the f32 logits come first

    explicit Layout(const opdock::Problem &problem) {
        const DLTensor &input = *problem.input(0);
        rows = input.shape[0];
        of_input = input.shape[1];
        classes = problem.input(1)->shape[0];
        bytes = element_bytes(input);
        constexpr int64_t wide = sizeof(float);
        const int64_t fitting = most_logits / std::max<int64_t>(1, classes * wide);
        rows_of_chunk = std::min(rows, std::clamp<int64_t>(fitting, 16, most_rows));
        uint64_t end = 0;
        const auto place = [&](int64_t elements, int64_t element) {
            const uint64_t begin = end;
            end += (static_cast<uint64_t>(elements * element) + 63) / 64 * 64;
            return begin;
        };
        const uint64_t logits = place(rows_of_chunk * classes, wide);
        gradients = bytes == wide ? logits : place(rows_of_chunk * classes, bytes);
        bias = place(classes, wide);
        weight_sums = place(problem.has_output(2) ? classes * of_input : 0, wide);
        bias_sums = place(problem.has_output(3) ? classes : 0, wide);
        ones = place(problem.has_output(3) ? rows_of_chunk : 0, bytes);
        size = end;
    }
};

std::string gapped(size_t i) {
    return "it needs tensors without gaps; tensor " + std::to_string(i) + " has gaps";
}

opdock::Status check(const opdock::Problem &problem) {
    for (uint32_t i = 0; i < problem.c().n_tensors; ++i)
        if (const DLTensor *tensor = problem.c().tensors[i]; tensor != nullptr && !is_dense(*tensor))
            return opdock::unsupported(gapped(i));
    return {};
}

uint64_t workspace(const opdock::Problem &problem) {
    return Layout(problem).size;
}

class Chunks {
  public:
    explicit Chunks(const opdock::Call &call)
        : call_(call), sizes_(call), knobs_(Knobs::of(call)), workspace_(static_cast<std::byte *>(call.workspace())),
          logits_(Rows::apart(workspace_, sizes_.classes * static_cast<int64_t>(sizeof(float)))),
          gradients_(Rows::apart(workspace_ + sizes_.gradients, sizes_.classes * sizes_.bytes)),
          weight_(Rows::apart(call.call().data[1], sizes_.of_input * sizes_.bytes)) {}

    opdock::Status run() {
        cross_entropy_.t = {kDLFloat, 32, 1};
        cross_entropy_.grad_t = call_.input(0)->dtype;
        cross_entropy_.logits = logits_;
        cross_entropy_.grad_logits = gradients_;
        cross_entropy_.target = Rows::of_input(call_, 2, 0);
        cross_entropy_.classes = sizes_.classes;
        cross_entropy_.ignore_index = call_.get_int(0);
        cross_entropy_.smoothing = call_.get_float(1);
        const Rows scale = Rows::of_input(call_, 4, 0);
        cross_entropy_.scale = scale ? *scale.row<const float>(0) : 1;
        if (opdock::Status status = check_targets(cross_entropy_, sizes_.rows); !status.ok())
            return status;
        widen_bias();
        std::fill_n(floats(sizes_.weight_sums), call_.has_output(2) ? sizes_.classes * sizes_.of_input : 0, 0.0f);
        std::fill_n(floats(sizes_.bias_sums), call_.has_output(3) ? sizes_.classes : 0, 0.0f);
        for (int64_t first = 0; first < sizes_.rows; first += sizes_.rows_of_chunk)
            add(first, std::min(sizes_.rows_of_chunk, sizes_.rows - first));
        round_sums(Rows::of_output(call_, 2), floats(sizes_.weight_sums), sizes_.classes * sizes_.of_input);
        round_sums(Rows::of_output(call_, 3), floats(sizes_.bias_sums), sizes_.classes);
        return {};
    }

  private:
    float *floats(uint64_t offset) const { return reinterpret_cast<float *>(workspace_ + offset); }

    void widen_bias() const {
        float *wide = floats(sizes_.bias);
        std::fill_n(wide, sizes_.classes, 0.0f);
        if (const Rows bias = Rows::of_input(call_, 3))
            opdock::visit_floating(cross_entropy_.grad_t, [&](auto t) {
                const auto *from = bias.row<const typename decltype(t)::type>(0);
                std::transform(from, from + sizes_.classes, wide, [](auto element) { return float(element); });
            });
    }

    static void multiply(const Product &a, const Knobs &knobs) {
        multiply_all(a, 1, knobs, [&](int64_t) -> const Product & { return a; });
    }

    // A product over the chunk's rows.
    Product product(const Factor &x, const Factor &w, int64_t rows, int64_t columns, int64_t depth) const {
        return {.t = cross_entropy_.grad_t,
                .x = x,
                .w = w,
                .bias = {},
                .output = {},
                .rows = rows,
                .columns = columns,
                .depth = depth};
    }

    void add(int64_t first, int64_t rows) {
        const int64_t row_bytes = sizes_.of_input * sizes_.bytes;
        const Rows input = Rows::apart(static_cast<std::byte *>(call_.call().data[0]) + first * row_bytes, row_bytes);
        Product logits = product({input}, {weight_}, rows, sizes_.classes, sizes_.of_input);
        logits.totals = logits_;
        for (int64_t r = 0; r < rows; ++r)
            std::copy_n(floats(sizes_.bias), sizes_.classes, logits_.row<float>(r));
        multiply(logits, knobs_);

        CrossEntropy part = cross_entropy_;
        part.target = Rows::apart(part.target.row<int64_t>(first), sizeof(int64_t));
        part.loss = Rows::apart(Rows::of_output(call_, 0, 0).row<float>(first), sizeof(float));
        fuse_cross_entropy(part, rows, knobs_);

        if (const Rows grad_input = Rows::of_output(call_, 1)) {
            Product of_input = product({gradients_}, {weight_, true}, rows, sizes_.of_input, sizes_.classes);
            of_input.output = Rows::apart(grad_input.row<std::byte>(first), row_bytes);
            multiply(of_input, knobs_);
        }
        if (call_.has_output(2)) {
            Product of_weight = product({gradients_, true}, {input, true}, sizes_.classes, sizes_.of_input, rows);
            of_weight.totals =
                Rows::apart(floats(sizes_.weight_sums), sizes_.of_input * static_cast<int64_t>(sizeof(float)));
            multiply(of_weight, knobs_);
        }
        if (call_.has_output(3)) {
            opdock::visit_floating(cross_entropy_.grad_t, [&](auto t) {
                using T = typename decltype(t)::type;
                std::fill_n(reinterpret_cast<T *>(workspace_ + sizes_.ones), rows, T(1.0f));
            });
            Product of_bias =
                product({Rows::apart(workspace_ + sizes_.ones, 0)}, {gradients_, true}, 1, sizes_.classes, rows);
            of_bias.totals = Rows::apart(floats(sizes_.bias_sums), 0);
            multiply(of_bias, knobs_);
        }
    }

    void round_sums(const Rows &to, const float *sums, int64_t count) const {
        if (to)
            add_blocks(sums, RowBlocks(1), count, cross_entropy_.grad_t, to, knobs_);
    }

    const opdock::Call &call_;
    Layout sizes_;
    Knobs knobs_;
    std::byte *workspace_;
    Rows logits_, gradients_, weight_;
    CrossEntropy cross_entropy_ = {};
};

opdock::Status run(const opdock::Call &call) {
    return Chunks(call).run();
}

} // namespace

void add_linear_cross_entropy(Plugin &plugin) {
    plugin.add(opdock::ops::fused_linear_cross_entropy, any_float,
               {opdock::kernel<&run>, opdock::supports<&check>, opdock::workspace_size<&workspace>});
}

} // namespace cpu
