// Values of attributes: those that a call needs, and one that changes what it computes.
#pragma once

#include <optional>

#include "cases.hpp"

namespace opdock::plugin_check {

// What has no default, and what gives a dtype variable its value.
std::vector<op_call::AttributeArgument> required_attributes(const op_call::Signature &signature, const Dtypes &dtypes);

// A value other than the default; nothing for strings, lists and dtypes, of which any other value may be wrong.
std::optional<op_call::AttributeArgument> other_value(const op_call::AttributeParameter &attribute);

// As plugin-run spells them, ", eps=0.01" for each.
std::string text_of(const std::vector<op_call::AttributeArgument> &attributes);

} // namespace opdock::plugin_check
