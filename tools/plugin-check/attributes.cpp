#include "attributes.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "op-call/source.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::AttributeArgument;
using op_call::AttributeParameter;
using op_call::Signature;

// For the standard ops; for others, half of the default, or a quarter.
const std::map<std::string, double> other_floats = {
    {"eps", 1e-2}, {"alpha", -0.5}, {"scale", 0.125},       {"label_smoothing", 0.1}, {"limit", 1.5},
    {"p", 0.25},   {"beta1", 0.5},  {"weight_decay", 0.05}, {"momentum", 0.9},        {"dampening", 0.1},
};

// For the standard ops, where their formulas are meaningful; others get those of alpha.
const std::map<std::string, std::vector<double>> far_floats = {
    {"eps", {0, 0.5}},
    {"alpha", {0, 0.5, -0.5, 1e11}},
    {"scale", {0, 0.5, -0.5, 1e11}},
    {"label_smoothing", {0, 0.5, 1}},
    {"limit", {0, 0.5, 1e11}},
    {"p", {0, 0.5, 1}},
    {"beta", {0, 0.1, 1}},
    {"beta1", {0, 0.5}},
    {"beta2", {0, 0.5}},
    {"weight_decay", {0, 0.5}},
    {"momentum", {0, 0.5}},
    {"dampening", {0, 0.5, 1}},
};

double other_float(const std::string &name, double by_default) {
    const auto known = other_floats.find(name);
    if (known != other_floats.end() && known->second != by_default) {
        return known->second;
    }
    return by_default == 0 ? 0.25 : by_default / 2;
}

struct Text {
    std::string operator()(int64_t value) const { return std::to_string(value); }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const std::string &value) const { return value; }
    std::string operator()(const DLDataType &value) const {
        return std::string(files::dtype_name(opdock_dtype_pack(value)));
    }
    std::string operator()(double value) const {
        std::ostringstream text;
        text << value;
        return text.str();
    }
    template<class T>
    std::string operator()(const std::vector<T> &list) const {
        std::string text;
        for (const T &value : list) {
            text += (text.empty() ? "" : ",") + (*this)(value);
        }
        return text;
    }
};

} // namespace

std::vector<AttributeArgument> required_attributes(const Signature &signature, const Dtypes &dtypes) {
    std::vector<AttributeArgument> arguments;
    for (const AttributeParameter &attribute : signature.attributes) {
        const auto variable = dtypes.find(attribute.variable);
        if (variable != dtypes.end()) {
            arguments.push_back({attribute.name, opdock_dtype_unpack(variable->second)});
        } else if (!attribute.is_required()) {
            continue;
        } else if (attribute.type == "float") {
            arguments.push_back({attribute.name, other_float(attribute.name, 0)});
        } else if (attribute.type == "int") {
            arguments.push_back({attribute.name, int64_t{1}});
        } else if (attribute.type == "bool") {
            arguments.push_back({attribute.name, true});
        } else if (attribute.type == "string") {
            arguments.push_back({attribute.name, std::string()});
        } else if (attribute.type == "dtype") {
            arguments.push_back({attribute.name, opdock_dtype_unpack(OPDOCK_F32)});
        } else if (attribute.type == "int[]") {
            arguments.push_back({attribute.name, std::vector<int64_t>()});
        } else if (attribute.type == "float[]") {
            arguments.push_back({attribute.name, std::vector<double>()});
        } else {
            arguments.push_back({attribute.name, std::vector<std::string>()});
        }
    }
    return arguments;
}

std::optional<AttributeArgument> other_value(const AttributeParameter &attribute) {
    const nlohmann::json &by_default = attribute.by_default;
    if (attribute.type == "float") {
        return AttributeArgument{attribute.name,
                                 by_default.is_null() ? 0.5 : other_float(attribute.name, by_default.get<double>())};
    }
    if (attribute.type == "bool") {
        return AttributeArgument{attribute.name, by_default.is_null() ? false : !by_default.get<bool>()};
    }
    if (attribute.type == "int") {
        // An existing class, for the ignored class of a loss.
        const bool is_class = attribute.name == "ignore_index";
        return AttributeArgument{attribute.name, by_default.is_null()
                                                     ? int64_t{2}
                                                     : (is_class ? int64_t{0} : by_default.get<int64_t>() + 1)};
    }
    return std::nullopt;
}

std::vector<AttributeArgument> far_values(const AttributeParameter &attribute) {
    std::vector<AttributeArgument> values;
    if (attribute.type != "float") {
        return values;
    }
    const auto known = far_floats.find(attribute.name);
    for (const double value : known != far_floats.end() ? known->second : far_floats.at("alpha")) {
        if (attribute.by_default.is_null() || attribute.by_default.get<double>() != value) {
            values.push_back({attribute.name, value});
        }
    }
    return values;
}

std::vector<int64_t> boundaries_of(const Signature &signature, const Shapes &shapes) {
    std::set<int64_t> values = {0, 1};
    const Shape &shape = shapes.front();
    const auto add = [&](int64_t size) { values.insert({std::max<int64_t>(size - 1, 0), size}); };
    for (const auto &[name, size] : shape.names) {
        add(size);
    }
    const bool has_leading = signature.text.find("...") != std::string::npos && !shape.leading.empty();
    if (shape.names.empty() && has_leading) {
        add(shape.leading.back());
    }
    return {values.begin(), values.end()};
}

void set_attribute(std::vector<AttributeArgument> &attributes, AttributeArgument value) {
    std::erase_if(attributes, [&](const AttributeArgument &old) { return old.name == value.name; });
    attributes.push_back(std::move(value));
}

std::string text_of(const std::vector<AttributeArgument> &attributes) {
    std::string text;
    for (const AttributeArgument &one : attributes) {
        text += ", " + one.name + "=" + std::visit(Text(), one.value);
    }
    return text;
}

} // namespace opdock::plugin_check
