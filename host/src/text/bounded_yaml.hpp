// YAML from untrusted files: a tree of plain values with positions, within limits that bound time and memory for any
// text. Aliases become copies of their anchors' values, with those values' positions, and count like written text; "<<"
// merges the entries of a map. No tags, second documents or duplicate keys.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "opdock/opdock.h"

namespace opdock::core {

struct YamlEntry;

struct YamlNode {
    enum class Type { null, scalar, sequence, map };

    Type type = Type::null;
    std::size_t line = 1; // position of the first character, from 1
    std::size_t column = 1;
    bool is_quoted = false;         // of a scalar
    std::string text;               // of a scalar
    std::vector<YamlNode> items;    // of a sequence
    std::vector<YamlEntry> entries; // of a map
};

struct YamlEntry {
    YamlNode key; // a scalar
    YamlNode value;
};

// yaml-cpp takes up to 200 ns per byte and 2 us per value, scans a bracket's whole list before the first event, and
// keeps a line in memory as tokens: 1 MiB of '[' costs half a second and 240 MiB, 100,000 plain values 170 ms. With
// these limits the worst text found costs 40 ms (RelWithDebInfo, one core); real policies stay below a hundredth of the
// limits.
inline constexpr std::size_t most_yaml_bytes = std::size_t{256} * 1024;
inline constexpr std::size_t most_yaml_depth = 32;
inline constexpr std::size_t most_yaml_nodes = 20'000;
inline constexpr std::size_t most_yaml_lines = 40'000;
inline constexpr std::size_t most_yaml_line_bytes = std::size_t{16} * 1024;
inline constexpr std::size_t most_yaml_key_bytes = 240; // escaped, below YAML's limit of 1,024 characters for a key
inline constexpr std::size_t most_yaml_flow_indicators = std::size_t{16} * 1024;

// Throws Error(status); the message starts with NAME:LINE:COLUMN.
YamlNode parse_bounded_yaml(std::string_view text, const std::string &name, opdock_status status);

} // namespace opdock::core
