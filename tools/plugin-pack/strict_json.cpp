#include "strict_json.hpp"

#include <nlohmann/json.hpp>

namespace opdock::plugin_pack {

void check_json(std::string_view text, const std::string &name, const core::JsonLimits &limits) {
    core::BoundedJson(text, name, OPDOCK_INVALID_ARGUMENT, limits).read();
}

nlohmann::json parse_json(std::string_view text, const std::string &name, const core::JsonLimits &limits) {
    check_json(text, name, limits);
    return nlohmann::json::parse(text);
}

} // namespace opdock::plugin_pack
