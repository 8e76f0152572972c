// A file of shapes to measure: a list of calls, which somebody wrote or a host recorded (PLUGIN_RECORD).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "op-call/subject.hpp"

namespace opdock::op_call {

// Throws cli::Failure whose message begins with NAME:LINE:COLUMN, for the first thing that is wrong. Texts of any size
// and depth are safe to give.
std::vector<Subject> parse_shapes(std::string_view text, const std::string &name);

std::vector<Subject> read_shapes(const std::string &path);

// The type of the device that a tool runs on: `given`, that which the first recorded call of the file ran on, or the
// CPU. `path` may be empty.
std::string device_for(const std::string &given, const std::string &path);

} // namespace opdock::op_call
