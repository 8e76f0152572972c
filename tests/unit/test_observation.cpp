// The file of METRICS and the tables of REPORT, as hosts write them.
#include "host/observation.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "host/serving_table.hpp"
#include "made_host.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::RawEnvironment;

namespace {

std::string text_of(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// The calls that default.one served according to a metrics file; nothing if the file is incomplete.
std::optional<int> served_in(const std::filesystem::path &path) {
    const std::string text = text_of(path);
    const std::string line =
        R"(opdock_served_total{op="test.add",implementation="default.one",plugin="module-1",vendor=""} )";
    const auto at = text.find(line);
    return text.ends_with("\n# EOF\n") && at != std::string::npos
               ? std::optional(std::stoi(text.substr(at + line.size())))
               : std::nullopt;
}

RawEnvironment metrics(const std::string &value) {
    return {{"PLUGIN_METRICS", value}};
}
RawEnvironment report(const std::string &value) {
    return {{"PLUGIN_REPORT", value}};
}

// A host with an implementation that was called `calls` times.
struct Called {
    explicit Called(const RawEnvironment &environment, int calls = 3) : host(environment) {
        host.add("default.one", OPDOCK_KIND_DEFAULT, {}, 1);
        call(calls);
    }
    void call(int calls) {
        Rows rows;
        for (int i = 0; i < calls; ++i) {
            CHECK(rows.added(host.op()) == 1);
        }
    }

    MadeHost host;
};

// The exit status of a child that ran `work` and then called exit().
template<class Work>
int in_child(Work work) {
    std::fflush(stdout); // otherwise the child prints it too
    const pid_t child = fork();
    if (child == 0) {
        alarm(60); // a child that hangs is killed, and the test fails
        work();
        std::exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

// Collects the text written to stderr during its lifetime.
class Stderr {
  public:
    Stderr() : file_(directory_.path() / "stderr"), before_(dup(STDERR_FILENO)) {
        const int to = open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        dup2(to, STDERR_FILENO);
        close(to);
    }
    ~Stderr() {
        dup2(before_, STDERR_FILENO);
        close(before_);
    }
    Stderr(const Stderr &) = delete;
    Stderr &operator=(const Stderr &) = delete;

    std::string text() const { return text_of(file_); }

  private:
    const TemporaryDirectory directory_;
    const std::filesystem::path file_;
    const int before_;
};

std::string head(const std::string &what) {
    return "[opdock] process " + std::to_string(getpid()) + ": " + what + "\n";
}

} // namespace

TEST_CASE("the file of METRICS is written when the host is closed") {
    const TemporaryDirectory directory;
    const std::string file = directory.path() / "opdock.prom";
    {
        const Called called(metrics(file));
        CHECK_FALSE(std::filesystem::exists(file)); // not before ten seconds have passed
    }
    CHECK(served_in(file) == 3);
}

TEST_CASE("the file of METRICS is written at its interval") {
    const TemporaryDirectory directory;
    const std::string file = directory.path() / "opdock.prom";
    Called called(metrics(file + ",1ms"));
    while (served_in(file) != 3) {
        std::this_thread::yield();
    }
    called.call(2);
    while (served_in(file) != 5) {
        std::this_thread::yield();
    }
}

// AddressSanitizer's leak check at the child's exit reports the parent's allocations. Neither sanitizer supports
// threads in the child of a process that has several.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST_CASE("each process has a file where the name has %p, and a forked child none of its own otherwise") {
    const TemporaryDirectory directory;
    const std::string shared = directory.path() / "shared.prom";
    {
        Called called(metrics(shared));
        CHECK(in_child([&] { called.call(7); }) == 0);
        CHECK_FALSE(std::filesystem::exists(shared));
    }
    CHECK(served_in(shared) == 3);

    Called called(metrics(directory.path() / "own-%p.prom"));
    CHECK(in_child([&] { called.call(7); }) == 0);
    CHECK(in_child([] {}) == 0); // it called nothing, so it has no file
    std::vector<std::filesystem::path> files;
    for (const auto &entry : std::filesystem::directory_iterator(directory.path())) {
        if (entry.path() != shared) {
            files.push_back(entry.path());
        }
    }
    REQUIRE(files.size() == 1);
    CHECK(served_in(files.front()) == 7);
}

TEST_CASE("a forked child writes its file at the interval, from its first call on") {
    const TemporaryDirectory directory;
    Called called(metrics((directory.path() / "own-%p.prom,1ms").string()));
    CHECK(in_child([&] {
              called.call(7);
              const auto file = directory.path() / ("own-" + std::to_string(getpid()) + ".prom");
              while (served_in(file) != 7) {
                  std::this_thread::yield();
              }
              _exit(0); // writes nothing
          }) == 0);
}
#endif

TEST_CASE("a process that exits without closing its host writes the file") {
    const TemporaryDirectory directory;
    const std::string file = directory.path() / "opdock.prom";
    CHECK(in_child([&] { new Called(metrics(file)); }) == 0);
    CHECK(served_in(file) == 3);
}

TEST_CASE("a process that is killed at any moment leaves a whole file") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "opdock.prom";
    for (int round = 0; round < 10; ++round) {
        std::filesystem::remove(file);
        const pid_t child = fork();
        if (child == 0) {
            alarm(60);
            Called called(metrics(file.string() + ",0.01ms"));
            for (;;) {
                called.call(1);
            }
        }
        while (!served_in(file)) {
            std::this_thread::yield();
        }
        for (int i = 0; i < 100 * round; ++i) { // at another moment each time
            CHECK(served_in(file));
        }
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status));
        CHECK(served_in(file));
    }
}

TEST_CASE("a file that cannot be written is one warning, and calls go on") {
    const TemporaryDirectory directory;
    const std::string missing = directory.path() / "none/opdock.prom";
    Called called(metrics(missing + ",1ms"));
    while (called.host.logged("The file of call counters is not up to date") == 0) {
        std::this_thread::yield();
    }
    called.call(100);
    std::filesystem::create_directory(directory.path() / "none");
    while (served_in(missing) != 103) { // it was retried
        std::this_thread::yield();
    }
    CHECK(called.host.logged("'" + missing + "' cannot be written: No such file or directory") == 1);
    std::filesystem::rename(directory.path() / "none", directory.path() / "gone"); // at once, while it is being written
    called.host.close();
    CHECK(called.host.logged("not up to date") == 1);
}

TEST_CASE("a host that nothing was called in leaves the file alone, as tools beside a program do") {
    const TemporaryDirectory directory;
    const std::string file = directory.write("opdock.prom", "of a running program");
    {
        Called called(metrics(file), 0);
        (void)called.host->explain("test.add", nullptr, nullptr, nullptr);
    }
    CHECK(text_of(file) == "of a running program");
}

TEST_CASE("wrong values of METRICS and REPORT are errors that name them") {
    const auto message = [](const RawEnvironment &environment) {
        return message_of([&] { const MadeHost host(environment); });
    };
    CHECK(message(metrics("opdock.prom"))
              .starts_with("PLUGIN_METRICS, column 1: expected the absolute path of a file, such as"));
    CHECK(message(metrics("/tmp/opdock.prom,soon")) ==
          "PLUGIN_METRICS, column 1: expected seconds, such as 0.5, 500ms or 2m, found 'soon'");
    CHECK(message(report("yess")) == "PLUGIN_REPORT, column 1: expected 0, 1 or signal, found 'yess'");
}

TEST_CASE("REPORT shows what was called when the host is closed, or the process exits") {
    const Stderr printed;
    { const Called called(report("1")); }
    CHECK(printed.text() == head("what serves each op") + "  no op has an implementation\n" +
                                head("number of calls of each implementation") +
                                "  op        implementation  served  declined  failed  served in place of another\n"
                                "  test.add  default.one     3       0         0\n");
    CHECK(in_child([] { new Called(report("on"), 4); }) == 0);
    CHECK(printed.text().ends_with("  test.add  default.one     4       0         0\n"));
    { const MadeHost quiet(report("off")); }
    CHECK(printed.text().ends_with("  test.add  default.one     4       0         0\n"));
    { const MadeHost idle(report("1")); }
    CHECK(printed.text().ends_with(head("no op was called")));
}

TEST_CASE("what serves each op has a row for each device, with dtypes that are served by others") {
    MadeHost host;
    auto narrow = std::make_unique<Made>("default.narrow", OPDOCK_KIND_DEFAULT);
    narrow->dtypes = "f32|bf16";
    host.add(std::move(narrow));
    auto wide = std::make_unique<Made>("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    wide->dtypes = "f32|bf16|f16";
    host.add(std::move(wide));
    auto pair = std::make_unique<Made>("vendor.acme", OPDOCK_KIND_VENDOR, "acme");
    pair->op = "test.update";
    host.add(std::move(pair));
    const auto table = [&] { return core::serving_table(host->serving()); };
    CHECK(table() == "  op           device  served by       because of                       other dtypes\n"
                     "  test.add     cpu     default.narrow  'default' in the built-in order  f16: vendor.acme\n"
                     "  test.update  cpu     vendor.acme     'vendor' in the built-in order\n");
    host->set_program_policy(host.policy("deny_vendors", "acme"));
    CHECK(contains(table(), "  test.add     cpu     default.narrow  'default' in the built-in order"));
    CHECK(contains(table(), "  test.update  cpu     nothing         vendor.acme: vendor 'acme' is denied by "));
}

TEST_CASE("SIGUSR1 prints what was called so far where REPORT asks for it") {
    const Stderr printed;
    struct sigaction before = {};
    sigaction(SIGUSR1, nullptr, &before);
    {
        Called called(report("signal"));
        const auto reports = [&] {
            const std::string text = printed.text();
            size_t count = 0;
            for (size_t at = 0; (at = text.find("number of calls of each", at)) != std::string::npos; ++at) {
                ++count;
            }
            return count;
        };
        raise(SIGUSR1);
        while (reports() != 1) {
            std::this_thread::yield();
        }
        called.call(1);
        raise(SIGUSR1);
        while (reports() != 2) {
            std::this_thread::yield();
        }
    }
    CHECK(contains(printed.text(), "default.one     3 "));
    CHECK(contains(printed.text(), "default.one     4 "));
    raise(SIGUSR1); // late: it does not end the process
    sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("a handler of SIGUSR1 that the program has is not replaced, nor is ignoring it") {
    static std::atomic<int> received{0};
    struct sigaction before = {};
    struct sigaction own = {};
    own.sa_handler = [](int) { ++received; };
    REQUIRE(sigaction(SIGUSR1, &own, &before) == 0);
    const Stderr printed;
    {
        const Called called(report("signal"));
        CHECK(called.host.logged(
                  "SIGUSR1 prints no report, because the program handles or ignores that signal itself") == 1);
        raise(SIGUSR1);
        CHECK(received == 1);
        own.sa_handler = SIG_IGN;
        sigaction(SIGUSR1, &own, nullptr);
    }
    { const Called called(report("signal")); }
    struct sigaction now = {};
    sigaction(SIGUSR1, &before, &now);
    CHECK((now.sa_handler == SIG_IGN));
}
