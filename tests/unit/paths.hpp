// Paths of files that tests read. They are functions, so that no other file depends on the clone's location.
#pragma once

#include <filesystem>

namespace opdock::test {

std::filesystem::path fixtures_folder();
std::filesystem::path source_folder();

} // namespace opdock::test
