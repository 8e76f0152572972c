// The names that other libraries have for standard ops. docs/ops.md has the same table; a test compares them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace opdock::core {

struct OtherName {
    std::string_view name;    // without "aten::"
    std::string_view library; // one of those that have it
    std::string_view ops;     // of opdock, separated by blanks
};

std::span<const OtherName> other_names();

// "gelu_bwd" for "dgelu": what opdock calls the op that Transformer Engine calls so. Every other name as it is.
// NUL-terminated if `name` is.
std::string_view standard_name(std::string_view name);

// The ops for a name, separated by blanks; "" when it is in no row. Also for one that a library writes in another way:
// "LigerRMSNorm", "liger_rms_norm" and "rms_norm_kernel" are "rms_norm", and "te_rmsnorm_fwd" is opdock's own.
std::string_view ops_called(std::string_view name);

// "; opdock calls that 'matmul'.", "; opdock has 'a', 'b' or 'c' for that."; "" where there are none.
std::string other_name_hint(std::string_view name);

// That, else did_you_mean.
std::string hint_at_op(std::string_view name, std::span<const std::string_view> known_ops);

} // namespace opdock::core
