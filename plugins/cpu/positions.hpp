// Positions of tokens, and the tables of cosines and sines whose rows they select: the last inputs of an op.
#pragma once

#include <string>

#include "opdock/plugin.hpp"
#include "rows.hpp"

namespace cpu {

// If the tables have no rows, no position is valid.
inline opdock::Status check_table_rows(const opdock::Problem &problem) {
    const uint32_t positions = problem.c().n_inputs - 3;
    return problem.input(positions)->shape[0] > 0 && problem.input(positions + 1)->shape[0] == 0
               ? opdock::invalid_argument("positions: the tables have no rows")
               : opdock::Status();
}

class PositionTables {
  public:
    // No tables.
    PositionTables() = default;
    explicit PositionTables(const opdock::Call &call)
        : positions_(Rows::of_input(call, call.c().n_inputs - 3, 0)), cos_(Rows::of_input(call, call.c().n_inputs - 2)),
          sin_(Rows::of_input(call, call.c().n_inputs - 1)) {
        const DLTensor &positions = *call.input(call.c().n_inputs - 3), &cos = *call.input(call.c().n_inputs - 2);
        is_wide_ = positions.dtype.bits == 64;
        tokens_ = positions.shape[0];
        size_ = cos.shape[0];
        pairs_ = cos.shape[1];
        exist_ = true;
    }

    explicit operator bool() const { return exist_; }
    int64_t pairs() const { return pairs_; }

    // Must be called before a position is used.
    opdock::Status check() const {
        for (int64_t token = 0; token < tokens_; ++token)
            if (position(token) < 0 || position(token) >= size_)
                return opdock::invalid_argument("positions: token " + std::to_string(token) + " has " +
                                                std::to_string(position(token)) + "; expected 0 <= position < " +
                                                std::to_string(size_));
        return {};
    }

    // The table rows of a token.
    const float *cos(int64_t token) const { return cos_.row<const float>(position(token)); }
    const float *sin(int64_t token) const { return sin_.row<const float>(position(token)); }

  private:
    int64_t position(int64_t token) const {
        return is_wide_ ? *positions_.row<const int64_t>(token) : *positions_.row<const int32_t>(token);
    }

    Rows positions_, cos_, sin_;
    bool is_wide_ = false, exist_ = false;
    int64_t tokens_ = 0, size_ = 0, pairs_ = 0;
};

} // namespace cpu
