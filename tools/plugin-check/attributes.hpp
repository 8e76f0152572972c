// Attribute values: those that a call needs, and others that change what it computes.
#pragma once

#include <optional>

#include "cases.hpp"

namespace opdock::plugin_check {

// Values for attributes without a default, and for those that set a dtype variable.
std::vector<op_call::AttributeArgument> required_attributes(const op_call::Signature &signature, const Dtypes &dtypes);

// A value other than the default; nothing for strings, lists and dtypes, where any other value may be invalid.
std::optional<op_call::AttributeArgument> other_value(const op_call::AttributeParameter &attribute);

// For a float attribute: 0, a half and, where its formula is defined for them, a negative and a very large value, which
// comes last.
std::vector<op_call::AttributeArgument> far_values(const op_call::AttributeParameter &attribute);

// For an integer attribute, in a call of these shapes: 0, 1, each size and each size minus 1. In ascending order.
std::vector<int64_t> boundaries_of(const op_call::Signature &signature, const Shapes &shapes);

// Replaces the attribute's earlier value, if any.
void set_attribute(std::vector<op_call::AttributeArgument> &attributes, op_call::AttributeArgument value);

// In the spelling of plugin-run: ", eps=0.01" for each.
std::string text_of(const std::vector<op_call::AttributeArgument> &attributes);

} // namespace opdock::plugin_check
