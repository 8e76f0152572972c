#include "op-call/subject.hpp"

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"

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
    json document = {{"op", subject.op},
                     {"inputs", named_json(subject.inputs, "source")},
                     {"attributes", named_json(subject.attributes, "value")},
                     {"outputs", subject.outputs}};
    if (!subject.strides.empty()) {
        document["strides"] = named_json(subject.strides, "strides");
    }
    return document;
}

std::string label_of(const Subject &subject) {
    std::string text = subject.op;
    for (const Named &input : subject.inputs) {
        text += " " + input.name + "=" + input.text;
    }
    for (const Named &tensor : subject.strides) {
        text += " strides(" + tensor.name + ")=" + tensor.text;
    }
    for (const Named &attribute : subject.attributes) {
        text += " " + attribute.name + "=" + attribute.text;
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
    for (const json &tensor : subject.value("strides", json::array())) {
        text += " strides(" + tensor.at("name").get<std::string>() + ")=" + tensor.at("strides").get<std::string>();
    }
    for (const json &attribute : subject.at("attributes")) {
        text += " " + attribute.at("name").get<std::string>() + "=" + attribute.at("value").get<std::string>();
    }
    for (const json &output : subject.value("outputs", json::array())) {
        text += " +" + output.get<std::string>();
    }
    return text;
}

bool asks_what_is_expected(const cli::CommandLine &line, const std::vector<std::string> &ops, const std::string &verb) {
    const bool has_shapes = line.given("shapes"), is_all = line.given("all");
    const bool has_call = line.given("shape") || line.given("attr") || line.given("output");
    if (has_shapes && (is_all || has_call || !ops.empty())) {
        throw cli::UsageError("--shapes says what to " + verb +
                              "; do not combine it with an op, --shape, --attr, --output or --all");
    }
    if (is_all && has_call) {
        throw cli::UsageError("--all uses its own shapes; do not combine it with --shape, --attr or --output");
    }
    if (has_shapes || is_all) {
        return false;
    }
    if (ops.empty()) {
        throw cli::UsageError("there is nothing to " + verb +
                              ": give an op with its shapes, --shapes FILE or --all; 'plugin-ls' lists the ops");
    }
    const char *format = line.given("json") ? "json" : line.given("format") ? "format" : nullptr;
    if (!has_call && format != nullptr) {
        throw cli::UsageError(line.as_given(format) + " prints measurements; add --shape, --shapes or --all");
    }
    return !has_call;
}

} // namespace opdock::op_call
