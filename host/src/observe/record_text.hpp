// The record of a host's calls: a shapes file that plugin-tune, plugin-bench and plugin-check read.
#pragma once

#include <string>
#include <vector>

#include "observe/call_table.hpp"

namespace opdock::core {

// YAML within the limits of text/bounded_yaml.hpp. `calls`: as returned by CallTable::by_time; those
// that do not fit are counted in a comment.
std::string record_text(const std::vector<const CountedCall *> &calls);

} // namespace opdock::core
