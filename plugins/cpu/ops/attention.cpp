// attention_fwd, attention_decode and kv_cache_append.
//
// A block of rows (queries) processes the keys piece by piece, as in FlashAttention: the scores of a piece are a matrix
// product, and the sums so far are rescaled when a row's largest score grows. The problem alone determines the pieces,
// and each row is computed by one task.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "attention.hpp"
#include "blas.hpp"
#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/attention-inl.h"

#ifndef CPU_ATTENTION_ARGUMENTS
#define CPU_ATTENTION_ARGUMENTS
namespace cpu {

// One query of one head.
template<class T>
struct Query {
    const T *query;
    const T *bias; // of key 0 of the sequence; may be null
    T *output;
    float *lse; // may be null
    int64_t begin, end;
    int64_t bias_step;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

// Turns a row of products into a row of scores.
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

// State of a row after some pieces: its largest score, and the sum of exp(z - largest).
struct RowState {
    float largest;
    double sum;
};

// Replaces the scores z of a piece of keys by exponentials. Returns the factor for the sums of earlier pieces.
HWY_INLINE float to_exponentials(float *z, int64_t count, RowState &state) {
    const auto n = static_cast<size_t>(count);
    const float best = block_max(0, n, [=](size_t j, auto extent) HWY_ATTR { return load(z + j, extent); });
    float factor = 1;
    if (best > state.largest) {
        factor = std::isinf(state.largest) ? 0.0f : std::exp(state.largest - best);
        state.sum *= static_cast<double>(factor);
        state.largest = best;
    }
    // If every score so far is minus infinity, any pivot gives exponentials of 0.
    const VF pivot = hn::Set(f32, std::isinf(state.largest) && state.largest < 0 ? 0.0f : state.largest);
    state.sum += static_cast<double>(block_sum(0, n, [=](size_t j, auto extent, VF s) HWY_ATTR {
        const VF e = exp(hn::Sub(load(z + j, extent), pivot));
        store(e, z + j, extent);
        return hn::Add(s, e);
    }));
    return factor;
}

// The rows of one head over keys [first, last), which `take(j, last, ...)` delivers in pieces.
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
        const bool saw = states[i].sum != 0; // also true for NaN
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

// Processes all query heads that share one key head, for one sequence.
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

void forward_piece(const Attention &a, const Piece &piece, int64_t head) {
    opdock::visit_floating(a.call->input(0)->dtype,
                           [&](auto t) { attend_to_sequence<typename decltype(t)::type>(a, piece, head); });
}
void decode_head(const Attention &a, int64_t sequence, int64_t g) {
    opdock::visit_floating(a.call->input(0)->dtype,
                           [&](auto t) { attend_to_pages<typename decltype(t)::type>(a, sequence, g); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(forward_piece);
HWY_EXPORT(decode_head);

namespace {

using opdock::Call;
using opdock::Problem;
using opdock::Status;

Status check_forward(const Problem &problem) {
    constexpr Operand operands[] = {
        {"query"}, {"key"}, {"value"}, {"bias", false}, {"query_starts", false}, {"key_starts", false}, {"output"}};
    Status status = check_sequences<4>(problem);
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
    const int64_t bytes = worth_of(a, most_rows, longest_of(a, &Sequence::keys));
    for_each_piece(call, pieces_of(a, &Sequence::queries, most_rows), a.heads, bytes,
                   [&](const Piece &piece, int64_t head) {
                       HWY_DYNAMIC_DISPATCH(forward_piece)
                       (a, piece, head);
                   });
    return {};
}

// Checks that every page with tokens of a sequence is a page of the cache, and that the table has enough pages.
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
    // Reading keys and values once dominates the time.
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
    plugin.add(ops::attention_decode, any_float, {opdock::kernel<&decode>, opdock::supports<&check_decode>});
    plugin.add(ops::kv_cache_append, any_float, {opdock::kernel<&append>, opdock::supports<&check_append>});
}

} // namespace cpu
#endif
