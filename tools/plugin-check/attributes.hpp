// Values of attributes: those that a call needs, and others that change what it computes.
#pragma once

#include <optional>

#include "cases.hpp"

namespace opdock::plugin_check {

// What has no default, and what gives a dtype variable its value.
std::vector<op_call::AttributeArgument> required_attributes(const op_call::Signature &signature, const Dtypes &dtypes);

// A value other than the default; nothing for strings, lists and dtypes, of which any other value may be wrong.
std::optional<op_call::AttributeArgument> other_value(const op_call::AttributeParameter &attribute);

// Of an attribute of type float: 0, a half, and where a formula has a meaning for them a negative and a very large
// value, which comes last.
std::vector<op_call::AttributeArgument> far_values(const op_call::AttributeParameter &attribute);

// Of an attribute of whole numbers, in a call of these shapes: 0, 1, each size and one less. In ascending order.
std::vector<int64_t> boundaries_of(const op_call::Signature &signature, const Shapes &shapes);

// In place of the attribute's value before, if any.
void set_attribute(std::vector<op_call::AttributeArgument> &attributes, op_call::AttributeArgument value);

// As plugin-run spells them, ", eps=0.01" for each.
std::string text_of(const std::vector<op_call::AttributeArgument> &attributes);

} // namespace opdock::plugin_check
