// Dynamic sections that no linker writes. What real plugins have is in test_inspect.cpp.
#include "inspect/elf_dynamic.hpp"

#include <ctime>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "dynamic_elf_file.hpp"
#include "files/reject.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::file_needing_versions;
using opdock::test::file_with_symbols;
using opdock::test::TemporaryDirectory;

namespace {

template<class Read>
auto with_image(const std::string &bytes, Read read) {
    const TemporaryDirectory directory;
    const PluginFile file(directory.write("libacme.so", bytes));
    return read(ElfImage(file));
}

ElfDynamic read(const std::string &bytes) {
    return with_image(bytes, [](const ElfImage &image) { return read_dynamic(image); });
}

bool exports_entry(const std::string &bytes) {
    return with_image(bytes, [](const ElfImage &image) { return exports_function(image, "opdock_register"); });
}

double cpu_seconds() {
    timespec now = {};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
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

TEST_CASE("a symbol is found among others by its whole name") {
    CHECK(exports_entry(file_with_symbols({"other", "opdock_register"}, 3, false)));
    CHECK_FALSE(exports_entry(file_with_symbols({"opdock_registe", "opdock_register_", "register"}, 4, false)));
    CHECK_FALSE(exports_entry(file_with_symbols({}, 1, false)));
}

TEST_CASE("a table of symbols that goes round in circles is left after as many steps as the file has room for") {
    // 4 KiB that say there are four thousand million symbols, with names as long as they may be.
    const std::string circle = file_with_symbols({std::string(4000, 'x')}, 0xffffffff, true);
    const double begin = cpu_seconds();
    CHECK_THROWS_WITH_AS(exports_entry(circle), doctest::Contains("its table of symbols has no end"), Rejected);
    CHECK(cpu_seconds() - begin < 2); // it took minutes
}

TEST_CASE("symbols that a file uses are listed, unless their names are longer than anybody's") {
    const auto undefined = [](const std::string &bytes) {
        return with_image(bytes, [](const ElfImage &image) { return undefined_symbols(image); });
    };
    CHECK(undefined(file_with_symbols({"one", "two"}, 3, false, SHN_UNDEF)) == std::vector<std::string>{"one", "two"});
    const std::vector<std::string> many(8000, std::string(4000, 'x'));
    CHECK_THROWS_WITH_AS(undefined(file_with_symbols(many, 8001, false, SHN_UNDEF)),
                         doctest::Contains("the names of the symbols that it uses are longer than"), Rejected);
}
