// Elementwise ops over tensors of one shape: a single run if all tensors are dense, else one run per row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "opdock/plugin.hpp"
#include "rows.hpp"
#include "schedule.hpp"

namespace cpu {

// Elements that are contiguous in every tensor.
struct Run {
    DLDataType from, to; // dtypes of the first input and of the first output
    const void *inputs[3];
    void *outputs[2];
    size_t count;
    int64_t first; // row-major position of the first element
    bool stream;
};

// Calls loop(run) for runs that cover the tensors of `call`: its first `inputs` inputs, and all outputs.
template<class Loop>
opdock::Status elementwise(const opdock::Call &call, uint32_t inputs, const Loop &loop) {
    const Knobs knobs = Knobs::of(call);
    const uint32_t outputs = call.c().n_outputs;
    const DLTensor &shape = *call.output(0);
    int64_t input_bytes[3] = {}, output_bytes[2] = {}, bytes = 0; // per element
    Rows input_rows[3], output_rows[2];
    bool dense = true;
    const auto add = [&](const DLTensor &tensor, int64_t &size) {
        bytes += size = element_bytes(tensor);
        dense = dense && is_dense(tensor);
    };
    for (uint32_t i = 0; i < inputs; ++i) {
        add(*call.input(i), input_bytes[i]);
        input_rows[i] = Rows::of_input(call, i);
    }
    for (uint32_t i = 0; i < outputs; ++i) {
        add(*call.output(i), output_bytes[i]);
        output_rows[i] = Rows::of_output(call, i);
    }
    const int64_t n = row_size(shape);
    const auto at = [&](int64_t row, int64_t element, int64_t count) {
        Run run = {call.input(0)->dtype,       shape.dtype,       {},          {},
                   static_cast<size_t>(count), row * n + element, knobs.stream};
        for (uint32_t i = 0; i < inputs; ++i)
            run.inputs[i] = input_rows[i].row<const std::byte>(row) + element * input_bytes[i];
        for (uint32_t i = 0; i < outputs; ++i)
            run.outputs[i] = output_rows[i].row<std::byte>(row) + element * output_bytes[i];
        loop(run);
    };

    const int64_t elements = element_count(shape);
    if (elements == 0)
        return {};
    if (dense) {
        // Chunks begin on cache lines if the tensors do.
        constexpr int64_t unit = 1024;
        in_chunks((elements + unit - 1) / unit, unit * bytes, knobs, [&](int64_t begin, int64_t end) {
            at(0, begin * unit, std::min(end * unit, elements) - begin * unit);
        });
        return {};
    }
    in_chunks(row_count(shape), n * bytes, knobs, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
            at(row, 0, n);
    });
    return {};
}

} // namespace cpu
