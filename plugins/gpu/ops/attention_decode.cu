// attention_decode and kv_cache_append.
#include <algorithm>
#include <cmath>

#include "attention_arguments.hpp"
#include "attention_decode.cuh"
#include "ops/ops.hpp"
#ifndef __HIP__
#include "attention_decode_cores.cuh"
#endif

namespace gpu {
namespace {

// --- attention_decode ---

opdock::Status supports(const opdock::Problem &problem) {
    opdock::Status status = check_rows({problem.input(0), problem.input(1), problem.input(2), problem.output(0)});
    return status.ok() ? check_sizes(problem, 0, decode_shared_bytes) : std::move(status);
}

// The blocks of one key head of one sequence.
struct Splits {
    int packs;  // of the query heads
    int splits; // of the keys

    uint64_t workspace_size(const opdock::Problem &problem) const {
        const DLTensor &query = *problem.input(0);
        const int64_t rows = query.shape[0] * query.shape[1];
        return splits == 1 ? 0
                           : static_cast<uint64_t>(rows * splits * (row_size(*problem.input(2)) + 2)) * sizeof(float);
    }
};

// The fewest splits of the keys that leave little of the device idle during the last round of blocks.
Splits plan_splits(const opdock::Problem &problem, int heads_of_pack, int64_t blocks_of_unit) {
    const DLTensor &query = *problem.input(0), &cache = *problem.input(1);
    const int64_t key_heads = std::max<int64_t>(cache.shape[2], 1);
    Splits plan = {static_cast<int>(ceil_div(query.shape[1] / key_heads, heads_of_pack)), 1};
    const int64_t blocks = query.shape[0] * key_heads * plan.packs;
    const int64_t room = problem.input(3)->shape[1] * cache.shape[1];
    const int64_t most = std::clamp<int64_t>(room / decode_least_keys, 1, 128);
    const auto at_once = static_cast<double>(compute_units(problem) * blocks_of_unit);
    double best = 0;
    for (int64_t splits = 1; splits <= most && blocks > 0 && best < 0.9; ++splits) {
        const double rounds = static_cast<double>(blocks * splits) / at_once;
        if (rounds / std::ceil(rounds) > best * 1.05) {
            best = rounds / std::ceil(rounds);
            plan.splits = static_cast<int>(splits);
        }
    }
    return plan;
}

template<class T, class Visitor>
auto visit_decode(const opdock::Problem &problem, Visitor &&visit) {
    const int64_t dims = std::max(row_size(*problem.input(0)), row_size(*problem.input(2)));
#ifndef __HIP__
    if constexpr (sizeof(T) == 2) {
        const bool is_narrow = problem.input(0)->shape[1] <= 8 * problem.input(1)->shape[2];
        if (dims > 128) {
            return visit(CoreDecode<T, 256, 1>{}); // registers have no room for two
        }
        if (dims > 64) {
            return is_narrow ? visit(CoreDecode<T, 128, 1>{}) : visit(CoreDecode<T, 128, 2>{});
        }
        return is_narrow ? visit(CoreDecode<T, 64, 1>{}) : visit(CoreDecode<T, 64, 2>{});
    } else
#endif
    {
        static_cast<void>(dims);
        return visit(PlainDecode<T>{});
    }
}

template<class Way>
Splits splits_of(const opdock::Problem &problem) {
    return plan_splits(problem, Way::heads, std::max<int64_t>(shared_memory(problem) / Way::shared_bytes, 1));
}

uint64_t workspace_size(const opdock::Problem &problem) {
    uint64_t size = 0;
    static_cast<void>(visit_floating(problem.input(0)->dtype, [&](auto tag) {
        return visit_decode<typename decltype(tag)::type>(problem, [&](auto way) {
            size = splits_of<decltype(way)>(problem).workspace_size(problem);
            return opdock::Status();
        });
    }));
    return size;
}

template<class T>
DecodeArguments<T> decode_arguments(const opdock::Call &call, const Splits &plan) {
    const DLTensor &query = *call.input(0), &cache = *call.input(1), &table = *call.input(3);
    DecodeArguments<T> a = {};
    a.sequences = static_cast<int>(query.shape[0]);
    a.heads = static_cast<int>(query.shape[1]);
    a.key_heads = static_cast<int>(cache.shape[2]);
    a.heads_per_key = a.key_heads == 0 ? 0 : a.heads / a.key_heads;
    a.d = static_cast<int>(row_size(query));
    a.e = static_cast<int>(row_size(*call.input(2)));
    a.pages = static_cast<int>(cache.shape[0]);
    a.tokens = static_cast<int>(cache.shape[1]);
    a.most_keys = static_cast<int>(a.pages == 0 ? 0 : table.shape[1] * cache.shape[1]);
    const Scoring scoring = scoring_of(call, a.d, 2);
    a.factor = scoring.factor;
    a.soft_cap = scoring.soft_cap;
    const int64_t left = call.get_int(1);
    a.left = static_cast<int>(left < 0 ? a.most_keys : std::min<int64_t>(left, a.most_keys));
    a.query = decode_rows<const T>(query, input_data(call, 0));
    a.key = head_rows<const T>(cache, input_data(call, 1));
    a.value = head_rows<const T>(*call.input(2), input_data(call, 2));
    a.output = decode_rows<T>(*call.output(0), output_data(call, 0));
    a.table = static_cast<const int32_t *>(input_data(call, 3));
    a.table_row = table.strides[0];
    a.table_step = table.strides[1];
    a.lengths = static_cast<const int32_t *>(input_data(call, 4));
    a.lengths_step = call.input(4)->strides[0];
    if (call.has_output(1)) {
        a.lse = {static_cast<float *>(output_data(call, 1)), call.output(1)->strides[0], call.output(1)->strides[1], 0,
                 0};
    }
    a.packs = plan.packs;
    a.splits = plan.splits;
    if (plan.splits > 1) {
        a.partial_states = static_cast<float2 *>(call.workspace());
        a.partial_outputs = reinterpret_cast<float *>(a.partial_states + int64_t(a.sequences) * a.heads * a.splits);
    }
    return a;
}

opdock::Status decode(const opdock::Call &call) {
    return visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return visit_decode<T>(call, [&](auto way) -> opdock::Status {
            using Way = decltype(way);
            const Splits plan = splits_of<Way>(call);
            const DecodeArguments<T> a = decode_arguments<T>(call, plan);
            const int64_t blocks = int64_t(a.sequences) * a.key_heads * a.packs * a.splits;
            opdock::Status status = launch_with_shared_memory(
                call, {blocks, Way::threads, static_cast<size_t>(Way::shared_bytes)}, Way::kernel, a);
            if (!status.ok() || plan.splits == 1) {
                return status;
            }
            return launch(call, {int64_t(a.sequences) * a.heads, std::min(plan.splits, merge_groups) * 32},
                          merge_kernel<T>, a);
        });
    });
}

// --- kv_cache_append ---

opdock::Status supports_append(const opdock::Problem &problem) {
    opdock::Status status =
        check_rows({problem.input(0), problem.input(1), problem.input(2), problem.input(3)}, INT32_MAX);
    if (status.ok() &&
        problem.input(0)->shape[2] * std::max(row_size(*problem.input(2)), row_size(*problem.input(3))) > INT32_MAX) {
        return opdock::unsupported("it needs fewer than 2^31 elements per token");
    }
    return status;
}

// New rows and their destinations. Bits: the type of one copy.
template<class Bits>
struct Appended {
    HeadRows<const Bits> from;
    HeadRows<Bits> to;
    int row, all; // copies per head, and for all heads
};

template<class Bits>
__device__ __forceinline__ void append_row(const Appended<Bits> &one, int64_t token, int64_t page, int64_t place) {
    for (int i = static_cast<int>(threadIdx.x); i < one.all; i += static_cast<int>(blockDim.x)) {
        const int head = i / one.row, at = i % one.row;
        one.to.row(page, place, head)[at] = one.from.row(0, token, head)[at];
    }
}

// Blocks 2 i and 2 i + 1 copy the key and the value of token i.
template<class Bits>
__global__ void __launch_bounds__(256)
    append_kernel(GPU_READ_ONLY const Appended<Bits> key, GPU_READ_ONLY const Appended<Bits> value,
                  const int64_t *slots, int64_t slots_step, int64_t tokens, int64_t places) {
    wait_for_earlier_kernels();
    const int64_t token = static_cast<int64_t>(blockIdx.x) / 2;
    const int64_t slot = slots[token * slots_step];
    if (slot < 0 || slot >= places) {
        return;
    }
    const int64_t page = slot / tokens, place = slot % tokens;
    if (blockIdx.x % 2 == 0) {
        append_row(key, token, page, place);
    } else {
        append_row(value, token, page, place);
    }
}

template<class Bits>
Appended<Bits> appended(const opdock::Call &call, uint32_t i) {
    const DLTensor &cache = *call.input(i), &rows = *call.input(2 + i);
    const int64_t n = static_cast<int64_t>(sizeof(Bits)) / element_bytes(rows);
    Appended<Bits> one = {};
    one.from = {static_cast<const Bits *>(input_data(call, 2 + i)), 0, rows.strides[0] / n, rows.strides[1] / n, true};
    one.to = {static_cast<Bits *>(input_data(call, i)), cache.strides[0] / n, cache.strides[1] / n,
              cache.strides[2] / n, true};
    one.row = static_cast<int>(row_size(rows) / n);
    one.all = one.row * static_cast<int>(rows.shape[1]);
    return one;
}

template<class Bits>
opdock::Status append_bits(const opdock::Call &call) {
    const DLTensor &slots = *call.input(4), &cache = *call.input(0);
    const auto key = appended<Bits>(call, 0), value = appended<Bits>(call, 1);
    const int threads = std::clamp(static_cast<int>(next_power_of_two(std::max(key.all, value.all))), 32, 256);
    return launch(call, {2 * slots.shape[0], threads}, append_kernel<Bits>, key, value,
                  static_cast<const int64_t *>(input_data(call, 4)), slots.strides[0], cache.shape[1],
                  cache.shape[0] * cache.shape[1]);
}

opdock::Status append(const opdock::Call &call) {
    bool vectors = true;
    for (uint32_t i = 0; i < 4; ++i) {
        vectors = vectors && has_vector_rows(*call.input(i), input_data(call, i));
    }
    if (vectors) {
        return append_bits<uint4>(call);
    }
    return element_bytes(*call.input(0)) == 2 ? append_bits<uint16_t>(call) : append_bits<uint32_t>(call);
}

} // namespace

void add_attention_decode(Plugin &plugin) {
    Implementation attention = {opdock::kernel<&decode>, Knobs::none, opdock::supports<&supports>,
                                opdock::workspace_size<&workspace_size>};
    attention.any_strides = true;
    plugin.add(opdock::ops::attention_decode, any_float, attention);
    Implementation appending = {opdock::kernel<&append>, Knobs::none, opdock::supports<&supports_append>};
    appending.any_strides = true;
    plugin.add(opdock::ops::kv_cache_append, any_float, appending);
}

} // namespace gpu
