// A plugin's note: its description of itself, and whether this host and machine accept it. opdock/abi/note.h documents
// each field.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/abi/version.h"

namespace opdock::core {

struct AbiVersion {
    std::uint32_t major = 0;
    std::uint32_t minor = 0;

    auto operator<=>(const AbiVersion &) const = default;
};

inline constexpr AbiVersion host_abi{OPDOCK_ABI_MAJOR, OPDOCK_ABI_MINOR};

std::string to_text(AbiVersion version); // "1.0"

struct Note {
    AbiVersion abi;
    AbiVersion oldest_host;
    std::string id;
    std::string version;
    std::string vendor;
    std::vector<std::string> devices;
    std::vector<std::string> cpu_features;
};

// Parses the note's payload. Throws Rejected: malformed_note, or abi_mismatch as soon as the ABI is known and `host`
// does not accept it, since a note for another ABI may differ in everything else.
Note parse_note(std::string_view plugin, std::string_view json, AbiVersion host);

// Returns why a host of ABI `host` rejects a plugin, or nullopt if it accepts the plugin.
std::optional<std::string> judge_abi(std::string_view plugin, AbiVersion built_for, AbiVersion oldest_host,
                                     AbiVersion host);

// Features of this machine's CPU, spelled as in /proc/cpuinfo.
const std::set<std::string> &machine_cpu_features();

// Returns why a machine with features `present` cannot run a plugin that needs `needed`, or nullopt if it can.
std::optional<std::string> judge_cpu_features(std::string_view plugin, const std::vector<std::string> &needed,
                                              const std::set<std::string> &present);

} // namespace opdock::core
