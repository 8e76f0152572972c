// Where this library was loaded from: what is installed beside it is found from there.
#pragma once

#include <filesystem>

namespace opdock::core {

// <libdir>; empty when it cannot be told.
std::filesystem::path library_directory();

} // namespace opdock::core
