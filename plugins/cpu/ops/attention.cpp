// Attention: softmax(scale * query key^T + bias) value, forward, backward and over a paged cache.
//
// Some rows (queries) meet the keys piece by piece, as in FlashAttention: the scores of a piece are a product of
// matrices, and what was summed before is rescaled when a row's largest score grows. The pieces follow from the problem
// alone, and each row is computed in one place.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "blas.hpp"
#include "dtypes.hpp"
#include "hwy/aligned_allocator.h"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/math-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_ATTENTION_ARGUMENTS
#define CPU_ATTENTION_ARGUMENTS
namespace cpu {

using opdock::TensorView;

// Queries and keys at a time. A piece of scores, of keys and of values then stays in L2.
inline constexpr int64_t most_rows = 64;
inline constexpr int64_t most_keys = 256;

// Queries [query, query + queries) and keys [key, key + keys) of one batch that belong together.
struct Sequence {
    int64_t batch, query, queries, key, keys;
};

// Rows of one sequence and one head: queries [first, last), counted from the sequence's first, or keys likewise.
struct Piece {
    const Sequence *sequence;
    int64_t first, last;
};

struct Attention {
    const opdock::Call *call;
    uint32_t first; // input: the query; key and value follow
    float scale, soft_cap;
    bool causal;
    int64_t left, right;
    int64_t heads, key_heads, d, e;
    std::vector<Sequence> sequences;

    int64_t heads_per_key() const { return key_heads == 0 ? 1 : heads / key_heads; }
    // The keys that query i of a sequence sees: from begin to before end.
    int64_t end(int64_t i, int64_t queries, int64_t keys) const {
        const int64_t position = i + keys - queries;
        int64_t end = causal ? std::min(keys, position + 1) : keys;
        // A window past all keys may be too large to add.
        if (right >= 0)
            end = std::min(end, position + std::min(right, queries + keys) + 1);
        return std::max<int64_t>(end, 0);
    }
    int64_t begin(int64_t i, int64_t queries, int64_t keys) const {
        const int64_t begin = left >= 0 ? std::max<int64_t>(i + keys - queries - std::min(left, queries + keys), 0) : 0;
        return std::min(begin, end(i, queries, keys));
    }
};

// One query of one head.
template<class T>
struct Query {
    const T *query;
    const T *bias; // of key 0 of the sequence; null for none
    T *output;
    float *lse; // null for none
    int64_t begin, end;
    int64_t bias_step;
};

template<class T>
T *row_at(const TensorView<T> &tensor, int64_t i, int64_t j, int64_t k) {
    return tensor.data() == nullptr
               ? nullptr
               : tensor.data() + i * tensor.stride(0) + j * tensor.stride(1) + k * tensor.stride(2);
}

// Memory of one task.
class Floats {
  public:
    explicit Floats(int64_t count)
        : memory_(hwy::AllocateAligned<float>(static_cast<size_t>(std::max<int64_t>(count, 1)))) {
        if (!memory_)
            throw std::bad_alloc();
    }
    float *data() const { return memory_.get(); }

  private:
    hwy::AlignedFreeUniquePtr<float[]> memory_;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T>
HWY_INLINE void widen(const T *from, int64_t count, float *to) {
    along(static_cast<size_t>(count),
          [=](size_t p, auto extent) HWY_ATTR { store(load(from + p, extent), to + p, extent); });
}

template<class T>
HWY_INLINE void narrow(const float *from, int64_t count, float factor, T *to) {
    const VF by = hn::Set(f32, factor);
    along(static_cast<size_t>(count),
          [=](size_t p, auto extent) HWY_ATTR { store(hn::Mul(load(from + p, extent), by), to + p, extent); });
}

HWY_INLINE void fill(float *to, int64_t count, float value) {
    std::fill(to, to + count, value);
}

// `count` rows of `length` elements, the first at `from` and each `step` elements after the one before: as they are, or
// widened into `scratch`.
template<class T>
HWY_INLINE Matrix matrix_of(const T *from, int64_t step, int64_t count, int64_t length, bool down, float *scratch) {
    if constexpr (sizeof(T) == sizeof(float)) {
        if (step >= std::max<int64_t>(length, 1) && step <= INT32_MAX)
            return {from, static_cast<int>(step), down};
    }
    for (int64_t i = 0; i < count; ++i)
        widen(from + i * step, length, scratch + i * length);
    return {scratch, static_cast<int>(std::max<int64_t>(length, 1)), down};
}

// sums(i, :) += the sum over p < depth of weights(i, p) * rows(p, :). A weight of 0 takes no part, though its row be
// infinite, as products of matrices do not have it.
HWY_INLINE void add_weighted(const Matrix &weights, int64_t count, const Matrix &rows, int64_t columns, int64_t depth,
                             float *sums) {
    if (columns == 0)
        return;
    float nothing = 0; // NaN where an element is not finite
    for (int64_t p = 0; p < depth; ++p) {
        const float *row = rows.data + p * rows.step;
        for (int64_t begin = 0; begin < columns; begin += block_size) {
            const int64_t end = std::min(columns, begin + static_cast<int64_t>(block_size));
            nothing += block_sum(static_cast<size_t>(begin), static_cast<size_t>(end),
                                 [=](size_t q, auto extent, VF s)
                                     HWY_ATTR { return hn::MulAdd(load(row + q, extent), hn::Zero(f32), s); });
        }
    }
    if (nothing == 0) {
        multiply(weights, count, {rows.data, rows.step, true}, columns, depth, false, sums, static_cast<int>(columns));
        return;
    }
    for (int64_t i = 0; i < count; ++i) {
        for (int64_t p = 0; p < depth; ++p) {
            const float weight = weights.down ? weights.data[p * weights.step + i] : weights.data[i * weights.step + p];
            for (int64_t q = 0; weight != 0 && q < columns; ++q)
                sums[i * columns + q] += weight * rows.data[p * rows.step + q];
        }
    }
}

// tanh from the exponential of a negative number, so that nothing is infinite.
HWY_INLINE VF tanh(VF x) {
    const VF magnitude = hn::Abs(x);
    const VF e = exp(hn::Mul(magnitude, hn::Set(f32, -2.0f)));
    const VF one = hn::Set(f32, 1.0f);
    // Near 0 that would cancel: x - x^3/3 + 2 x^5/15 - 17 x^7/315.
    const VF square = hn::Mul(x, x);
    VF series = hn::MulAdd(square, hn::Set(f32, -17.0f / 315), hn::Set(f32, 2.0f / 15));
    series = hn::MulAdd(series, square, hn::Set(f32, -1.0f / 3));
    series = hn::MulAdd(hn::Mul(series, square), x, x);
    const VF far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
    return hn::IfThenElse(hn::Lt(magnitude, hn::Set(f32, 0.25f)), series, far);
}

// A row of products becomes one of scores.
template<class T>
HWY_INLINE void to_scores(float *z, int64_t count, float soft_cap, const T *bias, int64_t bias_step) {
    const auto n = static_cast<size_t>(count);
    if (soft_cap > 0) {
        const VF cap = hn::Set(f32, soft_cap), inverse = hn::Set(f32, 1 / soft_cap);
        along(n, [=](size_t j, auto extent)
                     HWY_ATTR { store(hn::Mul(cap, tanh(hn::Mul(load(z + j, extent), inverse))), z + j, extent); });
    }
    if (bias == nullptr)
        return;
    if (bias_step == 1) {
        along(n, [=](size_t j, auto extent)
                     HWY_ATTR { store(hn::Add(load(z + j, extent), load(bias + j, extent)), z + j, extent); });
    } else {
        for (int64_t j = 0; j < count; ++j)
            z[j] += float(bias[j * bias_step]);
    }
}

// A row after some pieces: its largest score, and the sum of exp(z - largest).
struct RowState {
    float largest;
    double sum;
};

// The scores z of a piece of keys become exponentials. Returns what the sums of the pieces before are worth now.
HWY_INLINE float to_exponentials(float *z, int64_t count, RowState &state) {
    const auto n = static_cast<size_t>(count);
    const float best = block_max(0, n, [=](size_t j, auto extent) HWY_ATTR { return load(z + j, extent); });
    float factor = 1;
    if (best > state.largest) {
        factor = std::isinf(state.largest) ? 0.0f : std::exp(state.largest - best);
        state.sum *= static_cast<double>(factor);
        state.largest = best;
    }
    // Exponentials of minus infinity are 0 from anywhere.
    const VF pivot = hn::Set(f32, std::isinf(state.largest) && state.largest < 0 ? 0.0f : state.largest);
    state.sum += static_cast<double>(block_sum(0, n, [=](size_t j, auto extent, VF s) HWY_ATTR {
        const VF e = exp(hn::Sub(load(z + j, extent), pivot));
        store(e, z + j, extent);
        return hn::Add(s, e);
    }));
    return factor;
}

// The rows of one head over keys [first, last), which `take(j, last, ...)` gives by pieces.
template<class T, class Take>
void attend(const Attention &a, Query<T> *rows, int64_t count, Take take) {
    const Floats queries(count * a.d), scores(count * most_keys), sums(count * a.e), keys(most_keys * a.d),
        values(most_keys * a.e);
    RowState states[most_rows];
    int64_t first = rows[0].begin, last = rows[0].end;
    for (int64_t i = 0; i < count; ++i) {
        const VF by = hn::Set(f32, a.scale);
        float *to = queries.data() + i * a.d;
        const T *from = rows[i].query;
        along(static_cast<size_t>(a.d),
              [=](size_t p, auto extent) HWY_ATTR { store(hn::Mul(load(from + p, extent), by), to + p, extent); });
        states[i] = {-HUGE_VALF, 0};
        first = std::min(first, rows[i].begin);
        last = std::max(last, rows[i].end);
    }
    fill(sums.data(), count * a.e, 0);
    const Matrix q = {queries.data(), static_cast<int>(std::max<int64_t>(a.d, 1)), false};
    while (first < last) {
        const T *key = nullptr, *value = nullptr;
        int64_t key_step = 0, value_step = 0;
        const int64_t n = take(first, std::min(last, first + most_keys), key, key_step, value, value_step);
        const Matrix k = matrix_of(key, key_step, n, a.d, false, keys.data());
        multiply(q, count, k, n, a.d, true, scores.data(), most_keys);
        for (int64_t i = 0; i < count; ++i) {
            float *z = scores.data() + i * most_keys;
            const int64_t begin = std::clamp<int64_t>(rows[i].begin - first, 0, n);
            const int64_t end = std::clamp<int64_t>(rows[i].end - first, begin, n);
            const T *bias = rows[i].bias == nullptr ? nullptr : rows[i].bias + (first + begin) * rows[i].bias_step;
            to_scores(z + begin, end - begin, a.soft_cap, bias, rows[i].bias_step);
            if (const float factor = to_exponentials(z + begin, end - begin, states[i]); factor != 1)
                narrow(sums.data() + i * a.e, a.e, factor, sums.data() + i * a.e);
            fill(z, begin, 0);
            fill(z + end, n - end, 0);
        }
        const Matrix v = matrix_of(value, value_step, n, a.e, true, values.data());
        add_weighted({scores.data(), static_cast<int>(most_keys), false}, count, v, a.e, n, sums.data());
        first += n;
    }
    for (int64_t i = 0; i < count; ++i) {
        const bool saw = states[i].sum != 0; // a NaN is one
        narrow(sums.data() + i * a.e, a.e, saw ? static_cast<float>(1 / states[i].sum) : 0.0f, rows[i].output);
        if (rows[i].lse != nullptr)
            *rows[i].lse =
                saw ? static_cast<float>(static_cast<double>(states[i].largest) + std::log(states[i].sum)) : -HUGE_VALF;
    }
}

template<class T>
void attend_to_sequence(const Attention &a, const Piece &piece, int64_t head) {
    const opdock::Call &call = *a.call;
    const auto query = call.input<const T>(0), key = call.input<const T>(1), value = call.input<const T>(2);
    const auto bias = call.input<const T>(3);
    const auto output = call.output<T>(0);
    const auto lse = call.output<float>(1);
    const Sequence &one = *piece.sequence;
    Query<T> rows[most_rows];
    const int64_t count = piece.last - piece.first;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = one.query + piece.first + i;
        rows[i] = {row_at(query, one.batch, at, head),
                   bias.data() != nullptr ? &bias(one.batch, head, at, one.key) : nullptr,
                   row_at(output, one.batch, at, head),
                   lse ? &lse(one.batch, head, at) : nullptr,
                   a.begin(piece.first + i, one.queries, one.keys),
                   a.end(piece.first + i, one.queries, one.keys),
                   bias ? bias.stride(3) : 1};
    }
    const int64_t g = head / a.heads_per_key();
    attend(a, rows, count,
           [&](int64_t first, int64_t last, const T *&k, int64_t &k_step, const T *&v, int64_t &v_step) {
               k = row_at(key, one.batch, one.key + first, g);
               v = row_at(value, one.batch, one.key + first, g);
               k_step = key.stride(1);
               v_step = value.stride(1);
               return last - first;
           });
}

// All query heads of one key head, of one sequence.
template<class T>
void attend_to_pages(const Attention &a, int64_t sequence, int64_t g) {
    const opdock::Call &call = *a.call;
    const auto query = call.input<const T>(0), keys = call.input<const T>(1), values = call.input<const T>(2);
    const auto table = call.input<const int32_t>(3);
    const int64_t length = call.input<const int32_t>(4)[sequence], tokens = keys.size(1);
    const auto output = call.output<T>(0);
    const auto lse = call.output<float>(1);
    for (int64_t begin = 0; begin < a.heads_per_key(); begin += most_rows) {
        Query<T> rows[most_rows];
        const int64_t count = std::min(most_rows, a.heads_per_key() - begin);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t head = g * a.heads_per_key() + begin + i;
            rows[i] = {query.data() == nullptr ? nullptr : query.row(sequence * a.heads + head).data(),
                       nullptr,
                       output.data() == nullptr ? nullptr : output.row(sequence * a.heads + head).data(),
                       lse ? &lse(sequence, head) : nullptr,
                       a.begin(0, 1, length),
                       a.end(0, 1, length),
                       1};
        }
        attend(a, rows, count,
               [&](int64_t first, int64_t last, const T *&k, int64_t &k_step, const T *&v, int64_t &v_step) {
                   const int64_t page = table(sequence, first / tokens), place = first % tokens;
                   k = row_at(keys, page, place, g);
                   v = row_at(values, page, place, g);
                   k_step = keys.stride(1);
                   v_step = values.stride(1);
                   return std::min(last - first, tokens - place);
               });
    }
}

// --- backward
// ----------------------------------------------------------------------------------------------------------

// Some queries of one head, and some keys: weights and the slopes of the scores, rows of most_keys each.
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

    // Computes the tile for keys [first, last). `writes_bias`: the gradient of the bias, too.
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
        if (bias != nullptr && bias_step != 1) { // one row of it, with a step of 1
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
            // At most 1, however large the scores are that were rounded. NaN remains.
            const VF above = hn::Sub(score, lse);
            const VF weight = exp(hn::IfThenElse(hn::Gt(above, hn::Zero(f32)), hn::Zero(f32), above));
            // A key that a bias of minus infinity hides has no part in anything, whatever the gradient is.
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

// The gradient of some queries, and that of the bias.
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

// Those of some keys and values of one key head.
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
            // Ranges of keys move on with the queries, so that the first and the last query tell.
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

void forward_piece(const Attention &a, const Piece &piece, int64_t head) {
    opdock::visit_floating(a.call->input(0)->dtype,
                           [&](auto t) { attend_to_sequence<typename decltype(t)::type>(a, piece, head); });
}
void decode_head(const Attention &a, int64_t sequence, int64_t g) {
    opdock::visit_floating(a.call->input(0)->dtype,
                           [&](auto t) { attend_to_pages<typename decltype(t)::type>(a, sequence, g); });
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

HWY_EXPORT(forward_piece);
HWY_EXPORT(decode_head);
HWY_EXPORT(backward_queries);
HWY_EXPORT(backward_keys);

namespace {

using opdock::Call;
using opdock::Problem;
using opdock::Status;

template<uint32_t starts>
Status check_sequences(const Problem &problem) {
    if (problem.has_input(starts) != problem.has_input(starts + 1))
        return opdock::invalid_argument("query_starts and key_starts: give both or neither");
    return {};
}

Status check_forward(const Problem &problem) {
    constexpr Operand operands[] = {
        {"query"}, {"key"}, {"value"}, {"bias", false}, {"query_starts", false}, {"key_starts", false}, {"output"}};
    Status status = check_sequences<4>(problem);
    if (status.ok())
        status = check_rows(problem, operands);
    return status;
}

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

Status check_decode(const Problem &problem) {
    constexpr Operand operands[] = {{"query"},          {"key_cache"}, {"value_cache"}, {"block_table", false},
                                    {"lengths", false}, {"output"}};
    return check_rows(problem, operands);
}

Status check_append(const Problem &problem) {
    constexpr Operand operands[] = {{"key_cache"}, {"value_cache"}, {"key"}, {"value"}};
    return check_rows(problem, operands);
}

Status check_starts(const char *name, const TensorView<const int32_t> &starts, int64_t end) {
    int64_t last = 0;
    for (int64_t i = 0; i < starts.numel(); ++i) {
        if (starts[i] < last || starts[i] > end || (i == 0 && starts[i] != 0))
            return opdock::invalid_argument(
                std::string(name) + ": start " + std::to_string(i) + " is " + std::to_string(starts[i]) +
                "; expected starts from 0 on that do not fall, up to " + std::to_string(end));
        last = starts[i];
    }
    return {};
}

// Each batch is a sequence, or the starts tell where one begins.
Status find_sequences(const Call &call, uint32_t starts, Attention &a) {
    const DLTensor &query = *call.input(a.first), &key = *call.input(a.first + 1);
    if (!call.has_input(starts)) {
        for (int64_t b = 0; b < query.shape[0]; ++b)
            a.sequences.push_back({b, 0, query.shape[1], 0, key.shape[1]});
        return {};
    }
    const auto queries = call.input<const int32_t>(starts), keys = call.input<const int32_t>(starts + 1);
    Status status = check_starts("query_starts", queries, query.shape[1]);
    if (status.ok())
        status = check_starts("key_starts", keys, key.shape[1]);
    for (int64_t i = 0; status.ok() && i + 1 < queries.numel(); ++i)
        a.sequences.push_back({0, queries[i], queries[i + 1] - queries[i], keys[i], keys[i + 1] - keys[i]});
    return status;
}

Attention attention_of(const Call &call, uint32_t first) {
    const DLTensor &query = *call.input(first), &key = *call.input(first + 1), &value = *call.input(first + 2);
    Attention a = {};
    a.call = &call;
    a.first = first;
    a.heads = query.shape[query.ndim - 2];
    a.key_heads = key.shape[2];
    a.d = row_size(query);
    a.e = row_size(value);
    a.scale = static_cast<float>(call.has_attribute(0) ? call.get_float(0)
                                                       : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(a.d, 1))));
    a.right = -1;
    return a;
}

// The attributes of the ops over whole sequences.
Attention attention_of_sequences(const Call &call, uint32_t first) {
    Attention a = attention_of(call, first);
    a.causal = call.get_bool(1);
    a.left = call.get_int(2);
    a.right = call.get_int(3);
    a.soft_cap = static_cast<float>(call.get_float(4));
    return a;
}

template<class T>
void clear(const TensorView<T> &tensor, int64_t batch, int64_t row, T value) {
    if (!tensor)
        return;
    for (int64_t h = 0; h < tensor.size(2); ++h)
        for (int64_t p = 0; p < tensor.size(3); ++p)
            tensor(batch, row, h, p) = value;
}

// Pieces of at most `most` of the queries of each sequence, or of its keys.
std::vector<Piece> pieces_of(const Attention &a, int64_t Sequence::*count, int64_t most) {
    std::vector<Piece> pieces;
    for (const Sequence &one : a.sequences)
        for (int64_t first = 0; first < one.*count; first += most)
            pieces.push_back({&one, first, std::min(first + most, one.*count)});
    return pieces;
}

// work(piece, head) for each of both.
template<class Work>
void for_each_piece(const Call &call, const std::vector<Piece> &pieces, int64_t heads, int64_t bytes, Work work) {
    const auto count = static_cast<int64_t>(pieces.size());
    in_chunks(count * heads, bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            work(pieces[static_cast<size_t>(i % count)], i / count);
    });
}

// The work on one piece, in bytes of data: `per_byte` multiplications take about as long as one byte from memory.
int64_t worth_of(const Attention &a, int64_t rows, int64_t others) {
    constexpr int64_t per_byte = 8;
    return std::max<int64_t>(rows * others * (a.d + a.e) / per_byte, 1);
}

int64_t longest(const Attention &a, int64_t Sequence::*count) {
    int64_t most = 0;
    for (const Sequence &one : a.sequences)
        most = std::max(most, one.*count);
    return most;
}

Status forward(const Call &call) {
    Attention a = attention_of_sequences(call, 0);
    Status status = find_sequences(call, 4, a);
    if (!status.ok())
        return status;
    if (call.has_input(4)) {
        const int64_t used = a.sequences.empty() ? 0 : a.sequences.back().query + a.sequences.back().queries;
        const auto lse = call.output<float>(1);
        opdock::visit_floating(call.input(0)->dtype, [&](auto t) {
            using T = typename decltype(t)::type;
            for (int64_t i = used; i < call.output(0)->shape[1]; ++i)
                clear(call.output<T>(0), 0, i, T(0.0f));
        });
        for (int64_t i = used; lse && i < lse.size(2); ++i)
            for (int64_t h = 0; h < lse.size(1); ++h)
                lse(0, h, i) = -HUGE_VALF;
    }
    const int64_t bytes = worth_of(a, most_rows, longest(a, &Sequence::keys));
    for_each_piece(call, pieces_of(a, &Sequence::queries, most_rows), a.heads, bytes,
                   [&](const Piece &piece, int64_t head) {
                       HWY_DYNAMIC_DISPATCH(forward_piece)
                       (a, piece, head);
                   });
    return {};
}

// What no query or key of a sequence has a part in.
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
                   worth_of(a, 2 * most_rows, longest(a, &Sequence::keys)), [&](const Piece &piece, int64_t head) {
                       HWY_DYNAMIC_DISPATCH(backward_queries)(a, piece, head);
                   });
    for_each_piece(call, pieces_of(a, &Sequence::keys, most_keys), a.key_heads,
                   worth_of(a, 2 * most_keys, longest(a, &Sequence::queries) * a.heads_per_key()),
                   [&](const Piece &piece, int64_t g) {
                       HWY_DYNAMIC_DISPATCH(backward_keys)
                       (a, piece, g);
                   });
    return {};
}

// Every page that a sequence has tokens in is one of the cache, and there are enough of them.
Status check_pages(const Call &call) {
    const auto table = call.input<const int32_t>(3), lengths = call.input<const int32_t>(4);
    const int64_t pages = call.input(1)->shape[0], tokens = call.input(1)->shape[1];
    for (int64_t i = 0; i < lengths.numel(); ++i) {
        if (lengths[i] < 0 || lengths[i] > table.size(1) * tokens)
            return opdock::invalid_argument("lengths: sequence " + std::to_string(i) + " has " +
                                            std::to_string(lengths[i]) + " tokens; its pages have room for " +
                                            std::to_string(table.size(1) * tokens));
        for (int64_t j = 0; j * tokens < lengths[i]; ++j)
            if (table(i, j) < 0 || table(i, j) >= pages)
                return opdock::invalid_argument("block_table: page " + std::to_string(j) + " of sequence " +
                                                std::to_string(i) + " is " + std::to_string(table(i, j)) +
                                                "; the cache has " + std::to_string(pages));
    }
    return {};
}

Status decode(const Call &call) {
    Status status = check_pages(call);
    if (!status.ok())
        return status;
    Attention a = attention_of(call, 0);
    a.causal = true;
    a.left = call.get_int(1);
    a.soft_cap = static_cast<float>(call.get_float(2));
    int64_t most = 0;
    const auto lengths = call.input<const int32_t>(4);
    for (int64_t i = 0; i < lengths.numel(); ++i)
        most = std::max<int64_t>(most, lengths[i]);
    // Keys and values are read once, and that is what takes the time.
    const int64_t bytes = std::max<int64_t>(most * (a.d + a.e) * element_bytes(*call.input(1)), 1);
    in_chunks(lengths.numel() * a.key_heads, bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            HWY_DYNAMIC_DISPATCH(decode_head)(a, i / a.key_heads, i % a.key_heads);
    });
    return {};
}

Status append(const Call &call) {
    const auto slots = call.input<const int64_t>(4);
    const int64_t tokens = call.input(0)->shape[1], places = call.input(0)->shape[0] * tokens;
    for (int64_t i = 0; i < slots.numel(); ++i)
        if (slots[i] >= places)
            return opdock::invalid_argument("slots: token " + std::to_string(i) + " goes to slot " +
                                            std::to_string(slots[i]) + "; the cache has " + std::to_string(places));
    const int64_t heads = call.input(0)->shape[2];
    const int64_t bytes =
        2 * heads * (row_size(*call.input(2)) + row_size(*call.input(3))) * element_bytes(*call.input(2));
    const Rows caches[] = {Rows::of_input(call, 0), Rows::of_input(call, 1)};
    const Rows sources[] = {Rows::of_input(call, 2), Rows::of_input(call, 3)};
    in_chunks(slots.numel(), bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        for (int which = 0; which < 2; ++which) {
            const DLTensor &from = *call.input(static_cast<uint32_t>(2 + which));
            const auto size = static_cast<size_t>(row_size(from) * element_bytes(from));
            for (int64_t i = begin; size > 0 && i < end; ++i)
                for (int64_t g = 0; slots[i] >= 0 && g < heads; ++g)
                    std::memcpy(caches[which].row<void>(slots[i] * heads + g), sources[which].row<void>(i * heads + g),
                                size);
        }
    });
    return {};
}

} // namespace

void add_attention(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::attention_fwd, any_float, {opdock::kernel<&forward>, opdock::supports<&check_forward>});
    plugin.add(ops::attention_bwd, any_float, {opdock::kernel<&backward>, opdock::supports<&check_backward>});
    plugin.add(ops::attention_decode, any_float, {opdock::kernel<&decode>, opdock::supports<&check_decode>});
    plugin.add(ops::kv_cache_append, any_float, {opdock::kernel<&append>, opdock::supports<&check_append>});
}

} // namespace cpu
#endif
