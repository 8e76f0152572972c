// YAML from files that anybody may have written: a tree of plain values with positions, within limits that keep time
// and memory small whatever the text. No anchors, aliases, tags, second documents or duplicate keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opdock/opdock.h"

namespace opdock::core {

struct YamlNode {
    enum class Type { null, scalar, sequence, map };

    Type type = Type::null;
    std::size_t line = 1; // from 1, of the first character
    std::size_t column = 1;
    bool is_quoted = false;                             // of a scalar
    std::string text;                                   // of a scalar
    std::vector<YamlNode> items;                        // of a sequence
    std::vector<std::pair<YamlNode, YamlNode>> entries; // of a map; keys are scalars
};

// yaml-cpp takes up to 150 ns a byte, 0.5 us a flow indicator ([ ] { } ,) and holds a line in memory as tokens, so that
// 1 MiB of '[' would cost half a second and 240 MiB. With these limits no text costs 100 ms (RelWithDebInfo, one core).
inline constexpr std::size_t most_yaml_bytes = 512 * 1024;
inline constexpr std::size_t most_yaml_depth = 32;
inline constexpr std::size_t most_yaml_nodes = 100'000;
inline constexpr std::size_t most_yaml_lines = 100'000;
inline constexpr std::size_t most_yaml_line_bytes = 16 * 1024;
inline constexpr std::size_t most_yaml_flow_indicators = 16 * 1024;

// Throws Error(status) whose message begins with NAME:LINE:COLUMN.
YamlNode parse_bounded_yaml(std::string_view text, const std::string &name, opdock_status status);

} // namespace opdock::core
