#include "text/log.hpp"

#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

using namespace opdock::core;

namespace {

// What `work` writes to stderr.
template<class Work>
std::string written_by(Work work) {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const int before = dup(STDERR_FILENO);
    REQUIRE(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    work();
    dup2(before, STDERR_FILENO);
    close(before);
    close(ends[1]);
    std::string text(4096, '\0');
    const ssize_t size = read(ends[0], text.data(), text.size());
    close(ends[0]);
    text.resize(size > 0 ? static_cast<size_t>(size) : 0);
    return text;
}

} // namespace

TEST_CASE("without a callback the log goes to stderr, with its beginning before each line of a message") {
    const Log log;
    CHECK(written_by([&] { log.write(OPDOCK_LOG_WARNING, "one\ntwo", "/src/host.cpp", 12); }) ==
          "[opdock host.cpp:12 WARNING] one\n[opdock host.cpp:12 WARNING] two\n");
    CHECK(written_by([&] { log.write(OPDOCK_LOG_ERROR, "short", "host.cpp", 7); }) ==
          "[opdock host.cpp:7 ERROR] short\n");
}

TEST_CASE("lines below the level of the log are dropped, and whoever asks is told") {
    Log log;
    CHECK(log.writes(OPDOCK_LOG_INFO));
    CHECK_FALSE(log.writes(OPDOCK_LOG_DEBUG));
    log.set_level(OPDOCK_LOG_WARNING);
    CHECK(log.writes(OPDOCK_LOG_WARNING));
    CHECK_FALSE(log.writes(OPDOCK_LOG_INFO));
    CHECK(written_by([&] { log.info("dropped"); }).empty());
}

TEST_CASE("a callback is given each message whole, with its level") {
    std::string seen;
    const Log log(
        [](void *self, int32_t level, const char *line) {
            *static_cast<std::string *>(self) += std::to_string(level) + " " + line + "|";
        },
        &seen);
    log.write(OPDOCK_LOG_INFO, "one\ntwo", "a/b/memo.cpp", 3);
    log.write(99, "most", "memo.cpp", 4);
    CHECK(seen == std::to_string(OPDOCK_LOG_INFO) + " [opdock memo.cpp:3 INFO] one\ntwo|" +
                      std::to_string(OPDOCK_LOG_ERROR) + " [opdock memo.cpp:4 ERROR] most|");
}
