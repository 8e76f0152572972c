// Where this library was loaded from: what is installed beside it is found from there.
#pragma once

#include <filesystem>
#include <string>

namespace opdock::core {

// <libdir>; empty when it cannot be told.
std::filesystem::path library_directory();

// DT_RPATH of the program, in which the dynamic loader looks for libraries of all others without a RUNPATH too; with
// the program's folder in place of $ORIGIN. Empty when it has none, or a RUNPATH of its own, which is for itself alone.
const std::string &program_rpath();

} // namespace opdock::core
