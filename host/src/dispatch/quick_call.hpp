// The hot path: a call that looks like a remembered one goes straight to the kernel.
//
// Written for few instructions and few dependent loads: values that are compared lie side by side, the dims of a
// matrix are compared without a loop or a branch, and nothing that is known when a memo is created is examined here.
// tests/bench measures it.
#pragma once

#include <cstddef>
#include <cstring>
#include <utility>

#include "dispatch/memo.hpp"
#include "dispatch/run_chain.hpp"
#include "load/plugin_call.hpp"

namespace opdock::core {

using Words = long long __attribute__((vector_size(16)));

[[gnu::always_inline]] inline Words load_words(const void *from) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return words;
}

// Loads from an aligned object.
template<class T>
[[gnu::always_inline]] inline Words load_expected(const T &from) {
    return load_words(__builtin_assume_aligned(&from, sizeof(Words)));
}

// Returns false for a mismatch that a branch detects; other mismatches set bits in `differs`. *data
// receives the address of the first element.
[[gnu::always_inline]] inline bool match_tensor(const DLTensor *given, const QuickTensor &expected, void **data,
                                                Words &differs) {
    if (given == nullptr) [[unlikely]] {
        *data = nullptr;
        return expected.absent;
    }
    const int64_t *const shape = given->shape;
    const int64_t *const strides = given->strides;
    if (strides == nullptr || given->data == nullptr) [[unlikely]] {
        return false;
    }
    // device, ndim and dtype are contiguous.
    static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20);
    differs |= load_words(&given->device) ^ load_expected(expected.head);
    if (given->ndim == 2) [[likely]] { // no loop for the usual rank
        differs |= load_words(shape) ^ load_expected(expected.shape);
        differs |= load_words(strides) ^ load_expected(expected.strides);
    } else {
        if (given->ndim != expected.rank) [[unlikely]] {
            return false;
        }
        int64_t other = 0;
        for (int32_t d = 0; d < expected.rank; ++d) {
            other |= (shape[d] ^ expected.shape[d]) | (strides[d] ^ expected.strides[d]);
        }
        differs |= Words{other, 0};
    }
    uint64_t first;
    const bool wraps = __builtin_add_overflow(reinterpret_cast<uint64_t>(given->data), given->byte_offset, &first);
    // The integer sum may wrap, which is not allowed for a pointer.
    *data = reinterpret_cast<void *>(first); // NOLINT(performance-no-int-to-ptr)
    if (wraps || (first & expected.misaligned) != 0) [[unlikely]] {
        return false;
    }
    return true;
}

[[gnu::always_inline]] inline bool overlap(const QuickTensor *expected, void *const *data, uint32_t a, uint32_t b) {
    const auto distance = reinterpret_cast<uint64_t>(data[b]) - reinterpret_cast<uint64_t>(data[a]);
    return ((distance < expected[a].extent) | (uint64_t{0} - distance < expected[b].extent)) != 0;
}

// True if tensor `b`, which is written, shares memory with the earlier tensor `a` in a way that is not allowed.
[[gnu::always_inline]] inline bool clashes(const QuickTensor *expected, void *const *data, uint32_t a, uint32_t b) {
    if (!overlap(expected, data, a, b)) [[likely]] {
        return false;
    }
    return expected[b].alias != a || data[a] != data[b];
}

// For any number of tensors and attributes, as recorded in the memo.
struct AnyCall {
    [[gnu::always_inline]] static bool match(Memo &memo, const opdock_args &args) {
        const QuickTensor *expected = memo.quick_tensors.data();
        void **data = memo.data.data();
        const uint32_t count = memo.shape.n_tensors;
        Words differs = {};
        for (uint32_t i = 0; i < count; ++i) {
            const DLTensor *given = i < memo.n_inputs ? args.inputs[i] : args.outputs[i - memo.n_inputs];
            if (!match_tensor(given, expected[i], data + i, differs)) {
                return false;
            }
        }
        if ((differs[0] | differs[1]) != 0) {
            return false;
        }
        for (uint32_t b = 0; b < count; ++b) {
            if (!expected[b].written) {
                continue;
            }
            for (uint32_t a = 0; a < count; ++a) {
                if ((a < b || (a > b && !expected[a].written)) && clashes(expected, data, a, b)) {
                    return false;
                }
            }
        }
        for (uint32_t i = 0; i < args.n_attributes; ++i) {
            const Memo::GivenAttribute &attribute = memo.given[i];
            if (!take_attribute(attribute, memo.shape.attributes, args.attributes[i],
                                memo.attributes[attribute.position])) {
                return false;
            }
        }
        return true;
    }
};

// For fixed numbers of tensors, so there is no loop over them and every index is a constant. No input
// is written and no attribute is special.
template<uint32_t n_inputs, uint32_t n_outputs>
struct UsualCall {
    static constexpr uint32_t count = n_inputs + n_outputs;

    [[gnu::always_inline]] static bool match(Memo &memo, const opdock_args &args) {
        const QuickTensor *expected = memo.quick_tensors.data();
        void **data = memo.data.data();
        Words differs = {};
        const bool same = [&]<uint32_t... i>(std::integer_sequence<uint32_t, i...>) __attribute__((always_inline)) {
            return (match_tensor(i < n_inputs ? args.inputs[i] : args.outputs[i - n_inputs], expected[i], data + i,
                                 differs) &&
                    ...);
        }
        (std::make_integer_sequence<uint32_t, count>());
        if (!same || (differs[0] | differs[1]) != 0) [[unlikely]] {
            return false;
        }
        if (any_clash(expected, data, std::make_integer_sequence<uint32_t, count * n_outputs>())) [[unlikely]] {
            return false;
        }
        return take_attributes(memo.attributes, args);
    }

  private:
    // Compares each output with every tensor before it.
    template<uint32_t... pair>
    [[gnu::always_inline]] static bool any_clash(const QuickTensor *expected, void *const *data,
                                                 std::integer_sequence<uint32_t, pair...>) {
        return ((pair % count < n_inputs + pair / count &&
                 clashes(expected, data, pair % count, n_inputs + pair / count)) ||
                ...);
    }

    // Attributes by position, with the type in the signature.
    [[gnu::always_inline]] static bool take_attributes(opdock_value *into, const opdock_args &args) {
        const opdock_attribute *given = args.attributes;
        for (uint32_t left = args.n_attributes; left != 0; --left, ++given, ++into) {
            if (given->value.type != into->type || given->name != nullptr) [[unlikely]] {
                return false;
            }
            into->as = given->value.as;
        }
        return true;
    }
};

// Loads whole words although callers may store the fields one by one: compilers merge stores of constants.
[[gnu::always_inline]] inline bool same_counts(const Memo &memo, const opdock_args &args) {
    uint64_t given;
    const char *from = reinterpret_cast<const char *>(&args);
    for (size_t i = 0; i < memo.counts.size(); ++i) {
        std::memcpy(&given, from + i * sizeof given, sizeof given);
        if (given != memo.counts[i]) [[unlikely]] {
            return false;
        }
    }
    return true;
}

// To be called when the head of the chain did not serve, or served and something is to be noted.
opdock_status continue_after_head(Memo &memo, const opdock_args &given, opdock_status status);

// Calls the head of the memo's chain if `args` match; returns false if the call must take another way.
template<class Matching>
[[gnu::always_inline]] inline bool call_quickly(Memo &memo, const opdock_args &args, opdock_status *result) {
    if (!same_counts(memo, args)) [[unlikely]] {
        return false;
    }
    if (!Matching::match(memo, args)) [[unlikely]] {
        return false;
    }
    Attempt &head = *memo.head;
    memo.call.stream = args.stream;
    const opdock_status status = status_of([&] { return memo.kernel(&head.problem, &memo.call); });
    if (status == OPDOCK_OK && serves_steadily(memo, head)) [[likely]] {
        head.counts->add(Count::served);
        *result = OPDOCK_OK;
    } else {
        *result = continue_after_head(memo, args, status);
    }
    return true;
}

} // namespace opdock::core
