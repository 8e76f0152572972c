// A file of shapes to measure: a list of calls, written by hand or recorded by a host (PLUGIN_RECORD).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "op-call/subject.hpp"

namespace opdock::op_call {

// Throws cli::Failure for the first error; its message begins with NAME:LINE:COLUMN. Texts of any size and depth are
// safe.
std::vector<Subject> parse_shapes(std::string_view text, const std::string &name);

std::vector<Subject> read_shapes(const std::string &path);

// The type of the device that a tool runs on: `given`, or else the device of the first recorded call in the file, or
// else the CPU. `path` may be empty.
std::string device_for(const std::string &given, const std::string &path);

} // namespace opdock::op_call
