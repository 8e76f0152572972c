#include "files/replace_file.hpp"

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

namespace {

std::string text_of(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t files_in(const std::filesystem::path &folder) {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

} // namespace

TEST_CASE("a file is made and replaced as a whole, and nothing else stays beside it") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() / "file";
    CHECK(replace_file(path, "first").empty());
    CHECK(text_of(path) == "first");
    CHECK(replace_file(path, "").empty());
    CHECK(text_of(path).empty());
    CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("whoever reads a file while it is replaced meets one of the two") {
    const TemporaryDirectory directory;
    const std::string path = directory.path() / "file";
    const std::string one(100'000, 'a');
    const std::string other(70'000, 'b');
    REQUIRE(replace_file(path, one).empty());
    std::atomic<bool> done{false};
    std::thread writing([&] {
        for (int i = 0; i < 200; ++i) {
            (void)replace_file(path, i % 2 == 0 ? other : one);
        }
        done = true;
    });
    while (!done) {
        const std::string met = text_of(path);
        CHECK((met == one || met == other));
    }
    writing.join();
}

TEST_CASE("what a killed process left behind is in nobody's way") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("file", "old");
    directory.write("file.new-" + std::to_string(gettid()), "half of it");
    CHECK(replace_file(path, "new").empty());
    CHECK(text_of(path) == "new");
    CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("a file that cannot be written stays what it was, and the reason comes back") {
    const TemporaryDirectory directory;
    const std::string missing = directory.path() / "none/file";
    CHECK(replace_file(missing, "x") == "'" + missing + "' cannot be written: No such file or directory");

    const std::string path = directory.write("file", "old");
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit little{4, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &little);
    const std::string why = replace_file(path, "more than four bytes"); // as on a full disk
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(why == "'" + path + "' cannot be written: File too large");
    CHECK(text_of(path) == "old");
    CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("a private file is its owner's alone, and has its pieces one behind the other") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("file", "old");
    const std::string_view pieces[] = {"one ", "", "two"};
    CHECK(replace_private_file(path, pieces).empty());
    CHECK(text_of(path) == "one two");
    CHECK((std::filesystem::status(path).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
    CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("links and what is no regular file are not replaced") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("file", "old");
    const std::string link = directory.path() / "link";
    std::filesystem::create_symlink(file, link);
    const std::string fifo = directory.path() / "fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    for (const std::string &path : {link, fifo, std::string("/dev/null"), directory.path().string()}) {
        CHECK(replace_file(path, "new") ==
              "'" + path + "' is not written: it is not a regular file; specify a regular file or an unused name");
    }
    CHECK(text_of(link) == "old");
}
