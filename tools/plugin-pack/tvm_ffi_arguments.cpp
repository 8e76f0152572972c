#include "tvm_ffi_arguments.hpp"

#include <algorithm>
#include <charconv>

#include <spdlog/fmt/fmt.h>

#include "files/reject.hpp"
#include "load/registration_fields.hpp"
#include "opdock/plugin.h"

namespace opdock::plugin_pack {
namespace {

using core::YamlNode;
using tvm_ffi::Argument;
using Type = YamlNode::Type;
using Source = Argument::Source;

// A literal: a number, true, false, null or a quoted text. Nothing for a name.
std::optional<Argument> constant(const YamlNode &node) {
    Argument argument;
    const char *const begin = node.text.data(), *const end = begin + node.text.size();
    if (node.is_quoted) {
        argument.source = Source::text;
        argument.text = node.text;
        return argument;
    }
    if (node.text == "true" || node.text == "false") {
        argument.source = Source::boolean;
        argument.integer = node.text == "true" ? 1 : 0;
        return argument;
    }
    if (node.text == "null") {
        return argument;
    }
    if (const auto [stop, fault] = std::from_chars(begin, end, argument.integer); fault == std::errc() && stop == end) {
        argument.source = Source::integer;
        return argument;
    }
    if (const auto [stop, fault] = std::from_chars(begin, end, argument.real); fault == std::errc() && stop == end) {
        argument.source = Source::real;
        argument.integer = 0;
        return argument;
    }
    return {};
}

template<class List>
std::optional<std::size_t> index_of(const List &list, std::string_view name) {
    const auto found = std::find_if(list.begin(), list.end(), [&](const auto &one) { return one.name == name; });
    return found == list.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - list.begin()));
}

bool is_list(const core::AttributeSpec &attribute) {
    return attribute.type == OPDOCK_VALUE_INTS || attribute.type == OPDOCK_VALUE_FLOATS ||
           attribute.type == OPDOCK_VALUE_STRINGS;
}

} // namespace

void ArgumentReader::read(const YamlNode &map, const YamlNode *knobs, const YamlNode *arguments, bool flatten) {
    if (knobs != nullptr && expect(*knobs, Type::map, "knobs")) {
        for (const auto &[name, value] : knobs->entries) {
            read_knob(name, value);
        }
    }
    if (signature_.has_lists()) {
        complain(map, "op '" + signature_.name + "' has lists of tensors, which modules cannot take");
    } else if (arguments == nullptr) {
        complain(map, "expected a field 'arguments': the function's arguments, in order");
    } else if (expect(*arguments, Type::sequence, "arguments")) {
        if (arguments->items.size() > tvm_ffi::most_arguments) {
            complain(*arguments, fmt::format("arguments: more than {}", tvm_ffi::most_arguments));
            return;
        }
        for (const YamlNode &node : arguments->items) {
            read_argument(node, flatten);
        }
        leave_rest(*arguments);
    }
}

// block: {minimum: 64, maximum: 1024, default: 256}; enable_pdl: false
void ArgumentReader::read_knob(const YamlNode &name, const YamlNode &value) {
    tvm_ffi::Knob knob;
    knob.name = name.text;
    opdock_knob given = {};
    given.struct_size = OPDOCK_STRUCT_SIZE(opdock_knob, choices);
    given.name = knob.name.c_str();
    if (value.type == Type::scalar) {
        knob.is_bool = true;
        knob.maximum = 1;
        if (value.text != "true" && value.text != "false") {
            complain(value, "a knob: expected true, false or a map of minimum, maximum and default, found " +
                                core::quote(value.text));
            return;
        }
        knob.standard = value.text == "true" ? 1 : 0;
    } else if (expect(value, Type::map, "a knob")) {
        const auto minimum = bound(value, "minimum"), maximum = bound(value, "maximum"),
                   standard = bound(value, "default");
        if (!minimum || !maximum || !standard) {
            return;
        }
        knob.minimum = *minimum;
        knob.maximum = *maximum;
        knob.standard = *standard;
    } else {
        return;
    }
    given.type = knob.is_bool ? OPDOCK_KNOB_BOOL : OPDOCK_KNOB_INT;
    given.minimum = knob.minimum;
    given.maximum = knob.maximum;
    given.default_value = knob.standard;
    try {
        (void)core::copy_knob(&given);
    } catch (const core::Rejected &rejected) {
        complain(name, rejected.what());
    }
    implementation_.knobs.push_back(std::move(knob));
}

std::optional<std::int64_t> ArgumentReader::bound(const YamlNode &map, std::string_view field) const {
    for (const auto &[key, value] : map.entries) {
        if (key.text == field) {
            const auto found = whole(value, std::string(field));
            return found ? std::optional(found->value) : std::nullopt;
        }
    }
    complain(map, fmt::format("a knob: expected a field '{}'", field));
    return {};
}

void ArgumentReader::read_argument(const YamlNode &node, bool flatten) {
    if (node.type == Type::null) {
        implementation_.arguments.emplace_back();
        return;
    }
    if (!expect(node, Type::scalar, "an argument")) {
        return;
    }
    std::optional<Argument> argument = constant(node);
    if (!argument) {
        argument = named(node.text, flatten);
    }
    if (!argument) {
        const std::string hint = core::hint_for(problems_, node.text, names());
        complain(node, core::quote(node.text) + " is not a tensor, attribute or knob of '" + signature_.name + "'" +
                           (hint.empty() ? "; put texts in quotes" : hint));
        return;
    }
    if (argument->source == Source::attribute && is_list(signature_.attributes[argument->index])) {
        complain(node, "attribute '" + node.text + "' is a list, which modules cannot take");
    }
    implementation_.arguments.push_back(std::move(*argument));
}

std::optional<Argument> ArgumentReader::named(const std::string &name, bool flatten) const {
    if (const auto input = index_of(signature_.inputs, name)) {
        return tensor(*input, flatten);
    }
    if (const auto output = index_of(signature_.outputs, name)) {
        return tensor(signature_.inputs.size() + *output, flatten);
    }
    Argument argument;
    if (const auto attribute = index_of(signature_.attributes, name)) {
        argument.source = Source::attribute;
        argument.index = static_cast<std::uint32_t>(*attribute);
        return argument;
    }
    if (const auto knob = index_of(implementation_.knobs, name)) {
        argument.source = Source::knob;
        argument.index = static_cast<std::uint32_t>(*knob);
        argument.integer = implementation_.knobs[*knob].is_bool ? 1 : 0;
        return argument;
    }
    return {};
}

Argument ArgumentReader::tensor(std::size_t parameter, bool flatten) const {
    const core::Parameter &described = signature_.parameter(parameter);
    Argument argument;
    argument.source = Source::tensor;
    argument.index = static_cast<std::uint32_t>(parameter);
    argument.flatten = flatten && described.ellipsis >= 0;
    if (argument.flatten) {
        argument.before = static_cast<std::uint32_t>(described.ellipsis);
        argument.after = static_cast<std::uint32_t>(described.dims.size()) - argument.before;
    }
    return argument;
}

std::vector<std::string_view> ArgumentReader::names() const {
    std::vector<std::string_view> all;
    for (std::size_t i = 0; i < signature_.n_params(); ++i) {
        all.emplace_back(signature_.parameter(i).name);
    }
    for (const core::AttributeSpec &attribute : signature_.attributes) {
        all.emplace_back(attribute.name);
    }
    for (const tvm_ffi::Knob &knob : implementation_.knobs) {
        all.emplace_back(knob.name);
    }
    return all;
}

bool ArgumentReader::is_passed(Source source, std::size_t index) const {
    return std::any_of(implementation_.arguments.begin(), implementation_.arguments.end(),
                       [&](const Argument &one) { return one.source == source && one.index == index; });
}

// Calls must not require arguments that the function is not passed.
void ArgumentReader::leave_rest(const YamlNode &at) {
    for (std::size_t i = 0; i < signature_.n_params(); ++i) {
        const core::Parameter &parameter = signature_.parameter(i);
        if (is_passed(Source::tensor, i)) {
            continue;
        }
        if (!parameter.optional) {
            complain(at, "arguments: the function does not get '" + parameter.name + "'");
        }
        tvm_ffi::Left left;
        left.index = static_cast<std::uint32_t>(i);
        left.name = parameter.name;
        implementation_.left.push_back(std::move(left));
    }
    for (std::size_t i = 0; i < signature_.attributes.size(); ++i) {
        if (!is_passed(Source::attribute, i)) {
            leave_attribute(at, i);
        }
    }
    for (std::size_t i = 0; i < implementation_.knobs.size(); ++i) {
        if (!is_passed(Source::knob, i)) {
            complain(at, "arguments: the function does not get the knob '" + implementation_.knobs[i].name + "'");
        }
    }
}

void ArgumentReader::leave_attribute(const YamlNode &at, std::size_t index) {
    const core::AttributeSpec &attribute = signature_.attributes[index];
    if (attribute.required) {
        complain(at, "arguments: the function does not get '" + attribute.name + "'");
        return;
    }
    tvm_ffi::Left left;
    left.source = Source::attribute;
    left.index = static_cast<std::uint32_t>(index);
    left.name = attribute.name;
    left.type = attribute.optional ? OPDOCK_VALUE_NONE : attribute.type;
    left.integer = attribute.integer;
    left.real = attribute.number;
    left.text = attribute.text;
    if (!attribute.integers.empty() || !attribute.numbers.empty()) {
        complain(at, "arguments: the function does not get '" + attribute.name + "', whose default is a list");
    }
    implementation_.left.push_back(std::move(left));
}

} // namespace opdock::plugin_pack
