#include "signature/signature_json.hpp"

#include <nlohmann/json.hpp>

#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

json parameters_json(const std::vector<Parameter> &parameters) {
    json list = json::array();
    for (const Parameter &parameter : parameters) {
        list.push_back({{"name", parameter.name},
                        {"optional", parameter.optional},
                        {"list", parameter.list},
                        {"mut", parameter.mut},
                        {"host", parameter.host}});
    }
    return list;
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

} // namespace

json signature_json(const Signature &signature) {
    json attributes = json::array();
    for (const AttributeSpec &attribute : signature.attributes) {
        attributes.push_back({{"name", attribute.name},
                              {"type", attribute.type_name()},
                              {"optional", attribute.optional},
                              {"default", default_json(attribute)}});
    }
    return {{"op", signature.name},
            {"signature", signature.text},
            {"inputs", parameters_json(signature.inputs)},
            {"outputs", parameters_json(signature.outputs)},
            {"attributes", std::move(attributes)},
            {"dtype_variables", signature.dtype_variables}};
}

} // namespace opdock::core
