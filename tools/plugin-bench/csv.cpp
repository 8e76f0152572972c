#include "csv.hpp"

#include <array>

#include <nlohmann/json.hpp>

#include "op-call/subject.hpp"

namespace opdock::plugin_bench {
namespace {

using nlohmann::json;

constexpr std::array<const char *, 2> of_shape = {"bytes", "flops"};
constexpr std::array<const char *, 14> of_implementation = {
    "impl_id",          "kind",    "outcome",          "microseconds", "low",     "high", "spread", "samples", "batch",
    "bytes_per_second", "of_copy", "flops_per_second", "of_matmul",    "roofline"};

std::string value_text(const json &object, const char *key) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) {
        return "";
    }
    return found->is_string() ? csv_field(found->get<std::string>()) : found->dump();
}

} // namespace

std::string csv_field(const std::string &text) {
    std::string safe =
        !text.empty() && std::string("=+-@\t\r").find(text.front()) != std::string::npos ? "'" + text : text;
    if (safe.find_first_of(",\"\r\n") == std::string::npos) {
        return safe;
    }
    std::string quoted = "\"";
    for (const char c : safe) {
        quoted += c == '"' ? "\"\"" : std::string(1, c);
    }
    return quoted + "\"";
}

std::string render_csv(const json &document) {
    std::string text = "device,op,call";
    for (const char *key : of_shape) {
        text += std::string(",") + key;
    }
    for (const char *key : of_implementation) {
        text += std::string(",") + key;
    }
    text += "\n";
    for (const json &shape : document.at("shapes")) {
        for (const json &one : shape.at("implementations")) {
            text += value_text(document, "device") + "," + value_text(shape, "op") + "," +
                    csv_field(op_call::label_of(shape));
            for (const char *key : of_shape) {
                text += "," + value_text(shape, key);
            }
            for (const char *key : of_implementation) {
                text += "," + value_text(one, key);
            }
            text += "\n";
        }
    }
    return text;
}

} // namespace opdock::plugin_bench
