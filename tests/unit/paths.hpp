// Where a test finds what it reads. Functions, so that no other file compiles differently in another clone.
#pragma once

#include <filesystem>

namespace opdock::test {

std::filesystem::path fixtures_folder();
std::filesystem::path source_folder();

} // namespace opdock::test
