#include "form.hpp"

#include <nlohmann/json.hpp>

namespace opdock::python {
namespace {

using nlohmann::json;

std::vector<Parameter> parameters_of(const json &list) {
    std::vector<Parameter> parameters;
    for (const json &one : list) {
        const auto name = one.at("name").get<std::string>();
        parameters.push_back(
            {name, one.at("optional"), one.at("list"), one.at("mut"), one.at("host"), interned(name.c_str())});
    }
    return parameters;
}

} // namespace

nb::object interned(const char *text) {
    return nb::steal(PyUnicode_InternFromString(text));
}

Form form_of(const Op &op) {
    const json document = json::parse(op.signature_json());
    Form form;
    form.op = document.at("op");
    form.signature = document.at("signature");
    form.inputs = parameters_of(document.at("inputs"));
    form.outputs = parameters_of(document.at("outputs"));
    for (const json &one : document.at("attributes")) {
        const auto name = one.at("name").get<std::string>();
        form.attributes.push_back({name, one.at("type"), one.at("optional"), interned(name.c_str())});
    }
    return form;
}

} // namespace opdock::python
