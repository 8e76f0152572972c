#include "inspect/library_versions.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <link.h>

#include "files/plugin_file.hpp"
#include "inspect/elf_dynamic.hpp"
#include "inspect/linkage.hpp"

using namespace opdock::core;

namespace {

// The versions that this process's C library defines, read from its file.
std::vector<std::string> versions_of_libc() {
    std::filesystem::path path;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *data) {
            const std::filesystem::path library = info->dlpi_name;
            if (library.filename() == "libc.so.6") {
                *static_cast<std::filesystem::path *>(data) = library;
            }
            return 0;
        },
        &path);
    return versions_defined(ElfImage(PluginFile(path)));
}

} // namespace

TEST_CASE("a loaded library lacks the versions that its file does not define, and another library lacks none") {
    LibraryVersions versions;
    for (const std::string &version : versions_of_libc()) {
        CHECK_FALSE(versions.lacks("libc.so.6", version));
    }
    CHECK(versions.lacks("libc.so.6", "GLIBC_2.999"));
    CHECK(versions.lacks("libc.so.6", "GLIBC_"));
    CHECK_FALSE(versions.lacks("libopdock_absent.so", "GLIBC_2.999"));
}

TEST_CASE("the newest version of a kind is the one that none of that kind is newer than, by number") {
    LibraryVersions versions;
    const std::string newest = versions.newest_like("libc.so.6", "GLIBC_2.999");
    const std::vector<std::string> all = versions_of_libc();
    CHECK(std::find(all.begin(), all.end(), newest) != all.end());
    size_t of_kind = 0;
    for (const std::string &version : all) {
        if (version.starts_with("GLIBC_2")) {
            ++of_kind;
            CAPTURE(version);
            CHECK_FALSE(is_older(newest, version));
        }
    }
    CHECK(of_kind > 1);
    CHECK(versions.newest_like("libc.so.6", "ACME_1.0") == "");
    CHECK(versions.newest_like("libc.so.6", "GLIBC_PRIVATE") == "GLIBC_PRIVATE");
    CHECK(versions.newest_like("libopdock_absent.so", "GLIBC_2.999") == "");
}
