// Built-in shapes for --all in the tools that measure, derived from an op's signature alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "op-call/named.hpp"
#include "op-call/signature.hpp"

namespace opdock::op_call {

// Approximate element count of the tensor with the most dims, and its last dim.
struct BuiltinSize {
    int64_t elements;
    int64_t last;
};
inline constexpr BuiltinSize builtin_sizes[] = {{1 << 14, 128}, {1 << 18, 1024}, {1 << 22, 4096}};

struct BuiltinCall {
    std::vector<Named> inputs;
    std::vector<Named> attributes; // the ones without a default
};

// `dtypes` has a value for each dtype variable: "bf16,f32". `alike`: all dims have the same size. Returns nothing if
// the signature needs something that cannot be guessed. The host decides whether the op takes the shapes.
std::optional<BuiltinCall> builtin_call(const Signature &signature, const std::string &dtypes, const BuiltinSize &size,
                                        bool alike);

// At most one tuple that begins with f32 and one with bf16; the very first tuple if there is neither.
std::vector<std::string> builtin_dtypes(const std::vector<std::string> &tuples);

} // namespace opdock::op_call
