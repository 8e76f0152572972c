// YAML from files that anybody may have written: a tree of plain values with positions, within limits that keep time
// and memory small whatever the text. Aliases become copies of what their anchors name, with its positions, and count
// like text that is written out; "<<" takes in the entries of a map. No tags, second documents or duplicate keys.
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
    std::size_t line = 1; // from 1, of the first character
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

// yaml-cpp takes up to 200 ns for a byte and 2 us for a value, scans a bracket's whole list before the first event, and
// keeps a line in memory as tokens: 1 MiB of '[' costs half a second and 240 MiB, 100,000 plain values 170 ms. With
// these limits the worst text found costs 40 ms (RelWithDebInfo, one core); the largest policy anybody writes is a
// hundredth.
inline constexpr std::size_t most_yaml_bytes = std::size_t{256} * 1024;
inline constexpr std::size_t most_yaml_depth = 32;
inline constexpr std::size_t most_yaml_nodes = 20'000;
inline constexpr std::size_t most_yaml_lines = 40'000;
inline constexpr std::size_t most_yaml_line_bytes = std::size_t{16} * 1024;
inline constexpr std::size_t most_yaml_key_bytes = 240; // escaped, not more than the 1,024 that YAML has for a key
inline constexpr std::size_t most_yaml_flow_indicators = std::size_t{16} * 1024;

// Throws Error(status) whose message begins with NAME:LINE:COLUMN.
YamlNode parse_bounded_yaml(std::string_view text, const std::string &name, opdock_status status);

} // namespace opdock::core
