#include "signature/signature_json.hpp"

#include <nlohmann/json.hpp>

#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

json parameters_json(const Signature &signature, const std::vector<Parameter> &parameters) {
    json list = json::array();
    for (const Parameter &parameter : parameters) {
        list.push_back({{"name", parameter.name},
                        {"dtype", print_dtype(signature, parameter)},
                        {"dims", print_dims(signature, parameter)},
                        {"optional", parameter.optional},
                        {"list", parameter.list},
                        {"mut", parameter.mut},
                        {"host", parameter.host}});
    }
    return list;
}

json constraints_json(const Signature &signature) {
    json list = json::array();
    for (const Constraint &constraint : signature.constraints) {
        json right = json::array();
        for (const Expression &expression : constraint.right) {
            right.push_back(print_expression(signature, expression));
        }
        list.push_back({{"left", print_expression(signature, constraint.left)},
                        {"operator", print_operator(constraint.kind)},
                        {"right", std::move(right)}});
    }
    return list;
}

json dtypes_json(const Signature &signature) {
    json dtypes = json::object();
    for (size_t i = 0; i < signature.dtype_variables.size(); ++i) {
        json &names = dtypes[signature.dtype_variables[i]] = json::array();
        for (const uint32_t dtype : signature.allowed_dtypes[i]) {
            names.push_back(dtype_name(dtype));
        }
    }
    return dtypes;
}

json default_json(const AttributeSpec &attribute) {
    if (attribute.required || attribute.optional) {
        return nullptr;
    }
    switch (attribute.type) {
    case OPDOCK_VALUE_FLOAT:
        return attribute.number;
    case OPDOCK_VALUE_BOOL:
        return attribute.integer != 0;
    case OPDOCK_VALUE_STRING:
        return attribute.text;
    case OPDOCK_VALUE_DTYPE:
        return dtype_name(static_cast<uint32_t>(attribute.integer));
    case OPDOCK_VALUE_INTS:
        return attribute.integers;
    case OPDOCK_VALUE_FLOATS:
        return attribute.numbers;
    case OPDOCK_VALUE_STRINGS:
        return json::array();
    default:
        return attribute.integer;
    }
}

// The dtype variable that the attribute binds, or null.
json variable_json(const Signature &signature, const AttributeSpec &attribute) {
    return attribute.dtype_variable < 0
               ? json()
               : json(signature.dtype_variables[static_cast<size_t>(attribute.dtype_variable)]);
}

} // namespace

json signature_json(const Signature &signature) {
    json attributes = json::array();
    for (const AttributeSpec &attribute : signature.attributes) {
        attributes.push_back({{"name", attribute.name},
                              {"type", attribute.type_name()},
                              {"variable", variable_json(signature, attribute)},
                              {"optional", attribute.optional},
                              {"default", default_json(attribute)}});
    }
    return {{"op", signature.name},
            {"signature", signature.text},
            {"inputs", parameters_json(signature, signature.inputs)},
            {"outputs", parameters_json(signature, signature.outputs)},
            {"attributes", std::move(attributes)},
            {"dtype_variables", signature.dtype_variables},
            {"dtypes", dtypes_json(signature)},
            {"where", constraints_json(signature)}};
}

} // namespace opdock::core
