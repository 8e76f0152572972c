// Kernels here process a row in blocks: they widen a block to float, compute on it and round it back. The loops over a
// block are simple enough for compilers to vectorize, for any element type.
#pragma once

#include <algorithm>
#include <cstdint>

#include "opdock/plugin.hpp"
#include "ops/ops.hpp"

namespace acme {

using Block = float[max_block];

// Elements begin .. begin + count - 1 of a row.
template<class T>
void widen(opdock::Row<T> row, std::int64_t begin, std::int64_t count, Block &block) {
    if (row.is_contiguous()) {
        const auto *from = row.data() + begin;
        for (std::int64_t i = 0; i < count; ++i)
            block[i] = static_cast<float>(from[i]);
    } else {
        for (std::int64_t i = 0; i < count; ++i)
            block[i] = static_cast<float>(row[begin + i]);
    }
}

template<class T>
void narrow(const Block &block, std::int64_t begin, std::int64_t count, opdock::Row<T> row) {
    if (row.is_contiguous()) {
        auto *to = row.data() + begin;
        for (std::int64_t i = 0; i < count; ++i)
            to[i] = static_cast<T>(block[i]);
    } else {
        for (std::int64_t i = 0; i < count; ++i)
            row[begin + i] = static_cast<T>(block[i]);
    }
}

// Calls function(begin, count) for each block of n elements.
template<class Function>
void for_each_block(std::int64_t n, std::int64_t block, Function &&function) {
    for (std::int64_t begin = 0; begin < n; begin += block)
        function(begin, std::min(block, n - begin));
}

} // namespace acme
