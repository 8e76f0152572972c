// The record of a host's calls: a file of shapes as plugin-tune, plugin-bench and plugin-check read it.
#pragma once

#include <string>
#include <vector>

#include "observe/call_table.hpp"

namespace opdock::core {

// YAML, within the limits that text/bounded_yaml.hpp has. `calls` are those of CallTable::by_time; those for which
// there is no room are counted in a comment.
std::string record_text(const std::vector<const CountedCall *> &calls);

} // namespace opdock::core
