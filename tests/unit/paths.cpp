#include "paths.hpp"

std::filesystem::path opdock::test::fixtures_folder() {
    return OPDOCK_FIXTURES;
}

std::filesystem::path opdock::test::source_folder() {
    return OPDOCK_SOURCE_DIR;
}
