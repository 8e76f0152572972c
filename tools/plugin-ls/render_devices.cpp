#include <cstdint>

#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "document.hpp"
#include "render.hpp"

namespace opdock::plugin_ls {
namespace {

using cli::Table;
using cli::Tint;
using nlohmann::json;

// "140 GiB"; "" if the provider does not report it.
std::string memory_text(uint64_t bytes) {
    const int shift = bytes >= uint64_t{1} << 30 ? 30 : 20;
    return bytes == 0
               ? ""
               : std::to_string((bytes + (uint64_t{1} << (shift - 1))) >> shift) + (shift == 30 ? " GiB" : " MiB");
}

} // namespace

std::string render_devices(const json &devices, const Page &page) {
    Table table;
    table.head({"device", "name", "architecture", "memory", "driver"});
    for (const json &device : devices) {
        if (device.contains("problem")) {
            table.row({{words(device.value("device", device.at("type"))), Tint::bad}});
            table.note(words(device.at("problem")));
            continue;
        }
        if (device.contains("device_query_command")) {
            table.row({{words(device.at("type"))}, {"'" + words(device.at("device_query_command")) + "' finds it"}});
            continue;
        }
        const auto driver = device.at("driver").get<std::string>();
        table.row({{words(device.at("device"))},
                   {words(device.at("name"))},
                   {words(device.at("architecture"))},
                   {memory_text(device.at("memory").get<uint64_t>())},
                   {driver, Tint::quiet}});
    }
    return table.text(page);
}

} // namespace opdock::plugin_ls
