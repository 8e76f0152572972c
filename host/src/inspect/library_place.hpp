// The location of this library, from which the files installed beside it are found.
#pragma once

#include <filesystem>
#include <string>

namespace opdock::core {

// <libdir>; empty if it cannot be determined.
std::filesystem::path library_directory();

// DT_RPATH of the program, with its folder in place of $ORIGIN. The dynamic loader also uses it for the libraries of
// all files without a RUNPATH. Empty if there is none, or if the program has a RUNPATH, which is for itself only.
const std::string &program_rpath();

} // namespace opdock::core
