#include "load/registration_difference.hpp"

#include <algorithm>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "load/token.hpp"

namespace opdock::core {
namespace {

// Everything that is compared, one line for each registered item.

std::string text_of(const Vendor &vendor) {
    return fmt::format("vendor '{}', device '{}', dispatch key '{}', query '{}'", vendor.name, vendor.device_name,
                       vendor.dispatch_key, vendor.device_query_command);
}

std::string text_of(const DeviceProvider &provider) {
    return fmt::format("device '{}', type {}, stream '{}', flags {:#x}{}", provider.type, provider.table.dl_device_type,
                       provider.stream_type, provider.table.flags,
                       provider.table.stream_callback != nullptr ? ", stream_callback" : "");
}

std::string text_of(const OpDeclaration &declaration) {
    return fmt::format("op {}, doc '{}'", declaration.signature->text, declaration.doc);
}

std::string text_of(const Callbacks &callbacks) {
    std::string text;
    const auto add = [&](const char *name, bool present) { text += present ? fmt::format(" {}", name) : ""; };
    add("available", callbacks.available != nullptr);
    add("supports", callbacks.supports != nullptr);
    add("heuristic", callbacks.heuristic != nullptr);
    add("device_init", callbacks.device_init != nullptr);
    add("plan_create", callbacks.plan_create != nullptr);
    add("workspace_size", callbacks.workspace_size != nullptr);
    add("get_extension", callbacks.get_extension != nullptr);
    return text;
}

std::string text_of(const Implementation &one) {
    std::string text = fmt::format(
        "implementation '{}' of op '{}', kind {}, vendor '{}', device '{}', dtypes '{}', priority {}, alignment {}, "
        "flags {:#x}, required flags {:#x}, tune version {}, functions{}",
        one.impl_id, one.op, kind_name(one.kind), one.vendor, one.device, one.dtypes_text, one.priority, one.alignment,
        one.flags, one.required_flags, one.tune_version, text_of(one.registered));
    for (const std::string &architecture : one.architectures) {
        text += fmt::format(", architecture '{}'", architecture);
    }
    for (const Knob &knob : one.knobs) {
        text += fmt::format(", knob '{}' of type {} from {} to {}, {} by default, doc '{}', choices '{}'", knob.name,
                            knob.type, knob.minimum, knob.maximum, knob.default_value, knob.doc,
                            fmt::join(knob.choices, ","));
    }
    return text;
}

std::string text_of(const Shutdown & /*unused*/) {
    return "a shutdown function";
}

template<class T>
std::string text_of(const std::shared_ptr<T> &value) {
    return text_of(*value);
}

template<class T>
std::optional<std::string> first_difference(const std::vector<T> &before, const std::vector<T> &now) {
    for (size_t i = 0; i < std::max(before.size(), now.size()); ++i) {
        const std::string old_text = i < before.size() ? text_of(before[i]) : "nothing";
        const std::string new_text = i < now.size() ? text_of(now[i]) : "nothing";
        if (old_text != new_text) {
            return fmt::format("it registers\n  {}\nbut when it was scanned, it registered\n  {}", new_text, old_text);
        }
    }
    return {};
}

} // namespace

std::optional<std::string> find_difference(const Registration &before, const Registration &now) {
    std::optional<std::string> found = first_difference(before.vendors, now.vendors);
    const auto look_at = [&](const auto &old_list, const auto &new_list) {
        if (!found) {
            found = first_difference(old_list, new_list);
        }
    };
    look_at(before.devices, now.devices);
    look_at(before.ops, now.ops);
    look_at(before.implementations, now.implementations);
    look_at(before.shutdowns, now.shutdowns);
    return found;
}

} // namespace opdock::core
