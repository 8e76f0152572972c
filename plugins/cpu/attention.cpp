#include "attention.hpp"

#include <cmath>
#include <string>

#include "rows.hpp"

namespace cpu {

using opdock::Call;
using opdock::Status;

namespace {

Status check_starts(const char *name, const TensorView<const int32_t> &starts, int64_t end) {
    int64_t last = 0;
    for (int64_t i = 0; i < starts.numel(); ++i) {
        if (starts[i] < last || starts[i] > end || (i == 0 && starts[i] != 0))
            return opdock::invalid_argument(std::string(name) + ": start " + std::to_string(i) + " is " +
                                            std::to_string(starts[i]) + "; expected non-decreasing starts from 0 to " +
                                            std::to_string(end));
        last = starts[i];
    }
    return {};
}

} // namespace

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

Attention attention_of_sequences(const Call &call, uint32_t first) {
    Attention a = attention_of(call, first);
    a.causal = call.get_bool(1);
    a.left = call.get_int(2);
    a.right = call.get_int(3);
    a.soft_cap = static_cast<float>(call.get_float(4));
    return a;
}

std::vector<Piece> pieces_of(const Attention &a, int64_t Sequence::*count, int64_t most) {
    std::vector<Piece> pieces;
    for (const Sequence &one : a.sequences)
        for (int64_t first = 0; first < one.*count; first += most)
            pieces.push_back({&one, first, std::min(first + most, one.*count)});
    return pieces;
}

int64_t worth_of(const Attention &a, int64_t rows, int64_t others) {
    constexpr int64_t per_byte = 8; // multiplications, which take about as long as one byte from memory
    return std::max<int64_t>(rows * others * (a.d + a.e) / per_byte, 1);
}

int64_t longest_of(const Attention &a, int64_t Sequence::*count) {
    int64_t most = 0;
    for (const Sequence &one : a.sequences)
        most = std::max(most, one.*count);
    return most;
}

} // namespace cpu
