#include "op-call/device.hpp"

#include "cli/exit.hpp"

namespace opdock::op_call {

using nlohmann::json;

FoundDevice find_device(const Host &host, const std::string &text) {
    const size_t colon = text.find(':');
    const std::string type = text.substr(0, colon);
    const std::string device = colon == std::string::npos ? text + ":0" : text;
    std::string there;
    for (json &one : json::parse(host.devices())) {
        if (one.at("type") != type) {
            continue;
        }
        const bool is_it = one.value("device", device) == device; // an unusable type has no "device"
        if (const auto problem = one.find("problem"); is_it && problem != one.end()) {
            return {nullptr, problem->get<std::string>()};
        }
        if (!one.contains("device")) { // found by a vendor's command, but no plugin provides its memory
            continue;
        }
        if (is_it) {
            return {std::move(one), ""};
        }
        there += (there.empty() ? "" : ", ") + one.at("device").get<std::string>();
    }
    if (there.empty()) {
        (void)host.device(text); // throws if it is not the name of a device
        return {nullptr, "no plugin provides devices of this type"};
    }
    return {nullptr, "the available devices are " + there};
}

json device_record(const Host &host, const std::string &text) {
    FoundDevice found = find_device(host, text);
    if (found.record.is_null()) {
        throw cli::Failure("there is no device " + text + ": " + found.problem);
    }
    return std::move(found.record);
}

} // namespace opdock::op_call
