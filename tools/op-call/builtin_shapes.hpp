// The shapes of --all of the tools that measure, from nothing but an op's signature.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "op-call/named.hpp"
#include "op-call/signature.hpp"

namespace opdock::op_call {

// About how many elements the tensor with the most dims has, and its last dim.
struct BuiltinSize {
    int64_t elements;
    int64_t last;
};
inline constexpr BuiltinSize builtin_sizes[] = {{1 << 14, 128}, {1 << 18, 1024}, {1 << 22, 4096}};

struct BuiltinCall {
    std::vector<Named> inputs;
    std::vector<Named> attributes; // those without a default
};

// `dtypes` is a value for each dtype variable, "bf16,f32". `alike`: all dims have one size. Nothing where the signature
// needs what cannot be guessed. Whether the op takes the shapes is for the host to say.
std::optional<BuiltinCall> builtin_call(const Signature &signature, const std::string &dtypes, const BuiltinSize &size,
                                        bool alike);

// At most one tuple that begins with f32, and one with bf16; the first of all where there is neither.
std::vector<std::string> builtin_dtypes(const std::vector<std::string> &tuples);

} // namespace opdock::op_call
