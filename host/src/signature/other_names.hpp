// Names of standard ops in other libraries. docs/ops.md has the same table; a test compares them.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace opdock::core {

struct OtherName {
    std::string_view name;    // without "aten::"
    std::string_view library; // one of the libraries with this name
    std::string_view ops;     // opdock's ops, separated by spaces
};

std::span<const OtherName> other_names();

// opdock's name for a Transformer Engine op: "gelu_bwd" for "dgelu". Returns every other name unchanged. NUL-terminated
// if `name` is.
std::string_view standard_name(std::string_view name);

// The ops for a name, separated by spaces; "" if the table does not have it. Recognizes spelling variants too:
// "LigerRMSNorm", "liger_rms_norm" and "rms_norm_kernel" are "rms_norm", and "te_rmsnorm_fwd" is opdock's own.
std::string_view ops_called(std::string_view name);

// "; opdock calls that 'matmul'.", "; opdock has 'a', 'b' or 'c' for that."; "" if there are none.
std::string other_name_hint(std::string_view name);

// other_name_hint, or did_you_mean if that is empty.
std::string hint_at_op(std::string_view name, std::span<const std::string_view> known_ops);

} // namespace opdock::core
