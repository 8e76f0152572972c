// moe_align, moe_permute and moe_unpermute, with the gradients of the last two.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "dtypes.hpp"
#include "ops/ops.hpp"
#include "rows.hpp"
#include "schedule.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/moe.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again for each target.
#include "hwy/highway.h"
#include "simd/memory-inl.h"
#include "simd/rows-inl.h"

#ifndef CPU_MOE_ARGUMENTS
#define CPU_MOE_ARGUMENTS
namespace cpu {

// A matrix with a place or a weight for each choice of each token.
template<class T>
struct OfChoices {
    Rows rows;
    int64_t step; // elements from one choice of a token to the next

    T &at(int64_t token, int64_t choice) const { return rows.row<T>(token)[choice * step]; }
};

struct Choices {
    DLDataType t;
    int64_t tokens, k, n;
    OfChoices<const int32_t> places;
    OfChoices<const float> weights; // if absent: 1
    OfChoices<float> grad_weights;  // may be absent
    Rows grad;                      // by token
    Rows input;                     // by place
    Rows output;
    bool stream;
};

} // namespace cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace cpu {
namespace HWY_NAMESPACE {

template<class T>
void sum_choices(const Choices &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    HWY_ALIGN float total[block_size];
    float *sums = total;
    for (int64_t token = begin; token < end; ++token) {
        const Sink<T> output(a.output.row<T>(token), a.stream);
        for (size_t from = 0; from < n; from += block_size) {
            const size_t count = HWY_MIN(block_size, n - from);
            std::memset(sums, 0, count * sizeof(float));
            for (int64_t j = 0; j < a.k; ++j) {
                const int32_t place = a.places.at(token, j);
                if (place < 0)
                    continue;
                const T *row = a.input.row<const T>(place) + from;
                const VF weight = hn::Set(f32, a.weights.rows ? a.weights.at(token, j) : 1.0f);
                along(count, [=](size_t i, auto extent) HWY_ATTR {
                    store(hn::MulAdd(weight, load(row + i, extent), load(sums + i, extent)), sums + i, extent);
                });
            }
            along(count,
                  [=](size_t i, auto extent) HWY_ATTR { output.store(load(sums + i, extent), from + i, extent); });
        }
    }
    if (a.stream)
        hwy::FlushStream();
}

template<class T>
void gradients_of_choices(const Choices &a, int64_t begin, int64_t end) {
    const auto n = static_cast<size_t>(a.n);
    for (int64_t i = begin; i < end; ++i) {
        const int64_t token = i / a.k, choice = i % a.k;
        const int32_t place = a.places.at(token, choice);
        const bool is_dropped = place < 0;
        const int64_t row = is_dropped ? -1 - place : place;
        if (n > 0) {
            const T *grad = a.grad.row<const T>(token);
            const Sink<T> output(a.output.row<T>(row), a.stream);
            const VF weight = hn::Set(f32, a.weights.at(token, choice));
            along(n, [=](size_t c, auto extent) HWY_ATTR {
                output.store(is_dropped ? hn::Zero(f32) : hn::Mul(weight, load(grad + c, extent)), c, extent);
            });
        }
        if (a.grad_weights.rows) {
            const T *grad = a.grad.row<const T>(token), *input = a.input.row<const T>(row);
            a.grad_weights.at(token, choice) =
                is_dropped ? 0.0f : static_cast<float>(sum(n, [=](size_t c, auto extent, VF total) HWY_ATTR {
                    return hn::MulAdd(load(grad + c, extent), load(input + c, extent), total);
                }));
        }
    }
    if (a.stream)
        hwy::FlushStream();
}

void sums_of_tokens(const Choices &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { sum_choices<typename decltype(t)::type>(a, begin, end); });
}

void gradients_of_rows(const Choices &a, int64_t begin, int64_t end) {
    opdock::visit_floating(a.t, [&](auto t) { gradients_of_choices<typename decltype(t)::type>(a, begin, end); });
}

} // namespace HWY_NAMESPACE
} // namespace cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cpu {

HWY_EXPORT(sums_of_tokens);
HWY_EXPORT(gradients_of_rows);

namespace {

constexpr Operand permute_operands[] = {{"input"}, {"places", false}, {"output"}};
constexpr Operand unpermute_operands[] = {{"input"}, {"places", false}, {"weights", false}, {"output"}};
constexpr Operand backward_operands[] = {{"grad"},           {"input"},      {"places", false},
                                         {"weights", false}, {"grad_input"}, {"grad_weights", false}};

opdock::Status check_permute(const opdock::Problem &problem) { // backward as well
    return check_rows(problem, permute_operands);
}
opdock::Status check_unpermute(const opdock::Problem &problem) {
    return check_rows(problem, unpermute_operands);
}
opdock::Status check_backward(const opdock::Problem &problem) {
    return check_rows(problem, backward_operands);
}

template<class T>
OfChoices<const T> choices_of_input(const opdock::Call &call, uint32_t i) {
    return {Rows::of_input(call, i), call.input(i)->strides[1]};
}

Choices arguments_of(const opdock::Call &call, uint32_t places) {
    Choices a = {};
    a.t = call.input(0)->dtype;
    a.tokens = call.input(places)->shape[0];
    a.k = call.input(places)->shape[1];
    a.n = call.input(0)->shape[1];
    a.places = choices_of_input<int32_t>(call, places);
    a.output = Rows::of_output(call, 0);
    a.stream = Knobs::of(call).stream;
    return a;
}

// Returns INVALID_ARGUMENT with the first token that has a place outside the rows.
opdock::Status check_places(const Choices &a) {
    const int64_t rows = a.tokens * a.k;
    for (int64_t token = 0; token < a.tokens; ++token)
        for (int64_t j = 0; j < a.k; ++j) {
            const int32_t place = a.places.at(token, j);
            if (place >= rows || place < -rows)
                return opdock::invalid_argument("places: row " + std::to_string(token) + " has " +
                                                std::to_string(place) + "; expected less than " + std::to_string(rows) +
                                                ", or -1 - place for such a place");
        }
    return {};
}

// A counting sort by expert, dropped choices last. For each expert, `next` holds first its number of choices, then the
// place where they begin, and finally the place of its next choice.
opdock::Status align(const opdock::Call &call) {
    const DLTensor &shape = *call.input(0);
    const int64_t experts = call.get_int(0), tokens = shape.shape[0], k = shape.shape[1];
    const OfChoices<const int32_t> indices = choices_of_input<int32_t>(call, 0);
    std::vector<int32_t> next(static_cast<size_t>(experts) + 1);
    const auto next_of = [&](int32_t index) -> int32_t & {
        return next[static_cast<size_t>(index < 0 ? experts : index)];
    };
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t j = 0; j < k; ++j) {
            const int32_t index = indices.at(token, j);
            if (index >= experts)
                return opdock::invalid_argument("indices: row " + std::to_string(token) + " has " +
                                                std::to_string(index) +
                                                "; expected less than experts = " + std::to_string(experts));
            ++next_of(index);
        }
    const Rows starts = Rows::of_output(call, 2, 0), order = Rows::of_output(call, 1, 0);
    int32_t begin = 0;
    for (int64_t expert = 0; expert <= experts; ++expert) {
        *starts.row<int32_t>(expert) = begin;
        begin += std::exchange(next[static_cast<size_t>(expert)], begin);
    }
    const OfChoices<int32_t> places = {Rows::of_output(call, 0), call.output(0)->strides[1]};
    for (int64_t token = 0; token < tokens; ++token)
        for (int64_t j = 0; j < k; ++j) {
            const int32_t index = indices.at(token, j), place = next_of(index)++;
            places.at(token, j) = index < 0 ? -1 - place : place;
            *order.row<int32_t>(place) = static_cast<int32_t>(token * k + j);
        }
    return {};
}

opdock::Status permute(const opdock::Call &call) {
    const Choices a = arguments_of(call, 1);
    if (opdock::Status status = check_places(a); !status.ok())
        return status;
    const Rows input = Rows::of_input(call, 0);
    const int64_t bytes = a.n * element_bytes(*call.input(0));
    if (bytes == 0)
        return {};
    in_chunks(a.tokens, (1 + a.k) * bytes, Knobs::of(call), [&](int64_t begin, int64_t end) {
        for (int64_t token = begin; token < end; ++token)
            for (int64_t j = 0; j < a.k; ++j) {
                const int32_t place = a.places.at(token, j);
                if (place < 0)
                    std::memset(a.output.row<void>(-1 - place), 0, static_cast<size_t>(bytes));
                else
                    std::memcpy(a.output.row<void>(place), input.row<const void>(token), static_cast<size_t>(bytes));
            }
    });
    return {};
}

opdock::Status sum_up(const opdock::Call &call, Choices &a) {
    if (opdock::Status status = check_places(a); !status.ok())
        return status;
    a.input = Rows::of_input(call, 0);
    if (a.n == 0)
        return {};
    in_chunks(a.tokens, (1 + a.k) * a.n * element_bytes(*call.input(0)), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(sums_of_tokens), a);
    return {};
}

opdock::Status permute_bwd(const opdock::Call &call) {
    Choices a = arguments_of(call, 1);
    return sum_up(call, a);
}

opdock::Status unpermute(const opdock::Call &call) {
    Choices a = arguments_of(call, 1);
    a.weights = choices_of_input<float>(call, 2);
    return sum_up(call, a);
}

opdock::Status unpermute_bwd(const opdock::Call &call) {
    Choices a = arguments_of(call, 2);
    if (opdock::Status status = check_places(a); !status.ok())
        return status;
    a.grad = Rows::of_input(call, 0);
    a.input = Rows::of_input(call, 1);
    a.weights = choices_of_input<float>(call, 3);
    if (call.has_output(1))
        a.grad_weights = {Rows::of_output(call, 1), call.output(1)->strides[1]};
    in_chunks(a.tokens * a.k, 3 * a.n * element_bytes(*call.input(0)), Knobs::of(call),
              HWY_DYNAMIC_DISPATCH(gradients_of_rows), a);
    return {};
}

} // namespace

void add_moe(Plugin &plugin) {
    namespace ops = opdock::ops;
    plugin.add(ops::moe_align, "", {opdock::kernel<&align>, nullptr});
    plugin.add(ops::moe_permute, any_float, {opdock::kernel<&permute>, opdock::supports<&check_permute>});
    plugin.add(ops::moe_permute_bwd, any_float, {opdock::kernel<&permute_bwd>, opdock::supports<&check_permute>});
    plugin.add(ops::moe_unpermute, any_float, {opdock::kernel<&unpermute>, opdock::supports<&check_unpermute>});
    plugin.add(ops::moe_unpermute_bwd, any_float, {opdock::kernel<&unpermute_bwd>, opdock::supports<&check_backward>});
}

} // namespace cpu
#endif
