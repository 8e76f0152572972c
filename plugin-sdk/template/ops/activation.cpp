// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "ops/ops.hpp"

namespace example {

namespace {

// The host has checked shapes and dtypes against the signature. A kernel that cannot serve a call returns
// opdock::unsupported("why") before it writes anything, and the next implementation serves it; an exception becomes a
// failure with the exception's text. A kernel that declines some calls should also say so in a separate function, given
// to Impl::supports as opdock::supports<&function>: a prepared call never falls back, and might be bound to it.
template<class T>
void silu_rows(opdock::TensorView<const T> input, opdock::TensorView<T> output, std::int64_t block_size) {
    float block[max_block];
    for (std::int64_t r = 0; r < input.rows(); ++r) {
        const auto from = input.row(r); // any strides
        const auto to = output.row(r);
        for (std::int64_t begin = 0; begin < from.size(); begin += block_size) {
            const std::int64_t count = std::min(block_size, from.size() - begin);
            for (std::int64_t i = 0; i < count; ++i)
                block[i] = static_cast<float>(from[begin + i]);
            for (std::int64_t i = 0; i < count; ++i)
                block[i] /= 1 + std::exp(-block[i]);
            for (std::int64_t i = 0; i < count; ++i)
                to[begin + i] = static_cast<T>(block[i]);
        }
    }
}

} // namespace

Status silu(const Call &call) {
    opdock::visit_floating(call.input(0)->dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        silu_rows<T>(call.input<const T>(0), call.output<T>(0), call.knob(0));
    });
    return {};
}

} // namespace example
