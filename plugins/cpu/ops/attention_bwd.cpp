// attention_bwd computes the scores twice, once for the gradients of queries and once for those of keys and values, so
// that each number is summed in one place.
#include <algorithm>
#include <cmath>

#include "attention.hpp"
#include "blas.hpp"
#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention_bwd.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/attention-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Weights and slopes of the scores of some queries of one head and some keys, in rows of most_keys elements.
template<class T>
class Tile {
  public:
    explicit Tile(const Attention &a)
        : a_(a), grad_(a.call->input<const T>(0)), query_(a.call->input<const T>(1)), key_(a.call->input<const T>(2)),
          value_(a.call->input<const T>(3)), output_(a.call->input<const T>(4)), lse_(a.call->input<const float>(5)),
          bias_(a.call->input<const T>(6)), grad_bias_(a.call->output<T>(3)), weights_(most_rows * most_keys),
          slopes_(most_rows * most_keys), queries_(most_rows * a.d), grads_(most_rows * a.e), keys_(most_keys * a.d),
          values_(most_keys * a.e) {}

    void take_queries(const Sequence &one, int64_t head, int64_t first, int64_t last) {
        first_ = first;
        count_ = last - first;
        head_ = head;
        for (int64_t i = 0; i < count_; ++i) {
            const int64_t at = one.query + first + i;
            widen(row_at(query_, one.batch, at, head), a_.d, queries_.data() + i * a_.d);
            float *grad = grads_.data() + i * a_.e;
            widen(row_at(grad_, one.batch, at, head), a_.e, grad);
            const T *output = row_at(output_, one.batch, at, head);
            projections_[i] =
                static_cast<float>(sum(static_cast<size_t>(a_.e), [=](size_t p, auto extent, VF s) HWY_ATTR {
                    return hn::MulAdd(load(grad + p, extent), load(output + p, extent), s);
                }));
            log_sums_[i] = lse_(one.batch, head, at);
        }
    }

    // Computes the tile for keys [first, last). If `writes_bias`, also writes the gradient of the bias.
    void compute(const Sequence &one, int64_t first, int64_t last, bool writes_bias) {
        const int64_t g = head_ / a_.heads_per_key(), n = last - first;
        k_ = matrix_of(row_at(key_, one.batch, one.key + first, g), key_.stride(1), n, a_.d, false, keys_.data());
        v_ = matrix_of(row_at(value_, one.batch, one.key + first, g), value_.stride(1), n, a_.e, false, values_.data());
        multiply(q(), count_, k_, n, a_.d, true, weights_.data(), most_keys);
        multiply(grads(), count_, v_, n, a_.e, true, slopes_.data(), most_keys);
        for (int64_t i = 0; i < count_; ++i)
            compute_row(one, i, first, n, writes_bias);
    }

    int64_t count() const { return count_; }
    Matrix q() const { return {queries_.data(), static_cast<int>(std::max<int64_t>(a_.d, 1)), false}; }
    Matrix grads() const { return {grads_.data(), static_cast<int>(std::max<int64_t>(a_.e, 1)), false}; }
    const Matrix &k() const { return k_; }
    float *weights() const { return weights_.data(); }
    float *slopes() const { return slopes_.data(); }

  private:
    void compute_row(const Sequence &one, int64_t i, int64_t first, int64_t n, bool writes_bias) {
        float *w = weights_.data() + i * most_keys, *s = slopes_.data() + i * most_keys;
        const int64_t row = first_ + i, at = one.query + row;
        const bool sees = log_sums_[i] != -HUGE_VALF;
        const int64_t begin = sees ? std::clamp<int64_t>(a_.begin(row, one.queries, one.keys) - first, 0, n) : 0;
        const int64_t end = sees ? std::clamp<int64_t>(a_.end(row, one.queries, one.keys) - first, begin, n) : 0;
        const auto size = static_cast<size_t>(end - begin);
        float *z = w + begin, *to = s + begin;
        const VF by = hn::Set(f32, a_.scale), cap = hn::Set(f32, a_.soft_cap > 0 ? a_.soft_cap : 1.0f);
        const bool capped = a_.soft_cap > 0;
        const T *bias = bias_.data() != nullptr ? &bias_(one.batch, head_, at, one.key + first + begin) : nullptr;
        T *grad_bias = grad_bias_.data() != nullptr && writes_bias
                           ? &grad_bias_(one.batch, head_, at, one.key + first + begin)
                           : nullptr;
        const int64_t bias_step = bias_ ? bias_.stride(3) : 1;
        if (bias != nullptr && bias_step != 1) { // copies one row of the bias to a contiguous one
            for (int64_t j = 0; j < end - begin; ++j)
                bias_row_[j] = bias[j * bias_step];
            bias = bias_row_;
        }
        const VF lse = hn::Set(f32, log_sums_[i]), projection = hn::Set(f32, projections_[i]);
        const VF unit = hn::Set(f32, 1.0f), inverse = hn::Div(unit, cap);
        along(size, [&](size_t j, auto extent) HWY_ATTR {
            VF y = hn::Mul(load(z + j, extent), by);
            const VF t = capped ? tanh(hn::Mul(y, inverse)) : hn::Zero(f32);
            y = capped ? hn::Mul(cap, t) : y;
            const VF score = bias == nullptr ? y : hn::Add(y, load(bias + j, extent));
            // Rounding of large scores must not make a weight exceed 1. NaN is kept.
            const VF above = hn::Sub(score, lse);
            const VF weight = exp(hn::IfThenElse(hn::Gt(above, hn::Zero(f32)), hn::Zero(f32), above));
            // A key hidden by a bias of minus infinity contributes nothing, whatever the gradient is.
            const VF slope = hn::IfThenElse(hn::Eq(weight, hn::Zero(f32)), weight,
                                            hn::Mul(weight, hn::Sub(load(to + j, extent), projection)));
            store(weight, z + j, extent);
            store(slope, to + j, extent);
            if (grad_bias != nullptr)
                store(slope, grad_bias + j, extent);
            if (capped)
                store(hn::Mul(slope, hn::NegMulAdd(t, t, unit)), to + j, extent);
        });
        fill(w, begin, 0);
        fill(w + end, n - end, 0);
        fill(s, begin, 0);
        fill(s + end, n - end, 0);
    }

    const Attention &a_;
    TensorView<const T> grad_, query_, key_, value_, output_;
    TensorView<const float> lse_;
    TensorView<const T> bias_;
    TensorView<T> grad_bias_;
    Floats weights_, slopes_, queries_, grads_, keys_, values_;
    float projections_[most_rows], log_sums_[most_rows];
    T bias_row_[most_keys];
    Matrix k_ = {}, v_ = {};
    int64_t first_ = 0, count_ = 0, head_ = 0;
};

// Computes the gradient of some queries, and of the bias.
template<class T>
void query_gradients(const Attention &a, const Piece &piece, int64_t head) {
    const Sequence &one = *piece.sequence;
    const auto grad_query = a.call->output<T>(0);
    Tile<T> tile(a);
    tile.take_queries(one, head, piece.first, piece.last);
    const int64_t first = a.begin(piece.first, one.queries, one.keys),
                  last = a.end(piece.last - 1, one.queries, one.keys);
    const Floats sums(tile.count() * a.d);
    fill(sums.data(), tile.count() * a.d, 0);
    for (int64_t j = first; j < last; j += most_keys) {
        const int64_t n = std::min(most_keys, last - j);
        tile.compute(one, j, j + n, true);
        add_weighted({tile.slopes(), static_cast<int>(most_keys), false}, tile.count(), tile.k(), a.d, n, sums.data());
    }
    for (int64_t i = 0; i < tile.count(); ++i)
        narrow(sums.data() + i * a.d, a.d, a.scale, row_at(grad_query, one.batch, one.query + piece.first + i, head));
}

// Computes the gradients of some keys and values of one key head.
template<class T>
void key_gradients(const Attention &a, const Piece &piece, int64_t g) {
    const Sequence &one = *piece.sequence;
    const auto grad_key = a.call->output<T>(1), grad_value = a.call->output<T>(2);
    const int64_t n = piece.last - piece.first;
    Tile<T> tile(a);
    const Floats keys(n * a.d), values(n * a.e);
    fill(keys.data(), n * a.d, 0);
    fill(values.data(), n * a.e, 0);
    for (int64_t head = g * a.heads_per_key(); head < (g + 1) * a.heads_per_key(); ++head) {
        for (int64_t i = 0; i < one.queries; i += most_rows) {
            const int64_t end = std::min(i + most_rows, one.queries);
            // Ranges of keys move monotonically with the queries, so the first and the last query decide.
            if (a.end(end - 1, one.queries, one.keys) <= piece.first || a.begin(i, one.queries, one.keys) >= piece.last)
                continue;
            tile.take_queries(one, head, i, end);
            tile.compute(one, piece.first, piece.last, false);
            const Matrix weights = {tile.weights(), static_cast<int>(most_keys), true};
            const Matrix slopes = {tile.slopes(), static_cast<int>(most_keys), true};
            add_weighted(weights, n, tile.grads(), a.e, end - i, values.data());
            add_weighted(slopes, n, tile.q(), a.d, end - i, keys.data());
        }
    }
    for (int64_t j = 0; j < n; ++j) {
        narrow(keys.data() + j * a.d, a.d, a.scale, row_at(grad_key, one.batch, one.key + piece.first + j, g));
        narrow(values.data() + j * a.e, a.e, 1, row_at(grad_value, one.batch, one.key + piece.first + j, g));
    }
}

void backward_queries(const Attention &a, const Piece &piece, int64_t head) {
    opdock::visit_floating(a.call->input(0)->dtype,
                           [&](auto t) { query_gradients<typename decltype(t)::type>(a, piece, head); });
}
void backward_keys(const Attention &a, const Piece &piece, int64_t g) {
    opdock::visit_floating(a.call->input(0)->dtype,
                           [&](auto t) { key_gradients<typename decltype(t)::type>(a, piece, g); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(backward_queries);
HWY_EXPORT(backward_keys);

namespace {

using opdock::Call;
using opdock::Problem;
using opdock::Status;

Status check_backward(const Problem &problem) {
    constexpr Operand operands[] = {{"grad"},
                                    {"query"},
                                    {"key"},
                                    {"value"},
                                    {"output"},
                                    {"lse", false},
                                    {"bias", false},
                                    {"query_starts", false},
                                    {"key_starts", false},
                                    {"grad_query"},
                                    {"grad_key"},
                                    {"grad_value"},
                                    {"grad_bias"}};
    Status status = check_sequences<7>(problem);
    if (status.ok())
        status = check_rows(problem, operands);
    return status;
}

// Zeroes every gradient to which no query or key of a sequence adds.
template<class T>
void clear_gradients(const Attention &a) {
    const Call &call = *a.call;
    const auto grad_query = call.output<T>(0), grad_key = call.output<T>(1), grad_value = call.output<T>(2);
    const auto grad_bias = call.output<T>(3);
    if (grad_bias)
        for (int64_t i = 0; i < grad_bias.numel(); ++i)
            grad_bias[i] = T(0.0f);
    if (!call.has_input(7))
        return;
    const Sequence last = a.sequences.empty() ? Sequence{} : a.sequences.back();
    for (int64_t i = last.query + last.queries; i < grad_query.size(1); ++i)
        clear(grad_query, 0, i, T(0.0f));
    for (int64_t i = last.key + last.keys; i < grad_key.size(1); ++i) {
        clear(grad_key, 0, i, T(0.0f));
        clear(grad_value, 0, i, T(0.0f));
    }
}

Status backward(const Call &call) {
    Attention a = attention_of_sequences(call, 1);
    Status status = find_sequences(call, 7, a);
    if (!status.ok())
        return status;
    opdock::visit_floating(call.input(0)->dtype, [&](auto t) { clear_gradients<typename decltype(t)::type>(a); });
    for_each_piece(call, pieces_of(a, &Sequence::queries, most_rows), a.heads,
                   worth_of(a, 2 * most_rows, longest_of(a, &Sequence::keys)), [&](const Piece &piece, int64_t head) {
                       HWY_DYNAMIC_DISPATCH(backward_queries)(a, piece, head);
                   });
    for_each_piece(call, pieces_of(a, &Sequence::keys, most_keys), a.key_heads,
                   worth_of(a, 2 * most_keys, longest_of(a, &Sequence::queries) * a.heads_per_key()),
                   [&](const Piece &piece, int64_t g) {
                       HWY_DYNAMIC_DISPATCH(backward_keys)
                       (a, piece, g);
                   });
    return {};
}

} // namespace

void add_attention_bwd(Plugin &plugin) {
    plugin.add(opdock::ops::attention_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
}

} // namespace cpu
#endif
