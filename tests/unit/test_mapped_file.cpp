#include "load/mapped_file.hpp"

#include <cerrno>
#include <filesystem>
#include <new>

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/reject.hpp"
#include "mappings.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::is_mapped;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path mapped_fixture = opdock::test::fixtures_folder() / "libgood.so";

// A copy of a fixture, opened.
struct OpenedCopy {
    explicit OpenedCopy(const TemporaryDirectory &directory, const std::string &name = "liba.so")
        : path(directory.path() / name) {
        std::filesystem::copy_file(mapped_fixture, path);
        handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        REQUIRE(handle != nullptr);
    }
    OpenedCopy(const OpenedCopy &) = delete;
    OpenedCopy &operator=(const OpenedCopy &) = delete;
    ~OpenedCopy() { dlclose(handle); }

    std::filesystem::path path;
    void *handle = nullptr;
};

} // namespace

TEST_CASE("the file that was opened is told from a copy of it, whatever errno was before") {
    const TemporaryDirectory directory;
    const OpenedCopy opened(directory);
    const MappedFile same{PluginFile(opened.path)}, copy{PluginFile(mapped_fixture)};
    for (const int before : {0, ENOENT, ENOMEM}) {
        CAPTURE(before);
        errno = before;
        CHECK(same.is_what_was_loaded(opened.handle));
        errno = before;
        CHECK_FALSE(copy.is_what_was_loaded(opened.handle));
    }
}

TEST_CASE("of two files that were opened, one after the other, each is known") {
    const TemporaryDirectory directory;
    const OpenedCopy first(directory, "libfirst.so"), second(directory, "libsecond.so");
    const MappedFile of_first{PluginFile(first.path)}, of_second{PluginFile(second.path)};
    CHECK(of_first.is_what_was_loaded(first.handle));
    CHECK(of_second.is_what_was_loaded(second.handle));
    CHECK_FALSE(of_first.is_what_was_loaded(second.handle));
    CHECK_FALSE(of_second.is_what_was_loaded(first.handle));
}

TEST_CASE("a file is known by the name of a line that is longer than others") {
    const TemporaryDirectory directory;
    std::filesystem::path folder = directory.path();
    for (int i = 0; i < 4; ++i) {
        folder /= std::string(250, 'x');
    }
    std::filesystem::create_directories(folder);
    const std::filesystem::path path = folder / "liblong.so";
    std::filesystem::copy_file(mapped_fixture, path);
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != nullptr);
    CHECK(MappedFile{PluginFile(path)}.is_what_was_loaded(handle));
    CHECK(name_of_loaded(handle) == path.string());
    dlclose(handle);
}

TEST_CASE("a file is mapped as long as somebody asks for what was loaded, and one that cannot be is told") {
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.path() / "liba.so";
    std::filesystem::copy_file(mapped_fixture, path);
    {
        const MappedFile mapped{PluginFile(path)};
        CHECK(is_mapped(path.string()));
    }
    CHECK_FALSE(is_mapped(path.string()));
    CHECK_THROWS_WITH_AS(MappedFile(PluginFile("/proc/self/status")), doctest::Contains("cannot be mapped into memory"),
                         Rejected);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they need memory of their own
TEST_CASE("that there is no memory to map a file is no word about the file") {
    const PluginFile file(mapped_fixture);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const rlimit nothing = {1, 1};
        try {
            _exit(setrlimit(RLIMIT_AS, &nothing) != 0 || MappedFile(file).is_what_was_loaded(nullptr) ? 1 : 2);
        } catch (const std::bad_alloc &) {
            _exit(0);
        } catch (...) {
            _exit(3);
        }
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
#endif
