#include "text/log.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "made_host.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::core;
using namespace opdock::test;

namespace {

// What stderr is given meanwhile.
template<class Work>
std::string on_stderr(Work work) {
    const TemporaryDirectory folder;
    const std::string file = (folder.path() / "stderr").string();
    const int kept = dup(STDERR_FILENO);
    const int opened = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(opened >= 0);
    dup2(opened, STDERR_FILENO);
    work();
    dup2(kept, STDERR_FILENO);
    std::string text(static_cast<size_t>(lseek(opened, 0, SEEK_END)), '\0');
    CHECK(pread(opened, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    close(opened);
    close(kept);
    return text;
}

constexpr const char *hostile = "a\x1b]0;title\x07 \xc2\x9b"
                                "2J \u202e \xff\r\tb";
constexpr const char *shown = "a\\x1b]0;title\\x07 \\u009b2J \\u202e \\xff\\x0d\\x09b";

} // namespace

TEST_CASE("what is logged cannot steer a terminal, on stderr or in a program's callback") {
    CHECK(contains(on_stderr([] { Log().warning(hostile); }), shown));
    std::vector<std::string> lines;
    const Log log(
        [](void *to, int32_t, const char *line) { static_cast<std::vector<std::string> *>(to)->emplace_back(line); },
        &lines);
    log.warning(hostile);
    REQUIRE(lines.size() == 1);
    CHECK(contains(lines[0], shown));
}

TEST_CASE("without a callback the log goes to stderr, with its beginning before each line of a message") {
    const Log log;
    CHECK(on_stderr([&] { log.write(OPDOCK_LOG_WARNING, "one\ntwo", "/src/host.cpp", 12); }) ==
          "[opdock host.cpp:12 WARNING] one\n[opdock host.cpp:12 WARNING]     two\n");
    CHECK(on_stderr([&] { log.write(OPDOCK_LOG_ERROR, "short", "host.cpp", 7); }) ==
          "[opdock host.cpp:7 ERROR] short\n");
}

TEST_CASE("lines below the level of the log are dropped, and whoever asks is told") {
    Log log;
    CHECK(log.writes(OPDOCK_LOG_INFO));
    CHECK_FALSE(log.writes(OPDOCK_LOG_DEBUG));
    log.set_level(OPDOCK_LOG_WARNING);
    CHECK(log.writes(OPDOCK_LOG_WARNING));
    CHECK_FALSE(log.writes(OPDOCK_LOG_INFO));
    CHECK(on_stderr([&] { log.info("dropped"); }).empty());
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

TEST_CASE("the name of a rejected file stands in the log as it is safe to show") {
    const TemporaryDirectory folder;
    const std::string file = folder.write("\x1b]0;pwned\x07\u202e.so", "no plugin").string();
    MadeHost host(RawEnvironment{{"PLUGIN_MODULES", file}});
    CHECK(host.logged("\\x1b]0;pwned\\x07\\u202e.so' rejected") == 1);
    CHECK(host.logged("\x1b") == 0);
    CHECK(host.logged("\u202e") == 0);
}

TEST_CASE("what a plugin says is one line, and so is each message that quotes it") {
    constexpr const char *forged = "x\nPlugin 'libcpu.so' rejected\r\nagain";
    constexpr const char *escaped = "x\\x0aPlugin 'libcpu.so' rejected\\x0d\\x0aagain";
    MadeHost host;
    const std::string why = message_of([&] {
        host.module("talks", [&](opdock_registry *registry) {
            registry->host->log(registry->host, OPDOCK_LOG_WARNING, forged);
            return registry->fail(registry, OPDOCK_FAILED, forged);
        });
    });
    CHECK(contains(why, escaped));
    CHECK(host.logged(escaped) == 1);
    CHECK(host.logged("\n") == 0);

    Made &made = host.add("default.one", OPDOCK_KIND_DEFAULT);
    Rows rows;
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        return problem.host->fail(problem.host, OPDOCK_INVALID_ARGUMENT, forged);
    };
    CHECK(rows.added(host.op()) < 0);
    CHECK(contains(last_error(), escaped));
    CHECK_FALSE(contains(last_error(), "\n"));
    made.work = [&](const opdock_problem &, const opdock_call &) -> opdock_status { throw std::runtime_error(forged); };
    rows.added(host.op());
    CHECK(contains(last_error(), std::string("it threw: ") + escaped));
    CHECK(host.logged("\nPlugin") == 0);

    CHECK(message_of([&] {
              host.module("throws", [&](opdock_registry *) -> opdock_status { throw std::runtime_error(forged); });
          }).find(escaped) != std::string::npos);
}

TEST_CASE("what a plugin says has an end") {
    MadeHost host;
    Made &made = host.add("default.one", OPDOCK_KIND_DEFAULT);
    const std::string endless(1 << 20, 'x');
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        return problem.host->fail(problem.host, OPDOCK_INVALID_ARGUMENT, endless.c_str());
    };
    Rows rows;
    rows.added(host.op());
    CHECK(std::string_view(last_error()).size() < 70'000);
    // An exception's words too, and one that has none.
    made.work = [&](const opdock_problem & /*problem*/, const opdock_call & /*call*/) -> opdock_status {
        throw std::runtime_error(endless);
    };
    rows.added(host.op());
    CHECK(std::string_view(last_error()).size() < 70'000);
    struct Speechless : std::exception {
        const char *what() const noexcept override { return nullptr; }
    };
    made.work = [](const opdock_problem & /*problem*/, const opdock_call & /*call*/) -> opdock_status {
        throw Speechless();
    };
    rows.added(host.op());
    CHECK(contains(last_error(), "it threw: "));
}

TEST_CASE("a message of a plugin has 64 KiB to its last byte, and what is longer is cut there") {
    MadeHost host;
    Made &made = host.add("default.one", OPDOCK_KIND_DEFAULT);
    std::string text;
    made.work = [&](const opdock_problem &problem, const opdock_call &) {
        return problem.host->fail(problem.host, OPDOCK_INVALID_ARGUMENT, text.c_str());
    };
    Rows rows;
    const auto kept = [&](size_t size) {
        text = std::string(size, '~');
        rows.added(host.op());
        const std::string said = last_error();
        return std::count(said.begin(), said.end(), '~');
    };
    CHECK(kept(65535) == 65535);
    CHECK(kept(65536) == 65536);
    CHECK(kept(65537) == 65536);
}
