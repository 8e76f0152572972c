// Dynamic sections that no linker writes. What real plugins have is in test_inspect.cpp.
#include "elf_dynamic.hpp"

#include <doctest/doctest.h>

#include "dynamic_elf_file.hpp"
#include "reject.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::file_needing_versions;
using opdock::test::TemporaryDirectory;

namespace {

ElfDynamic read(const std::string &bytes) {
    const TemporaryDirectory directory;
    const PluginFile file(directory.write("libacme.so", bytes));
    return read_dynamic(ElfImage(file));
}

} // namespace

TEST_CASE("the versions that a file needs are read, but for the weak ones") {
    const ElfDynamic dynamic = read(file_needing_versions(2, 3, 0));
    REQUIRE(dynamic.versions.size() == 6);
    CHECK(dynamic.versions.back().library == "libc.so.6");
    CHECK(dynamic.versions.back().version == "GLIBC_2.2.5");
    CHECK(read(file_needing_versions(2, 3, VER_FLG_WEAK)).versions.empty());
}

TEST_CASE("a file that makes out to need millions of versions is rejected before they are read, weak ones as well") {
    const char *message = "it needs more than 4096 versions";
    CHECK_THROWS_WITH_AS(read(file_needing_versions(1, 4096, 0)), doctest::Contains(message), Rejected);
    CHECK_THROWS_WITH_AS(read(file_needing_versions(1, 4096, VER_FLG_WEAK)), doctest::Contains(message), Rejected);
    CHECK_THROWS_WITH_AS(read(file_needing_versions(4097, 0, 0)), doctest::Contains(message), Rejected);
    CHECK_NOTHROW(read(file_needing_versions(1, 4095, VER_FLG_WEAK)));
    CHECK_NOTHROW(read(file_needing_versions(4096, 0, 0)));
}
