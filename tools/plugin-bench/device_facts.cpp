#include "device_facts.hpp"

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/suggest.hpp"

namespace opdock::plugin_bench {

using nlohmann::json;

DeviceFacts facts_of(const Host &host, const std::string &text) {
    constexpr uint64_t usual_cache = uint64_t{32} << 20;
    const DLDevice device = host.device(text);
    const std::string name = text.substr(0, text.find(':')) + ":" + std::to_string(device.device_id);
    std::string there, reasons;
    for (const json &one : json::parse(host.devices())) {
        const auto found = one.value("device", std::string());
        if (cli::same_name(found, name)) {
            const auto cache = one.at("cache").get<uint64_t>();
            return {device,
                    found,
                    one.at("name").get<std::string>(),
                    one.at("architecture").get<std::string>(),
                    one.at("driver").get<std::string>(),
                    one.at("memory").get<uint64_t>(),
                    cache != 0 ? cache : usual_cache};
        }
        if (found.empty()) {
            reasons += "; " + one.value("kind", std::string()) + ": " + one.value("problem", std::string());
        } else {
            there += (there.empty() ? "" : ", ") + found;
        }
    }
    throw cli::Failure("--device " + text + ": there is no such device; there are: " + there + reasons);
}

} // namespace opdock::plugin_bench
