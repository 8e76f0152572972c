#include "host/counters.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "host/host.hpp"
#include "host/text_table.hpp"

namespace opdock::core {
namespace {

using nlohmann::json;

constexpr std::array fallbacks = {Count::after_declined, Count::after_failed, Count::after_running,
                                  Count::after_all_dropped, Count::after_all_failed};

constexpr std::array shadow_names = {std::pair(ShadowCount::agreed, "agreed"),
                                     std::pair(ShadowCount::disagreed, "disagreed"),
                                     std::pair(ShadowCount::left_out, "left_out")};

bool is_used(const CountedImplementation &one) {
    return std::any_of(one.counts.begin(), one.counts.end(), [](uint64_t count) { return count != 0; });
}

// A text in quotation marks, with the characters escaped that OpenMetrics does not allow.
std::string label_value(std::string_view text) {
    std::string value = "\"";
    for (const char c : text) {
        if (c == '\n') {
            value += "\\n";
            continue;
        }
        if (c == '\\' || c == '"') {
            value += '\\';
        }
        value += c;
    }
    return value + '"';
}

std::string labels_of(const CountedImplementation &one) {
    return fmt::format("op={},implementation={},plugin={},vendor={}", label_value(one.op), label_value(one.impl_id),
                       label_value(one.plugin), label_value(one.vendor));
}

void add_family(std::string &text, std::string_view name, std::string_view help) {
    text += fmt::format("# TYPE {} counter\n# HELP {} {}\n", name, name, help);
}

// Counts of shadows; nothing if there are none.
void add_shadows(std::string &text, std::span<const CountedImplementation> counted) {
    const auto has_shadows = [](const CountedImplementation &one) { return one.shadows != decltype(one.shadows){}; };
    if (std::none_of(counted.begin(), counted.end(), has_shadows)) {
        return;
    }
    add_family(text, "opdock_shadows", "Calls that were to be compared with a shadow, by result.");
    for (const CountedImplementation &one : counted) {
        for (const auto &[count, name] : shadow_names) {
            text += fmt::format("opdock_shadows_total{{{},result={}}} {}\n", labels_of(one), label_value(name),
                                one.of(count));
        }
    }
}

void add_latencies(std::string &text, std::span<const Latency> latencies) {
    constexpr double nanoseconds_per_second = 1e9;
    if (latencies.empty()) {
        return;
    }
    text += "# TYPE opdock_call_seconds histogram\n"
            "# UNIT opdock_call_seconds seconds\n"
            "# HELP opdock_call_seconds Times of one call in 1,000: around the kernel by the host's clock, or on the "
            "device by the device's clock.\n";
    for (const Latency &one : latencies) {
        const std::string labels =
            fmt::format("op={},implementation={},device={},clock=\"{}\"", label_value(one.op), label_value(one.impl_id),
                        label_value(one.device), one.on_device ? "device" : "host");
        uint64_t calls = 0;
        for (size_t i = 0; i < one.counts.size(); ++i) {
            calls += one.counts.at(i);
            const std::string bound =
                i < n_latency_bounds ? fmt::format("{}", static_cast<double>(latency_bound(i)) / nanoseconds_per_second)
                                     : "+Inf";
            text += fmt::format("opdock_call_seconds_bucket{{{},le=\"{}\"}} {}\n", labels, bound, calls);
        }
        text += fmt::format("opdock_call_seconds_count{{{}}} {}\nopdock_call_seconds_sum{{{}}} {}\n", labels, calls,
                            labels, static_cast<double>(one.sum) / nanoseconds_per_second);
    }
}

} // namespace

bool nothing_counted(std::span<const CountedImplementation> counted) {
    return std::none_of(counted.begin(), counted.end(), is_used);
}

json counters_json(std::span<const CountedImplementation> counted) {
    json list = json::array();
    for (const CountedImplementation &one : counted) {
        json after = json::object();
        for (const Count reason : fallbacks) {
            after[std::string(count_name(reason))] = one.of(reason);
        }
        json shadows = json::object();
        for (const auto &[count, name] : shadow_names) {
            shadows[name] = one.of(count);
        }
        list.push_back({{"op", one.op},
                        {"impl_id", one.impl_id},
                        {"plugin", one.plugin},
                        {"vendor", one.vendor},
                        {"served", one.of(Count::served)},
                        {"declined", one.of(Count::declined)},
                        {"failed", one.of(Count::failed)},
                        {"fallbacks", std::move(after)},
                        {"shadows", std::move(shadows)}});
    }
    return list;
}

std::string open_metrics(std::span<const CountedImplementation> counted, std::span<const Latency> latencies) {
    std::string text;
    for (const auto &[count, help] : {std::pair(Count::served, "Calls that an implementation served."),
                                      std::pair(Count::declined, "Calls that an implementation declined."),
                                      std::pair(Count::failed, "Calls in which an implementation failed.")}) {
        const std::string name = fmt::format("opdock_{}", count_name(count));
        add_family(text, name, help);
        for (const CountedImplementation &one : counted) {
            text += fmt::format("{}_total{{{}}} {}\n", name, labels_of(one), one.of(count));
        }
    }
    add_family(text, "opdock_fallbacks", "Calls that an implementation served in place of another, by reason.");
    for (const CountedImplementation &one : counted) {
        for (const Count reason : fallbacks) {
            text += fmt::format("opdock_fallbacks_total{{{},reason={}}} {}\n", labels_of(one),
                                label_value(count_name(reason)), one.of(reason));
        }
    }
    add_shadows(text, counted);
    add_latencies(text, latencies);
    return text + "# EOF\n";
}

std::string counters_table(std::span<const CountedImplementation> counted) {
    std::vector<std::vector<std::string>> rows = {
        {"op", "implementation", "served", "declined", "failed", "served in place of another"}};
    for (const CountedImplementation &one : counted) {
        if (!is_used(one)) {
            continue;
        }
        std::string after;
        for (const Count reason : fallbacks) {
            if (one.of(reason) != 0) {
                after += fmt::format("{}{} ({})", after.empty() ? "" : ", ", one.of(reason), count_name(reason));
            }
        }
        rows.push_back({one.op, one.impl_id, std::to_string(one.of(Count::served)),
                        std::to_string(one.of(Count::declined)), std::to_string(one.of(Count::failed)), after});
    }
    return rows.size() == 1 ? "" : text_table(std::move(rows));
}

json Host::describe_counters() const {
    return counters_json(counters());
}

} // namespace opdock::core
