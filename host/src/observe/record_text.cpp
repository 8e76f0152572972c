#include "observe/record_text.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "text/bounded_yaml.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Half of each of the reader's limits.
constexpr size_t most_record_bytes = most_yaml_bytes / 2;
constexpr size_t most_record_values = most_yaml_nodes / 2;
constexpr size_t most_record_commas = most_yaml_flow_indicators / 2;

std::string quoted(const std::string &text) {
    return nlohmann::json(visible_line(text)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string strides_text(const std::vector<int64_t> &strides) {
    return strides.empty() ? "\"packed\"" : fmt::format("\"[{}]\"", fmt::join(strides, ","));
}

// Tensors of a list have the same name and are adjacent.
template<class Text>
std::string tensors_text(const std::vector<CallText::Tensor> &tensors, Text text_of) {
    std::string text;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const CallText::Tensor &tensor = tensors[i];
        if (!tensor.in_list) {
            text += fmt::format("    {}: {}\n", tensor.name, text_of(tensor));
            continue;
        }
        if (i == 0 || tensors[i - 1].name != tensor.name) {
            text += fmt::format("    {}:\n", tensor.name);
        }
        text += fmt::format("      - {}\n", text_of(tensor));
    }
    return text;
}

// The tensors of parameters that have a tensor with explicit strides.
std::vector<CallText::Tensor> strided(const CallText &call) {
    std::vector<CallText::Tensor> all;
    for (const std::vector<CallText::Tensor> *tensors : {&call.inputs, &call.outputs}) {
        for (const CallText::Tensor &tensor : *tensors) {
            const bool is_strided = std::any_of(tensors->begin(), tensors->end(), [&](const CallText::Tensor &other) {
                return other.name == tensor.name && !other.strides.empty();
            });
            if (is_strided) {
                all.push_back(tensor);
            }
        }
    }
    return all;
}

std::string call_text(const CountedCall &call, double share) {
    const CallText &text = call.text;
    const double one = call.device.mean() > 0 ? call.device.mean() : call.host.mean();
    std::string out = fmt::format("- op: {}\n  device: {}\n  served_by: {}\n", quoted(text.op), quoted(text.device),
                                  quoted(text.impl_id));
    if (!text.config.empty()) {
        out += fmt::format("  config: {}\n", quoted(text.config));
    }
    out += fmt::format("  calls: {}\n  microseconds: {:.3f}\n  share: {:.4f}\n",
                       call.calls.load(std::memory_order_relaxed), one / 1000, share);
    out += text.inputs.empty() ? "  inputs: {}\n" : "  inputs:\n";
    out += tensors_text(text.inputs, [](const CallText::Tensor &tensor) { return quoted(tensor.type); });
    const std::vector<CallText::Tensor> with_strides = strided(text);
    out += with_strides.empty() ? "" : "  strides:\n";
    out += tensors_text(with_strides, [](const CallText::Tensor &tensor) { return strides_text(tensor.strides); });
    out += text.attributes.empty() ? "" : "  attributes:\n";
    for (const CallText::Attribute &attribute : text.attributes) {
        out += fmt::format("    {}: {}\n", attribute.name, quoted(attribute.value));
    }
    out += text.wanted_outputs.empty() ? "" : "  outputs:\n";
    for (const std::string &output : text.wanted_outputs) {
        out += fmt::format("    - {}\n", output);
    }
    return out;
}

} // namespace

std::string record_text(const std::vector<const CountedCall *> &calls) {
    double total = 0;
    for (const CountedCall *call : calls) {
        total += call->total();
    }
    std::string text;
    size_t lines = 0, commas = 0, left_out = 0;
    double written = 0;
    for (const CountedCall *call : calls) {
        const double share = total > 0 ? call->total() / total : 0;
        const std::string one = call->is_described ? call_text(*call, share) : "";
        const auto more_lines = static_cast<size_t>(std::count(one.begin(), one.end(), '\n'));
        const auto more_commas = static_cast<size_t>(std::count(one.begin(), one.end(), ','));
        if (one.empty() || text.size() + one.size() > most_record_bytes ||
            2 * (lines + more_lines) > most_record_values || commas + more_commas > most_record_commas) {
            left_out += 1;
            continue;
        }
        text += one;
        lines += more_lines;
        commas += more_commas;
        written += share;
    }
    std::string head = "# The calls of a process, the longest total times first. plugin-tune, plugin-bench and\n"
                       "# plugin-check read them with --shapes.\n";
    if (left_out != 0) {
        head += fmt::format("# There was no room for {} more, {:.1f} % of the time.\n",
                            counted(left_out, "distinct call"), total > 0 ? 100 * (1 - written) : 0);
    }
    return head + (text.empty() ? "[]\n" : text);
}

} // namespace opdock::core
