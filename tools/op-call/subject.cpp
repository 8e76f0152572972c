#include "op-call/subject.hpp"

#include <nlohmann/json.hpp>

namespace opdock::op_call {
namespace {

using nlohmann::json;

json named_json(const std::vector<Named> &list, const char *text) {
    json result = json::array();
    for (const Named &one : list) {
        result.push_back({{"name", one.name}, {text, one.text}});
    }
    return result;
}

} // namespace

json subject_json(const Subject &subject) {
    return {{"op", subject.op},
            {"inputs", named_json(subject.inputs, "source")},
            {"attributes", named_json(subject.attributes, "value")},
            {"outputs", subject.outputs}};
}

std::string label_of(const Subject &subject) {
    std::string text = subject.op;
    for (const auto *list : {&subject.inputs, &subject.attributes}) {
        for (const Named &one : *list) {
            text += " " + one.name + "=" + one.text;
        }
    }
    for (const std::string &output : subject.outputs) {
        text += " +" + output;
    }
    return text;
}

std::string label_of(const json &subject) {
    auto text = subject.at("op").get<std::string>();
    for (const json &input : subject.at("inputs")) {
        text += " " + input.at("name").get<std::string>() + "=" + input.at("source").get<std::string>();
    }
    for (const json &attribute : subject.at("attributes")) {
        text += " " + attribute.at("name").get<std::string>() + "=" + attribute.at("value").get<std::string>();
    }
    for (const json &output : subject.value("outputs", json::array())) {
        text += " +" + output.get<std::string>();
    }
    return text;
}

} // namespace opdock::op_call
