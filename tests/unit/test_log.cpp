#include "text/log.hpp"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "made_host.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::core;
using namespace opdock::test;

namespace {

// Text written to stderr during `work`.
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

constexpr std::string_view shape_of_time = "[0000-00-00 00:00:00.000Z] ";

// The lines without their time, which lies between `begin` and the next second.
std::string without_time(const std::string &text, time_t begin) {
    const auto second = [](time_t time) {
        tm parts = {};
        char written[32] = "";
        std::strftime(written, sizeof written, "[%Y-%m-%d %H:%M:%S", gmtime_r(&time, &parts));
        return std::string(written);
    };
    std::string rest;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::string time = line.substr(0, shape_of_time.size());
        const std::string to_second = time.substr(0, second(begin).size());
        CHECK(second(begin) <= to_second);
        CHECK(to_second <= second(std::time(nullptr)));
        std::replace_if(
            time.begin(), time.end(), [](unsigned char c) { return std::isdigit(c) != 0; }, '0');
        CHECK(time == shape_of_time);
        rest += line.substr(time.size()) + "\n";
    }
    return rest;
}

std::string number_of_thread() {
    return "[" + std::to_string(getpid()) + ":" + std::to_string(gettid()) + "] ";
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
    const time_t begin = std::time(nullptr);
    const std::string warning = "[opdock] [warning] " + number_of_thread();
    CHECK(without_time(on_stderr([&] { log.warning("one\ntwo"); }), begin) ==
          warning + "one\n" + warning + "    two\n");
    std::string beside;
    const std::string text =
        on_stderr([&] { std::thread([&] { log.error("short"), beside = number_of_thread(); }).join(); });
    CHECK(without_time(text, begin) == "[opdock] [error] " + beside + "short\n");
}

TEST_CASE("on a terminal the level has a colour, unless NO_COLOR says that none is wanted") {
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    REQUIRE(master >= 0);
    REQUIRE(grantpt(master) == 0);
    REQUIRE(unlockpt(master) == 0);
    const int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    REQUIRE(terminal >= 0);
    const int kept = dup(STDERR_FILENO);
    const auto seen = [&](const char *no_colour) {
        no_colour != nullptr ? setenv("NO_COLOR", no_colour, 1) : unsetenv("NO_COLOR");
        const Log log;
        dup2(terminal, STDERR_FILENO);
        log.warning("beware");
        dup2(kept, STDERR_FILENO);
        unsetenv("NO_COLOR");
        std::string text;
        pollfd there = {master, POLLIN, 0}; // the kernel passes the text on with a delay
        while (!contains(text, "\n") && poll(&there, 1, 60'000) == 1) {
            char piece[1024];
            text.append(piece, static_cast<size_t>(std::max<ssize_t>(read(master, piece, sizeof piece), 0)));
        }
        return text;
    };
    CHECK(contains(seen(nullptr), "[opdock] [\x1b[33mwarning\x1b[0m] ["));
    CHECK(contains(seen(""), "\x1b[33m"));
    CHECK(contains(seen("1"), "[opdock] [warning] ["));
    close(terminal);
    close(master);
    close(kept);
}

namespace {

// Counts signals that arrived while the pipe was full, and so interrupted its writer.
int watched_pipe = -1;
int watched_capacity = 0;
sem_t found_full;

void tell_when_full(int) {
    int there = 0;
    if (ioctl(watched_pipe, FIONREAD, &there) == 0 && there == watched_capacity) {
        sem_post(&found_full);
    }
}

} // namespace

TEST_CASE("a line of which stderr takes only a part at first is written to its last byte") {
    int flags = 0;
    int signals = 2; // the second one comes while nothing is being written any more
    SUBCASE("where signals interrupt what has written nothing yet") {}
    SUBCASE("where they do not") {
        flags = SA_RESTART;
        signals = 1;
    }
    int ends[2] = {};
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    watched_pipe = ends[0];
    watched_capacity = fcntl(ends[1], F_SETPIPE_SZ, 4096);
    REQUIRE(watched_capacity > 0);
    REQUIRE(sem_init(&found_full, 0, 0) == 0);
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, nullptr); // for the reader, which must not be interrupted
    std::string text;
    std::thread reader([&] {
        for (int i = 0; i < signals; ++i) {
            sem_wait(&found_full);
        }
        char piece[4096];
        for (ssize_t got = 1; got > 0 && !contains(text, "\n");) {
            got = read(ends[0], piece, sizeof piece);
            text.append(piece, static_cast<size_t>(std::max<ssize_t>(got, 0)));
        }
    });
    struct sigaction before = {};
    struct sigaction telling = {};
    telling.sa_handler = tell_when_full;
    telling.sa_flags = flags;
    REQUIRE(sigaction(SIGALRM, &telling, &before) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
    const std::string beginning = std::string(shape_of_time) + "[opdock] [warning] " + number_of_thread();
    const std::string message(static_cast<size_t>(watched_capacity) - beginning.size(), 'x'); // plus the line feed
    const int kept = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    const itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, nullptr);
    Log().warning(message);
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    for (int i = 0; i < signals; ++i) {
        sem_post(&found_full); // do not wait forever if a line was given up
    }
    dup2(kept, STDERR_FILENO); // ends the reader's pipe
    close(kept);
    reader.join();
    sigaction(SIGALRM, &before, nullptr);
    close(ends[0]);
    sem_destroy(&found_full);
    CHECK(text.size() == static_cast<size_t>(watched_capacity) + 1);
    CHECK(text.find('\n') == static_cast<size_t>(watched_capacity));
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
    log.info("one\ntwo");
    log.write(99, "most");
    CHECK(seen == std::to_string(OPDOCK_LOG_INFO) + " [opdock] [info] one\ntwo|" + std::to_string(OPDOCK_LOG_ERROR) +
                      " [opdock] [error] most|");
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
    // Also the text of an exception, and an exception without text.
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
