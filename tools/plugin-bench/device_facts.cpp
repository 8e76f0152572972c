#include "device_facts.hpp"

#include <nlohmann/json.hpp>

#include "op-call/device.hpp"

namespace opdock::plugin_bench {

using nlohmann::json;

DeviceFacts facts_of(const Host &host, const std::string &text) {
    constexpr uint64_t usual_cache = uint64_t{32} << 20;
    const json record = op_call::device_record(host, text);
    const auto cache = record.at("cache").get<uint64_t>();
    return {host.device(text),
            record.at("device").get<std::string>(),
            record.at("name").get<std::string>(),
            record.at("architecture").get<std::string>(),
            record.at("driver").get<std::string>(),
            record.at("memory").get<uint64_t>(),
            cache != 0 ? cache : usual_cache};
}

} // namespace opdock::plugin_bench
