#include "files/bounded_file.hpp"

#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::TemporaryDirectory;
using opdock::test::thrown_by;

namespace {

std::string read(const std::filesystem::path &path, std::size_t most_bytes = most_file_bytes) {
    return read_bounded_file(path.string(), OPDOCK_INVALID_POLICY, most_bytes);
}

} // namespace

TEST_CASE("a configuration file is read whole, up to its limit") {
    const TemporaryDirectory directory;
    CHECK(read(directory.write("empty", "")).empty());
    CHECK(read(directory.write("file", std::string_view("a\0b\n", 4))) == std::string("a\0b\n", 4));
    const std::string longest(std::size_t{1} << 20, 'x');
    CHECK(read(directory.write("longest", longest)) == longest);
}

TEST_CASE("a file beyond the limit is an error that says where the limit is") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("file", "abc\ndefg\nh").string();
    CHECK(message_of([&] { read(path, 6); }) == path + ":2:3: the file is longer than 6 bytes; shorten it");
    CHECK(message_of([&] { read(path, 3); }) == path + ":1:4: the file is longer than 3 bytes; shorten it");
    CHECK(message_of([&] { read(path, 4); }) == path + ":2:1: the file is longer than 4 bytes; shorten it");
}

TEST_CASE("a huge sparse file is refused without reading it all") {
    const TemporaryDirectory directory;
    const std::filesystem::path path = directory.write("huge", "");
    std::filesystem::resize_file(path, std::uintmax_t(1) << 40);
    CHECK(thrown_by([&] { read(path); }).status() == OPDOCK_INVALID_POLICY);
}

TEST_CASE("what is no regular file is refused without blocking") {
    const TemporaryDirectory directory;
    const std::filesystem::path fifo = directory.path() / "fifo";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    CHECK(message_of([&] { read(fifo); }) == fifo.string() + ": expected a regular file");
    CHECK(message_of([&] { read(directory.path()); }) == directory.path().string() + ": expected a regular file");
    CHECK(message_of([] { read("/dev/zero"); }) == "/dev/zero: expected a regular file");
}

TEST_CASE("a file that is not there is an error with the system's reason") {
    const TemporaryDirectory directory;
    const std::string path = (directory.path() / "none").string();
    const Error error = thrown_by([&] { read_bounded_file(path, OPDOCK_LOAD_FAILED); });
    CHECK(error.status() == OPDOCK_LOAD_FAILED);
    CHECK(std::string(error.what()) == path + ": cannot open: No such file or directory");
}
