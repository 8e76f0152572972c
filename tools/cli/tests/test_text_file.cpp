#include "cli/text_file.hpp"

#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "cli/written_file.hpp"
#include "temporary_directory.hpp"

using namespace opdock::cli;
using opdock::test::TemporaryDirectory;

namespace {

struct Pipe {
    TemporaryDirectory directory;
    std::string path = (directory.path() / "pipe").string();
    int writer = -1;

    Pipe() { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }
    ~Pipe() { close_writer(); }
    Pipe(const Pipe &) = delete;
    Pipe &operator=(const Pipe &) = delete;

    void open_writer() {
        writer = ::open(path.c_str(), O_RDWR | O_CLOEXEC); // O_RDWR does not wait for a reader
        REQUIRE(writer >= 0);
    }
    void write(const std::string &text) const {
        REQUIRE(::write(writer, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    void close_writer() {
        if (writer >= 0) {
            ::close(writer);
        }
        writer = -1;
    }
};

} // namespace

TEST_CASE("a pipe that nobody writes to is an error, and nobody waits for it") {
    const Pipe pipe;
    CHECK_THROWS_WITH_AS(read_text(pipe.path), (pipe.path + ": no process writes to this pipe").c_str(), Failure);
}

TEST_CASE("a pipe that somebody writes to is read to its end, however long they take") {
    Pipe pipe;
    pipe.open_writer();
    Input input(pipe.path);
    std::string text = "before ";
    std::thread reader([&] { input.read_rest(text, 1 << 20); });
    pipe.write("one ");
    pipe.write("two");
    pipe.close_writer();
    reader.join();
    CHECK(text == "before one two");
}

TEST_CASE("a pipe that nobody reads is an error, and one that somebody reads gets all") {
    const Pipe pipe;
    CHECK_THROWS_WITH_AS(write_output(pipe.path, true, "text"), (pipe.path + ": no process reads this pipe").c_str(),
                         Failure);
    const int reader = ::open(pipe.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    REQUIRE(reader >= 0);
    const std::string text(1 << 20, 'x'); // more than a pipe holds
    std::thread writer([&] { write_output(pipe.path, true, text); });
    std::string got;
    char piece[4096];
    while (got.size() < text.size()) {
        const ssize_t bytes = ::read(reader, piece, sizeof piece);
        if (bytes > 0) {
            got.append(piece, static_cast<size_t>(bytes));
        }
    }
    writer.join();
    ::close(reader);
    CHECK(got == text);
}

TEST_CASE("a device without an end is too long") {
    CHECK(read_text("/dev/null") == "");
    CHECK_THROWS_WITH_AS(read_text("/dev/ptmx"), "/dev/ptmx: it cannot be read; expected a file or a pipe", Failure);
    CHECK_THROWS_WITH_AS(read_text("/dev/zero"), "/dev/zero: is larger than 16 MiB", Failure);
}

TEST_CASE("a file is read whole, and one that is too long is an error") {
    const TemporaryDirectory directory;
    const std::string text(200'000, 'x');
    const std::string path = directory.write("text", text).string();
    CHECK(read_text(path) == text);
    CHECK_THROWS_WITH_AS(read_text(path, 100'000), (path + ": is larger than 0 MiB").c_str(), Failure);
    CHECK_THROWS_WITH_AS(read_text(directory.path().string()), doctest::Contains("this is a folder"), Failure);
    CHECK_THROWS_WITH_AS(read_text(path + ".absent"), (path + ".absent: No such file or directory").c_str(), Failure);
}

TEST_CASE("a large file is held once while it is read") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("text", std::string(200'000, 'x')).string();
    CHECK(read_text(path).capacity() < 210'000);
}
