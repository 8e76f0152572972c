// The hot path: a call that looks like a remembered one goes straight to the kernel.
//
// Written for the number of instructions: what is compared lies side by side, dims are compared two at a time without
// branches, and nothing that can be known when a memo is made is looked at here. tests/bench measures it.
#pragma once

#include <cstddef>
#include <cstring>

#include "memo.hpp"
#include "plugin_call.hpp"
#include "run_chain.hpp"

namespace opdock::core {

using Words = long long __attribute__((vector_size(16)));

[[gnu::always_inline]] inline Words load_words(const void *from) {
    Words words;
    std::memcpy(&words, from, sizeof words);
    return words;
}

template<uint32_t rank>
[[gnu::always_inline]] inline void compare_dims(const int64_t *given, const int64_t *expected, Words &differs) {
    uint32_t d = 0;
    for (; d + 1 < rank; d += 2) {
        differs |= load_words(given + d) ^ load_words(expected + d);
    }
    if constexpr (rank % 2 != 0) {
        differs |= Words{given[d] ^ expected[d], 0};
    }
}

// Rank 0: as the tensor says.
template<uint32_t rank>
[[gnu::always_inline]] inline void compare_tensor(const DLTensor &given, const Memo::Expected &expected,
                                                  Words &differs) {
    if constexpr (rank != 0) {
        compare_dims<rank>(given.shape, expected.shape.data(), differs);
        compare_dims<rank>(given.strides, expected.strides.data(), differs);
    } else {
        for (uint32_t d = 0; d < expected.rank; ++d) {
            differs |= Words{given.shape[d] ^ expected.shape[d], given.strides[d] ^ expected.strides[d]};
        }
    }
}

struct QuickMatch {
    void **data;
    uint64_t bits = 0;  // all data pointers or'ed
    uint64_t wrong = 0; // misaligned bits
    Words differs = {};
};

template<uint32_t rank>
[[gnu::always_inline]] inline bool match_tensors(const DLTensor *const *given, const Memo::Expected *expected,
                                                 uint32_t count, void **data, QuickMatch &match) {
    // device, ndim and dtype lie side by side.
    static_assert(offsetof(DLTensor, device) == 8 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20);
    for (uint32_t i = 0; i < count; ++i) {
        const DLTensor *tensor = given[i];
        if (tensor == nullptr) [[unlikely]] {
            if (expected[i].head[0] != ~uint64_t{0}) {
                return false;
            }
            data[i] = nullptr;
            continue;
        }
        uint64_t head[2];
        std::memcpy(head, &tensor->device, sizeof head);
        const auto base = reinterpret_cast<uint64_t>(tensor->data);
        if (head[0] != expected[i].head[0] || head[1] != expected[i].head[1] || tensor->strides == nullptr || base == 0)
            [[unlikely]] {
            return false;
        }
        compare_tensor<rank>(*tensor, expected[i], match.differs);
        void *const first = static_cast<char *>(tensor->data) + tensor->byte_offset;
        const auto address = reinterpret_cast<uint64_t>(first);
        match.wrong |= address & expected[i].alignment_mask;
        match.bits |= address;
        data[i] = first;
    }
    return true;
}

// True when an output overlaps something it must not overlap; such calls are for validation to judge.
[[gnu::always_inline]] inline bool overlaps(const Memo &memo, void *const *data, bool *aliased) {
    for (const Memo::Pair &pair : memo.pairs) {
        const auto a = reinterpret_cast<uint64_t>(data[pair.a]);
        const auto b = reinterpret_cast<uint64_t>(data[pair.b]);
        if (a < b + pair.extent_b && b < a + pair.extent_a) [[unlikely]] {
            if (a != b || !pair.may_alias) {
                return true;
            }
            *aliased = true;
        }
    }
    return false;
}

// Takes the values of attributes; false when one is not what the memo holds for.
[[gnu::always_inline]] inline bool take_attributes(const Memo &memo, const opdock_args &args,
                                                   opdock_value *attributes) {
    for (uint32_t i = 0; i < memo.n_given; ++i) {
        const opdock_attribute &attribute = args.attributes[i];
        const Memo::GivenAttribute &given = memo.given[i];
        if (attribute.value.type != given.type) [[unlikely]] {
            return false;
        }
        if (attribute.name != nullptr || given.special) [[unlikely]] {
            if (!take_special_attribute(memo, given, attribute, attributes[given.position])) {
                return false;
            }
        } else {
            attributes[given.position].as = attribute.value.as;
        }
    }
    return true;
}

// The head of the chain returned `status`, or served and something is to be noted.
opdock_status continue_after_head(ThreadState &thread, Memo &memo, const Pointers &pointers, const opdock_args &given,
                                  opdock_status status) noexcept;

// Field by field: the caller has just stored them one by one, and a load wider than the store it depends on waits for
// the store to leave the pipeline, which takes longer than all the rest.
[[gnu::always_inline]] inline bool same_counts(const Memo::Counts &expected, const opdock_args &args) {
    return ((args.struct_size ^ expected.struct_size) | (args.flags ^ expected.flags) |
            (args.n_inputs ^ expected.inputs) | (args.n_outputs ^ expected.outputs) |
            (args.n_attributes ^ expected.attributes) | (args.n_lists ^ expected.lists)) == 0;
}

// Calls the head of the memo's chain if `args` match; false when the call has to take another way.
template<uint32_t rank>
[[gnu::always_inline]] inline bool call_quickly(ThreadState &thread, Memo &memo, const opdock_args &args,
                                                opdock_status *result) {
    void *data[Memo::max_tensors];
    QuickMatch match{data};
    const Memo::Expected *expected = memo.expected.data();
    const uint32_t n_inputs = memo.counts.inputs;
    Attempt &head = *memo.head;
    bool aliased = false;
    if (!same_counts(memo.counts, args) || !match_tensors<rank>(args.inputs, expected, n_inputs, data, match) ||
        !match_tensors<rank>(args.outputs, expected + n_inputs, memo.counts.outputs, data + n_inputs, match) ||
        ((match.differs[0] | match.differs[1]) |
         static_cast<long long>(match.wrong | (match.bits & head.alignment_mask))) != 0 ||
        overlaps(memo, data, &aliased) || !take_attributes(memo, args, head.attributes.data())) [[unlikely]] {
        return false;
    }
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size), 0, data, args.stream, nullptr, 0};
    opdock_status status;
    try {
        status = head.implementation.kernel(&head.problem, &call);
    } catch (...) {
        status = status_of_exception();
    }
    if (status == OPDOCK_OK && serves_steadily(memo, head)) [[likely]] {
        count_served(head);
        *result = OPDOCK_OK;
    } else {
        *result = continue_after_head(thread, memo, {data, head.attributes.data(), match.bits, aliased}, args, status);
    }
    return true;
}

[[gnu::always_inline]] inline bool call_quickly(ThreadState &thread, Memo &memo, const opdock_args &args,
                                                opdock_status *result) {
    if (memo.head == nullptr) [[unlikely]] {
        return false;
    }
    switch (memo.rank) {
    case 1:
        return call_quickly<1>(thread, memo, args, result);
    case 2:
        return call_quickly<2>(thread, memo, args, result);
    case 3:
        return call_quickly<3>(thread, memo, args, result);
    case 4:
        return call_quickly<4>(thread, memo, args, result);
    default:
        return call_quickly<0>(thread, memo, args, result);
    }
}

} // namespace opdock::core
