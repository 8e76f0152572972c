// Elementwise ops over tensors of one shape: one run when all are dense, else one per row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// Elements that follow each other in every tensor.
struct Run {
    DLDataType t;
    const void *a;
    const void *b; // null for one input
    void *output;
    size_t count;
    float alpha;
    bool stream;
};

// Calls loop(run) for runs that cover the tensors of `call`, which has one output and one or two inputs.
template<class Loop>
opdock::Status elementwise(const opdock::Call &call, float alpha, const Loop &loop) {
    const Knobs knobs = Knobs::of(call);
    const uint32_t inputs = call.c().n_inputs;
    const DLTensor &shape = *call.output(0);
    const int64_t bytes = element_bytes(shape);
    const Rows a = Rows::of_input(call, 0);
    const Rows b = inputs > 1 ? Rows::of_input(call, 1) : Rows();
    const Rows output = Rows::of_output(call, 0);
    const auto at = [&](int64_t row, int64_t element, int64_t count) {
        const auto from = [&](const Rows &rows) {
            std::byte *start = rows.row<std::byte>(row);
            return start == nullptr ? nullptr : start + element * bytes;
        };
        loop(Run{shape.dtype, from(a), from(b), from(output), static_cast<size_t>(count), alpha, knobs.stream});
    };

    if (is_dense(shape) && is_dense(*call.input(0)) && (inputs == 1 || is_dense(*call.input(1)))) {
        // Chunks begin on cache lines where the tensors do.
        constexpr int64_t unit = 1024;
        const int64_t elements = element_count(shape);
        in_chunks((elements + unit - 1) / unit, unit * (inputs + 1) * bytes, knobs.grain_kib,
                  [&](int64_t begin, int64_t end) {
                      at(0, begin * unit, (end * unit < elements ? end * unit : elements) - begin * unit);
                  });
        return {};
    }
    const int64_t n = row_size(shape);
    in_chunks(row_count(shape), n * (inputs + 1) * bytes, knobs.grain_kib, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            at(row, 0, n);
    });
    return {};
}

} // namespace cpu
