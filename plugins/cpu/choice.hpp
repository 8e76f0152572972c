// Expert indices: those that choose_largest() has chosen, and those that a caller passes.
#pragma once

#include <cstdint>
#include <string>

#include "rows.hpp"
#include "topk.hpp"

namespace cpu {

inline int32_t expert_of(uint64_t key) {
    return static_cast<int32_t>(place_of(key));
}

// Returns INVALID_ARGUMENT with the first token that has an invalid index. A token's indices are `step` elements apart.
inline opdock::Status check_experts(const Rows &indices, int64_t tokens, int64_t k, int64_t step, int64_t experts) {
    for (int64_t r = 0; r < tokens; ++r)
        for (int64_t j = 0; j < k; ++j) {
            const int32_t index = indices.row<const int32_t>(r)[j * step];
            if (index < 0 || index >= experts)
                return opdock::invalid_argument("indices: row " + std::to_string(r) + " has " + std::to_string(index) +
                                                "; expected 0 to " + std::to_string(experts - 1) + " (logits have " +
                                                std::to_string(experts) + " experts)");
        }
    return {};
}

} // namespace cpu
