#include "probe/probe.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/digest.hpp"
#include "files/plugin_file.hpp"
#include "load/register.hpp"
#include "made_host.hpp"
#include "mappings.hpp"
#include "paths.hpp"
#include "probe/device_query.hpp"
#include "probe/scan.hpp"
#include "probe/transcript_format.h"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::can_forbid_cpuid;
using opdock::test::contains;
using opdock::test::is_mapped;
using opdock::test::MadeHost;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

// A time limit short enough for tests of plugins that hang; for others, nothing depends on it.
ProbeLimits limits() {
    ProbeLimits made = limits_for({"cpu"});
    made.time = std::chrono::milliseconds(700);
    return made;
}

std::variant<Transcript, Rejection> try_plugin(const std::string &name, const ProbeLimits &within) {
    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixtures / name);
    std::string why;
    std::optional<ProbeResult> result = run_probe(find_probe(), *directory, name, within, false, &why);
    REQUIRE_MESSAGE(result.has_value(), why);
    return judge_probe(*directory, name, within, std::move(*result));
}

std::variant<Transcript, Rejection> try_plugin(const std::string &name) {
    return try_plugin(name, limits_for({"cpu"}));
}

Rejection rejection_of(const std::variant<Transcript, Rejection> &judged) {
    REQUIRE(std::holds_alternative<Rejection>(judged));
    return std::get<Rejection>(judged);
}

// A variable of the environment, which probes inherit.
class Exported {
  public:
    Exported(const char *name, const std::string &value) : name_(name) { setenv(name, value.c_str(), 1); }
    ~Exported() { unsetenv(name_); }
    Exported(const Exported &) = delete;
    Exported &operator=(const Exported &) = delete;

  private:
    const char *name_;
};

// A child process started by a plugin. It has a FIFO open for writing as long as it lives.
class FixtureChild {
  public:
    FixtureChild()
        : told_(made(directory_.path() / "child")), reader_(open(told_.c_str(), O_RDONLY | O_NONBLOCK)),
          variable_("OPDOCK_FIXTURE_CHILD", told_.string()) {
        REQUIRE(reader_ >= 0);
    }
    FixtureChild(const FixtureChild &) = delete;
    FixtureChild &operator=(const FixtureChild &) = delete;
    ~FixtureChild() { close(reader_); }

    void wait_for_start() const {
        pollfd said = {reader_, POLLIN, 0};
        REQUIRE_MESSAGE(poll(&said, 1, 30'000) == 1, "the child never came");
    }
    // Waits until the last process that has the FIFO open for writing is gone.
    void wait_for_end() const {
        pollfd end = {reader_, POLLIN, 0};
        char text[64];
        ssize_t got = -1;
        while ((got = read(reader_, text, sizeof text)) != 0) {
            REQUIRE_MESSAGE((got > 0 || poll(&end, 1, 30'000) == 1), "the child lives on");
        }
    }

  private:
    static std::filesystem::path made(const std::filesystem::path &fifo) {
        REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
        return fifo;
    }

    const TemporaryDirectory directory_;
    const std::filesystem::path told_;
    const int reader_;
    const Exported variable_;
};

MadeHost host_with(const std::string &name, RawEnvironment environment = {}) {
    return MadeHost(std::move(environment), "/nonexistent", {(fixtures / name).string()});
}

// Makes the kernel refuse these calls of this thread and its children, for good. False if it has no such filters.
bool refuse_calls(const std::vector<std::pair<long, int>> &calls_and_errors) {
    std::vector<sock_filter> filter = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)}};
    for (const auto &[call, error] : calls_and_errors) {
        filter.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<unsigned>(call)});
        filter.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)});
    }
    filter.push_back({BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW});
    const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Runs `work` in a child process, and returns the child's wait status.
template<class Work>
int status_of_child(Work work) {
    const pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status;
}

bool has_landlock() {
    return syscall(SYS_landlock_create_ruleset, nullptr, 0, 1 /* which version */) > 0;
}

// True if a probe can have a PID namespace of its own here.
bool has_namespaces() {
    return status_of_child([] {
               if (unshare(CLONE_NEWPID) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) {
                   _exit(1);
               }
           }) == 0;
}

// Kernels on which probes must be isolated: with all features of this one, without PID namespaces, and without both
// these and Landlock.
const std::vector<std::vector<std::pair<long, int>>> poorer_kernels = {
    {}, {{SYS_unshare, EPERM}}, {{SYS_unshare, EPERM}, {SYS_landlock_create_ruleset, ENOSYS}}};

float next_of(MadeHost &host) {
    float in[] = {1, 2, 3};
    float out[] = {0, 0, 0};
    const opdock::Tensor a(in, opdock::f32, {3});
    const opdock::Tensor b(out, opdock::f32, {3});
    return host.op("badco.next").try_call({a}, {b}) == OPDOCK_OK ? out[0] : -1;
}

} // namespace

TEST_CASE("what a plugin registers in a process of its own is what it registers in the host") {
    const auto judged = try_plugin("libgood.so");
    REQUIRE(std::holds_alternative<Transcript>(judged));
    const Transcript &transcript = std::get<Transcript>(judged);
    const opdock_host_api none = {};
    Signatures signatures;
    Registrar registrar({"acme", "acme", "libgood.so"}, &none, signatures);
    registrar.run([&](opdock_registry *registry) { return transcript.replay(registry); });
    CHECK(registrar.errors().empty());
    REQUIRE(registrar.registration().implementations.size() == 1);
    CHECK(registrar.registration().implementations[0]->impl_id == "vendor.acme");
    CHECK(transcript.changes().empty());
}

TEST_CASE("a plugin with a C++ runtime of its own serves calls") {
    MadeHost host = host_with("libown_runtime.so");
    CHECK(next_of(host) == 2);
}

TEST_CASE("a plugin for which the program has no thread-local memory left is rejected before it is opened here") {
    MadeHost host = host_with("libstatic_tls.so");
    CHECK(host->describe()["plugins"][0]["code"] == code_text(RejectCode::no_static_tls));
}

TEST_CASE("a plugin whose code ends the process is rejected with how and when, and the host lives") {
    struct Row {
        const char *file;
        const char *how;
    };
    const Row rows[] = {
        {"libexits_when_opened.so", "ended the process that tried it, with exit code 0, while it was opened"},
        {"libaborts_when_opened.so", "by signal 6 (Aborted), while it was opened"},
        {"libfaults_when_opened.so", "by signal 11 (Segmentation fault), while it was opened"},
        {"libtraps_when_opened.so", "by signal 4 (Illegal instruction), while it was opened"},
        {"libexits_in_entry.so", "with exit code 0, while it was registering"},
        {"libgoes_on_in_child.so", "with exit code 0, while it was registering"}, // what is tried ends, a copy goes on
        {"libaborts_in_entry.so", "by signal 6 (Aborted), while it was registering"},
        {"libfaults_in_entry.so", "by signal 11 (Segmentation fault), while it was registering"},
        {"libtraps_in_entry.so", "by signal 4 (Illegal instruction), while it was registering"},
        {"libthrows.so", "by signal 6 (Aborted), while it was registering"},
        {"libsays_all_is_well_when_opened.so", "by signal 6 (Aborted), after it had registered"},
        {"libsays_it_cannot_be_opened.so", "by signal 6 (Aborted), while it was opened"},
        {"libsends_rubbish.so", "by signal 6 (Aborted), and its output cannot be read"},
        {"libcloses_descriptors.so", "with exit code 1, while it was registering"},
        {"libruins_environment.so", "by signal 11 (Segmentation fault), after it had registered"},
    };
    for (const Row &row : rows) {
        CAPTURE(row.file);
        const Rejection rejection = rejection_of(try_plugin(row.file));
        CHECK(rejection.code == RejectCode::probe_died);
        CHECK_MESSAGE(contains(rejection.message, row.how), rejection.message);
        CHECK(contains(rejection.message, "plugin-ls --rescan"));
    }
}

TEST_CASE("a rejection has the last lines that the plugin printed, and a bounded part of them") {
    const Rejection thrown = rejection_of(try_plugin("libthrows.so"));
    CHECK_MESSAGE(contains(thrown.message,
                           "while it was registering. It printed: terminate called after throwing an instance of "
                           "'std::runtime_error'; what():  the entry threw this\nHosts do not try it again"),
                  thrown.message);
    CHECK_FALSE(contains(rejection_of(try_plugin("libfaults_in_entry.so")).message, "It printed"));
    ProbeResult result;
    result.end = {true, SIGABRT, true};
    result.printed_last = "first\nsecond\n\n  third \r\n\033[31mfourth\n" + std::string(5000, 'x') + "\n";
    HeldDirectories directories;
    const Rejection rejection = rejection_of(judge_probe(*directories.of(fixtures / "libthrows.so"), "libthrows.so",
                                                         limits_for({"cpu"}), std::move(result)));
    CHECK_MESSAGE(
        contains(rejection.message, " It printed: second; third; \\x1b[31mfourth; " + std::string(300, 'x') + "...\n"),
        rejection.message);
}

TEST_CASE("a process that somebody else may have ended says nothing for good of the plugin") {
    const Rejection rejection = rejection_of(try_plugin("libstops_after_counting.so"));
    CHECK(rejection.code == RejectCode::probe_stopped);
    CHECK_FALSE(is_quarantine(rejection.code));
    CHECK_MESSAGE(contains(rejection.message, "by signal 15 (Terminated), while it was registering"),
                  rejection.message);
    CHECK_FALSE(contains(rejection.message, "plugin-ls --rescan"));
}

TEST_CASE("a plugin that never comes back is stopped when its time is up, also when it ignores SIGTERM") {
    for (const char *file : {"libhangs_when_opened.so", "libhangs_in_entry.so"}) {
        CAPTURE(file);
        const Rejection rejection = rejection_of(try_plugin(file, limits()));
        CHECK(rejection.code == RejectCode::probe_timed_out);
        CHECK_MESSAGE(contains(rejection.message, "was stopped 0.7 s after it was started"), rejection.message);
    }
}

TEST_CASE("a plugin that closes what is not its own and never comes back is waited for without work") {
    const std::clock_t before = std::clock(); // processor time of this process alone
    const Rejection rejection = rejection_of(try_plugin("libcloses_descriptors_and_hangs.so", limits()));
    CHECK(rejection.code == RejectCode::probe_timed_out);
    CHECK(std::clock() - before < CLOCKS_PER_SEC / 3);
}

TEST_CASE("a plugin that talks without end is stopped before its time is up") {
    const Rejection rejection = rejection_of(try_plugin("libtalks_without_end.so", {std::chrono::hours(1), 0}));
    CHECK(rejection.code == RejectCode::too_many_registrations);
    CHECK(contains(rejection.message, "'libtalks_without_end.so' registers more than 64 MiB of text"));
}

TEST_CASE("signals that arrive while a plugin is tried change nothing") {
    struct sigaction before = {};
    struct sigaction ignoring = {};
    ignoring.sa_handler = [](int) {}; // without SA_RESTART: blocking calls are interrupted
    REQUIRE(sigaction(SIGALRM, &ignoring, &before) == 0);
    const itimerval often = {{0, 1000}, {0, 1000}};
    REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
    const auto good = try_plugin("libgood.so");
    const auto hanging = try_plugin("libhangs_when_opened.so", limits());
    const itimerval never = {};
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &before, nullptr);
    CHECK(std::holds_alternative<Transcript>(good));
    CHECK(rejection_of(hanging).code == RejectCode::probe_timed_out);
}

#ifdef SYS_pidfd_open
TEST_CASE("where the kernel has no handles for processes, plugins are tried all the same") {
    std::vector<std::variant<Transcript, Rejection>> judged;
    bool refused = false;
    std::thread([&] { // a filter cannot be removed from its thread
        refused = refuse_calls({{SYS_pidfd_open, ENOSYS}}) && syscall(SYS_pidfd_open, getpid(), 0) < 0;
        if (refused) {
            judged.push_back(try_plugin("libgood.so"));
            judged.push_back(try_plugin("libfaults_in_entry.so"));
            judged.push_back(try_plugin("libhangs_in_entry.so", limits()));
        }
    })
        .join();
    if (!refused) {
        MESSAGE("not tried: this kernel has no filters for system calls");
        return;
    }
    REQUIRE(judged.size() == 3);
    CHECK(std::holds_alternative<Transcript>(judged[0]));
    CHECK(rejection_of(judged[1]).code == RejectCode::probe_died);
    CHECK(rejection_of(judged[2]).code == RejectCode::probe_timed_out);
}
#endif

TEST_CASE("in a process with raised privileges a plugin is tried without the environment") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "file";
    const Exported variable("OPDOCK_FIXTURE_FILE", file.string()); // the file that it tries to write
    HeldDirectories directories;
    std::string why;
    const auto result = run_probe(find_probe(), *directories.of(fixtures / "libwrites_a_file.so"),
                                  "libwrites_a_file.so", limits_for({"cpu"}), true, &why);
    REQUIRE_MESSAGE(result.has_value(), why);
    CHECK(Transcript::parse(result->sent).stage() == Transcript::Stage::complete);
    CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("children that a plugin starts go with the process that tried it") {
    for (const char *file :
         {"libleaves_child.so", "libhangs_with_child_in_entry.so", "libhangs_with_child_when_opened.so"}) {
        CAPTURE(file);
        const FixtureChild child;
        (void)try_plugin(file, limits());
        child.wait_for_end();
    }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // these probes have no limit
TEST_CASE("a plugin that takes memory without bound is stopped by a limit of its own") {
    for (const char *file : {"libtakes_all_memory_when_opened.so", "libtakes_all_memory_in_entry.so"}) {
        CAPTURE(file);
        CHECK(rejection_of(try_plugin(file)).code == RejectCode::probe_died);
    }
}
#endif

TEST_CASE("a plugin that prints is not taken for what it registers, and does not disturb the host's output") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    const int output = dup(STDOUT_FILENO);
    REQUIRE(output >= 0);
    REQUIRE(dup2(ends[1], STDOUT_FILENO) >= 0);
    const auto judged = try_plugin("libprints.so");
    dup2(output, STDOUT_FILENO);
    close(output);
    close(ends[1]);
    char text[64];
    CHECK(read(ends[0], text, sizeof text) == 0);
    close(ends[0]);
    CHECK(std::holds_alternative<Transcript>(judged));
}

TEST_CASE("what a plugin says to the host is heard while it is tried and when it is opened") {
    auto host = host_with("libtalks_to_host.so");
    CHECK(host.logged("info] Plugin 'libtalks_to_host.so' printed while it was tried: WARNING: a word of the entry") ==
          1);
    CHECK(host.logged("a word of the entry") == 1);
    CHECK(next_of(host) == 2);
    CHECK(host.logged("a word of the entry") == 2);
    CHECK(host.logged("a detail of the entry") == 0);
}

TEST_CASE("what a plugin prints while it is tried is logged in lines that cannot be mistaken, and its end is cut off") {
    const TemporaryDirectory directory;
    const std::filesystem::path said = directory.write("said", "a line of before\n");
    const int errors = dup(STDERR_FILENO);
    const int file = open(said.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    REQUIRE(errors >= 0);
    REQUIRE(file >= 0);
    dup2(file, STDERR_FILENO);
    auto host = host_with("libabuses_output.so");
    dup2(errors, STDERR_FILENO);
    close(errors);
    std::ifstream lines(said);
    CHECK(std::string(std::istreambuf_iterator<char>(lines), {}) == "a line of before\n");
    CHECK((fcntl(file, F_GETFL) & O_NONBLOCK) == 0);
    close(file);
    CHECK(next_of(host) == 2);
    const std::string start = "info] Plugin 'libabuses_output.so' printed while it was tried: ";
    CHECK(host.logged(start + "\\x1b]0;title\\x07") == 2);
    CHECK(host.logged(start + "[opdock] [error] a forged line") == 2);
    CHECK(host.logged("[opdock] [error] a forged line") == 2);
    for (const std::string &line : host.log()) {
        CHECK_FALSE(line.ends_with("printed while it was tried: ")); // no empty lines
    }
    CHECK(host.logged(start + "one more line") > 100);
    CHECK(host.logged(start) < 400);
    CHECK(host.logged("printed 16 KiB or more while it was tried; the rest is not shown") == 1);
}

TEST_CASE("what a plugin prints before it ends its probe is a warning") {
    auto host = host_with("libthrows.so");
    CHECK(host.logged("warning] Plugin 'libthrows.so' printed while it was tried:   what():  the entry threw this") ==
          1);
}

TEST_CASE("a plugin that registers until it is refused is refused, and rejected for it") {
    auto host = host_with("libregisters_until_refused.so");
    const nlohmann::json plugin = host->describe()["plugins"][0];
    CHECK(plugin["code"] == "OPDOCK-E041");
    CHECK_FALSE(is_mapped("/libregisters_until_refused.so"));
}

TEST_CASE("what a plugin changes of the process by being loaded is reported") {
    const auto judged = try_plugin("libchanges_everything.so");
    REQUIRE(std::holds_alternative<Transcript>(judged));
    CHECK(std::get<Transcript>(judged).changes() ==
          std::vector<std::string>{"the handler of signal SIGUSR1", "the locale", "the working directory",
                                   "the environment variable OPDOCK_FIXTURE_WAS_HERE"});
    auto host = host_with("libchanges_everything.so");
    CHECK(host.logged("changes the working directory when it is loaded") == 1);
    const nlohmann::json plugin = host->describe()["plugins"][0];
    CHECK(plugin["status"] == "loaded");
    CHECK(plugin["warnings"].size() == 4);
}

#if defined(__x86_64__)
TEST_CASE("a plugin that flushes small numbers to zero is reported, and the program's numbers stay as they are") {
    auto host = host_with("libflushes_to_zero.so");
    CHECK(host.logged("changes the floating-point handling of denormal numbers") == 1);
    volatile float smallest = 1.1754944e-38f;
    CHECK(next_of(host) == 2);
    CHECK(smallest / 2 != 0);
}
#endif

TEST_CASE("a plugin cannot write files while it is tried, where the kernel has Landlock") {
    const TemporaryDirectory directory; // below /tmp, where libraries may write
    const std::filesystem::path file = std::filesystem::current_path() / "opdock-fixture-wrote-this";
    std::filesystem::remove(file);
    {
        const Exported variable("OPDOCK_FIXTURE_FILE", (directory.path() / "file").string());
        CHECK(std::holds_alternative<Transcript>(try_plugin("libwrites_a_file.so")));
        CHECK(std::filesystem::exists(directory.path() / "file"));
    }
    const Exported variable("OPDOCK_FIXTURE_FILE", file.string());
    CHECK(std::holds_alternative<Transcript>(try_plugin("libwrites_a_file.so")));
    const bool may_write = file.string().starts_with("/tmp/");
    CHECK(std::filesystem::exists(file) == (may_write || !has_landlock()));
    std::filesystem::remove(file);
}

namespace {

// Another user's terminal.
class Terminal {
  public:
    Terminal() : master_(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
        REQUIRE(master_ >= 0);
        REQUIRE(unlockpt(master_) == 0);
        REQUIRE(ptsname_r(master_, name_, sizeof name_) == 0);
        opened_ = open(name_, O_RDWR | O_NOCTTY);
        REQUIRE(opened_ >= 0);
    }
    Terminal(const Terminal &) = delete;
    Terminal &operator=(const Terminal &) = delete;
    ~Terminal() {
        close(opened_);
        close(master_);
    }
    const char *name() const { return name_; }
    bool was_written_to() const {
        char said = 0;
        return read(master_, &said, 1) == 1;
    }

  private:
    char name_[64] = {};
    const int master_;
    int opened_ = -1;
};

std::string content_now(const char *path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST_CASE("a plugin cannot write to terminals while it is tried, also one for devices, where the kernel has Landlock") {
    const Terminal terminal;
    const Exported variable("OPDOCK_FIXTURE_FILE", terminal.name());
    for (const ProbeLimits &within : {limits_for({"cpu"}), limits_for({"cuda"})}) {
        CHECK(std::holds_alternative<Transcript>(try_plugin("libwrites_a_file.so", within)));
        CHECK(terminal.was_written_to() == !has_landlock());
    }
}

TEST_CASE("a plugin for devices makes nothing in folders of /dev while it is tried, where the kernel has Landlock") {
    // Only root may make a folder there. For other users, /dev itself is a folder where nothing can be made anyway.
    char folder[] = "/dev/opdock-test-XXXXXX";
    const bool made = mkdtemp(folder) != nullptr;
    const std::string file = std::string(made ? folder : "/dev") + "/opdock-made-by-a-plugin";
    const Exported variable("OPDOCK_FIXTURE_FILE", file.c_str());
    const auto judged = try_plugin("libwrites_a_file.so", limits_for({"cuda"}));
    const bool appeared = std::filesystem::exists(file);
    std::filesystem::remove(file);
    if (made) {
        std::filesystem::remove(folder);
    }
    CHECK(std::holds_alternative<Transcript>(judged));
    CHECK(appeared == (made && !has_landlock()));
}

TEST_CASE("a plugin for devices opens no terminal by another name while it is tried, where the kernel has Landlock") {
    // Only root may make such files. Other users cannot run this test.
    char folder[] = "/dev/opdock-test-XXXXXX";
    if (mkdtemp(folder) == nullptr) {
        return;
    }
    const std::string file = std::string(folder) + "/accelerator";
    const dev_t console = makedev(4, 40);
    const bool made = mknod(file.c_str(), S_IFCHR | 0666, console) == 0;
    const int here = open(file.c_str(), O_WRONLY | O_NOCTTY | O_NONBLOCK);
    const Exported variable("OPDOCK_FIXTURE_FILE", file.c_str());
    const auto judged = try_plugin("libopens_for_writing.so", limits_for({"cuda"}));
    close(here);
    std::filesystem::remove_all(folder);
    CHECK(std::holds_alternative<Transcript>(judged) == (!made || here < 0 || has_landlock()));
}

TEST_CASE("a plugin cannot steer terminals or the session of the host while it is tried") {
    const Terminal terminal;
    const Exported variable("OPDOCK_FIXTURE_FILE", terminal.name());
    const std::string before = content_now("/proc/self/autogroup"); // the session's, with its priority
    const auto judged = try_plugin("libsteers_session.so");
    CHECK(std::holds_alternative<Transcript>(judged));
    CHECK(content_now("/proc/self/autogroup") == before);
}

// Runs `work` in a child as user nobody, where /proc hides other users' processes. False if the machine forbids it.
bool where_others_are_hidden(const std::function<void()> &work) {
    constexpr int cannot = 77;
    const pid_t child = fork();
    if (child == 0) {
        constexpr uid_t nobody = 65534;
        if (unshare(CLONE_NEWNS) != 0 || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 || setgroups(0, nullptr) != 0 || setgid(nobody) != 0 ||
            setuid(nobody) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0 || access(find_probe().c_str(), X_OK) != 0 ||
            access((fixtures / "libgood.so").c_str(), R_OK) != 0) {
            _exit(cannot);
        }
        try {
            work();
        } catch (...) { // thrown by doctest
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK((WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == cannot));
    return WEXITSTATUS(status) == 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // these probes have no limit
TEST_CASE("processes that do not let themselves be looked at are as good as too much memory") {
    const ProbeLimits within = {std::chrono::minutes(1), std::uint64_t{1} << 40};
    const bool could = where_others_are_hidden([&] {
        const auto hidden = try_plugin("libtakes_memory_in_hidden_children.so", within);
        const auto seen = try_plugin("libgood.so", within);
        const auto *rejection = std::get_if<Rejection>(&hidden);
        if (rejection == nullptr || rejection->code != RejectCode::probe_died ||
            !contains(rejection->message, "by signal 9") || !std::holds_alternative<Transcript>(seen)) {
            _exit(1);
        }
    });
    if (!could) {
        MESSAGE("needs root, and a mount of /proc");
    }
}

TEST_CASE("what the processes of a plugin for devices hold together, and how many there are, is limited, too") {
    const std::uint64_t much = std::uint64_t{1} << 40;
    for (const auto &[file, held] : {std::pair{"libtakes_memory_in_children.so", std::uint64_t{200} << 20},
                                     std::pair{"libstarts_many_children.so", much}}) {
        const auto &tried = file;
        CAPTURE(tried);
        const Rejection rejection = rejection_of(try_plugin(file, {std::chrono::minutes(1), 0, held}));
        CHECK(rejection.code == RejectCode::probe_died);
        CHECK(contains(rejection.message, "by signal 9"));
    }
    CHECK(std::holds_alternative<Transcript>(try_plugin("libgood.so", {std::chrono::minutes(1), 0, much})));
}

TEST_CASE("processes are counted in time whatever the program lets its timers be late") {
    const long before = syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
    const long late = 1'000'000'000'000; // ns
    REQUIRE(prctl(PR_SET_TIMERSLACK, late) == 0);
    const auto judged = try_plugin("libstarts_many_children.so", {std::chrono::minutes(2), 0, std::uint64_t{1} << 40});
    CHECK(syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0) == late);
    prctl(PR_SET_TIMERSLACK, before);
    CHECK(contains(rejection_of(judged).message, "by signal 9"));
}

TEST_CASE("the memory of a plugin's children counts as its own") {
    const ProbeLimits within = {std::chrono::minutes(1), 200 << 20};
    for (const char *file : {"libtakes_memory_in_children.so", "libtakes_memory_in_threads.so"}) {
        CAPTURE(file);
        const Rejection rejection = rejection_of(try_plugin(file, within));
        CHECK(rejection.code == RejectCode::probe_died);
        CHECK(contains(rejection.message, "by signal 9"));
    }
}
#endif

TEST_CASE("a probe that cannot be started says why, and the plugin is opened without it") {
    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixtures / "libgood.so");
    std::string why;
    CHECK_FALSE(run_probe("/nonexistent/plugin-probe", *directory, "libgood.so", limits_for({"cpu"}), false, &why));
    CHECK(contains(why, "/nonexistent/plugin-probe: No such file or directory"));
    MadeHost host({}, "/nonexistent", {(fixtures / "libgood.so").string()}, {}, "/nonexistent/plugin-probe");
    CHECK(host.logged("plugin-probe could not be used: " + why) == 1);
    CHECK(host->describe()["plugins"][0]["status"] == "loaded");
}

TEST_CASE("nothing is left of hundreds of tries: no descriptor, no process") {
    const auto descriptors = [] { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); };
    (void)try_plugin("libgood.so");
    const auto before = descriptors();
    for (int i = 0; i < 200; ++i) {
        (void)try_plugin(i % 2 == 0 ? "libgood.so" : "libfaults_in_entry.so");
    }
    CHECK(descriptors() == before);
    CHECK(waitpid(-1, nullptr, WNOHANG) == -1); // no child is left, living or dead
}

TEST_CASE("a program that ignores the ends of its children loads plugins all the same") {
    const auto before = signal(SIGCHLD, SIG_IGN);
    CHECK(std::holds_alternative<Transcript>(try_plugin("libgood.so")));
    const Rejection rejection = rejection_of(try_plugin("libfaults_in_entry.so"));
    const Rejection at_exit = rejection_of(try_plugin("libcrashes_at_exit.so"));
    signal(SIGCHLD, before);
    CHECK(rejection.code == RejectCode::probe_died);
    CHECK(contains(rejection.message,
                   "ended the process that tried it, by signal 11 (Segmentation fault), while it was registering"));
    CHECK(at_exit.code == RejectCode::probe_died);
}

TEST_CASE("a plugin that ends its probe leaves no core file where the host works") {
    const TemporaryDirectory folder;
    const std::filesystem::path before = std::filesystem::current_path();
    rlimit limit{};
    REQUIRE(getrlimit(RLIMIT_CORE, &limit) == 0);
    const rlimit most{limit.rlim_max, limit.rlim_max};
    std::filesystem::current_path(folder.path());
    setrlimit(RLIMIT_CORE, &most);
    const Rejection rejection = rejection_of(try_plugin("libaborts_in_entry.so"));
    setrlimit(RLIMIT_CORE, &limit);
    std::filesystem::current_path(before);
    CHECK(rejection.code == RejectCode::probe_died);
    CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a plugin that hangs does not outrun a host that works in real time") {
    const sched_param first = {.sched_priority = 1};
    const sched_param usual = {.sched_priority = 0};
    cpu_set_t all;
    cpu_set_t one;
    REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) {
        MESSAGE("needs the right to work in real time");
        return;
    }
    sched_setaffinity(0, sizeof one, &one);
    const Rejection hang = rejection_of(try_plugin("libhangs_at_exit.so", limits()));
    sched_setaffinity(0, sizeof all, &all);
    sched_setscheduler(0, SCHED_OTHER, &usual);
    CHECK(hang.code == RejectCode::probe_timed_out);
}

TEST_CASE("a probe finds what only opening the plugin shows, in the words that opening it here would have") {
    CHECK(rejection_of(try_plugin("libno_entry.so")).code == RejectCode::entry_missing);
    const Rejection unresolved = rejection_of(try_plugin("libunresolved_symbol.so"));
    CHECK(unresolved.code == RejectCode::symbol_unresolved);
    CHECK(contains(unresolved.message, "'libunresolved_symbol.so' does not load: "));
    CHECK(contains(unresolved.message, fixtures.string()));
    CHECK_FALSE(contains(unresolved.message, "/proc/self/fd/"));
}

TEST_CASE("what a probe sends is limited, and has to be a transcript") {
    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixtures / "libgood.so");
    const auto judged = [&](std::vector<std::byte> sent) {
        ProbeResult result;
        result.sent = std::move(sent);
        return rejection_of(judge_probe(*directory, "libgood.so", limits_for({"cpu"}), std::move(result)));
    };
    CHECK(judged(std::vector<std::byte>(most_transcript_bytes + 1)).code == RejectCode::too_many_registrations);
    CHECK(judged(std::vector<std::byte>(most_transcript_bytes)).code == RejectCode::probe_unreadable);
    const Rejection unreadable = judged({std::byte{7}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}});
    CHECK(unreadable.code == RejectCode::probe_unreadable);
    CHECK(contains(unreadable.message, "'libgood.so': "));
}

TEST_CASE("a process without descriptors left says so and starts no probe") {
    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixtures / "libgood.so");
    const std::string probe = find_probe();
    rlimit before = {};
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int next = fcntl(directory->descriptor(), F_DUPFD_CLOEXEC, 16);
    close(next);
    for (const int left : {0, 2}) { // enough for nothing, and for the channel only
        std::string why;
        const rlimit limit = {static_cast<rlim_t>(next + left), before.rlim_max};
        std::vector<int> filled; // uses up the lower numbers, some of which may be free
        while (filled.empty() || filled.back() < next) {
            filled.push_back(fcntl(directory->descriptor(), F_DUPFD_CLOEXEC, 0));
        }
        close(filled.back());
        filled.pop_back();
        REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        const auto result = run_probe(probe, *directory, "libgood.so", limits_for({"cpu"}), false, &why);
        setrlimit(RLIMIT_NOFILE, &before);
        for (const int number : filled) {
            close(number);
        }
        CAPTURE(left);
        CHECK_FALSE(result.has_value());
        CHECK(why == std::string(left == 0 ? "pipe" : "dup") + ": Too many open files");
    }
}

TEST_CASE("limits follow the devices a plugin says it is for") {
    CHECK(limits_for({"cpu"}).time == std::chrono::seconds(5));
    CHECK(limits_for({"cpu"}).memory >= std::uint64_t{1} << 30);
    CHECK(limits_for({"cpu"}).held == limits_for({"cpu"}).memory);
    CHECK(limits_for({"cpu", "cuda"}).time == std::chrono::seconds(30));
    CHECK(limits_for({"cuda"}).memory == 0); // drivers reserve more memory than they use
    CHECK(limits_for({"cuda"}).held >= limits_for({"cpu"}).held);
    CHECK(limits_for({"cuda"}).held <= std::max(limits_for({"cpu"}).held, std::uint64_t{16} << 30));
}

TEST_CASE("a plugin is opened when something of it is first chosen, and not before") {
    auto host = host_with("libkeeps_registry.so");
    CHECK(host->describe()["plugins"][0]["status"] == "loaded");
    CHECK_FALSE(is_mapped("/libkeeps_registry.so"));
    CHECK(next_of(host) == 2);
    CHECK(is_mapped("/libkeeps_registry.so"));
}

TEST_CASE("a registry that is used after the entry returned answers with an error") {
    auto host = host_with("libkeeps_registry.so");
    CHECK(next_of(host) == 2); // its kernel fails if register_op succeeds
    CHECK(host->find_op("badco.again") == nullptr);
}

TEST_CASE("a plugin that registers something else in the host than when it was tried is not used") {
    auto host = host_with("libdiffers_in_host.so");
    CHECK(next_of(host) == -1);
    CHECK(contains(opdock_last_error(), "OPDOCK-E053"));
    CHECK(contains(opdock_last_error(), "priority 7"));
    CHECK(host.logged("was accepted when it was scanned, but could not be opened: OPDOCK-E053") == 1);
    const nlohmann::json plugin = host->describe()["plugins"][0];
    CHECK(plugin["status"] == "rejected");
    CHECK(plugin["code"] == "OPDOCK-E053");
}

TEST_CASE("a plugin whose entry fails only in the host is not used, with its reason") {
    auto host = host_with("libfails_in_host.so");
    CHECK(next_of(host) == -1);
    CHECK(contains(opdock_last_error(), "no luck today"));
    CHECK(host->describe()["plugins"][0]["code"] == "OPDOCK-E053");
}

TEST_CASE("strict: a module that was asked for and kills its probe keeps the host from opening") {
    CHECK_THROWS_WITH_AS(host_with("libfaults_in_entry.so", {{"PLUGIN_STRICT", "1"}}), doctest::Contains("OPDOCK-E050"),
                         opdock::core::Error);
    auto lenient = host_with("libfaults_in_entry.so");
    CHECK(lenient->describe()["plugins"][0]["status"] == "rejected");
}

TEST_CASE("without a probe a plugin is opened at once, which is logged") {
    MadeHost host({}, "/nonexistent", {}, {}, "");
    host->load((fixtures / "libgood.so").string());
    CHECK(host.logged("is opened without being tried in a process of its own first") == 1);
    CHECK(host->describe()["plugins"][0]["status"] == "loaded");
}

TEST_CASE("a rejected plugin that stays mapped is not taken for one of the same name in another folder") {
    const TemporaryDirectory directory;
    const std::filesystem::path first = directory.path() / "1" / "libacme.so";
    const std::filesystem::path second = directory.path() / "2" / "libacme.so";
    for (const std::filesystem::path &file : {first, second}) {
        std::filesystem::create_directory(file.parent_path());
    }
    std::filesystem::copy_file(fixtures / "libfails_and_stays.so", first);
    std::filesystem::copy_file(fixtures / "libgood.so", second);
    MadeHost host({}, "/nonexistent", {first.string(), second.string()}, {}, "");
    const nlohmann::json plugins = host->describe()["plugins"];
    CHECK(plugins[0]["code"] == "OPDOCK-E030");
    CHECK(plugins[1]["reason"] == "");
    CHECK(plugins[1]["status"] == "loaded");
}

TEST_CASE("a child of fork opens a plugin that its parent did not") {
    auto host = host_with("libkeeps_registry.so");
    const pid_t child = fork();
    if (child == 0) {
        _exit(next_of(host) == 2 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(next_of(host) == 2);
}

TEST_CASE("many threads that choose a plugin at once open it once") {
    auto host = host_with("libkeeps_registry.so", {{"PLUGIN_LOG_LEVEL", "DEBUG"}});
    std::array<float, 8> results{};
    {
        std::array<std::jthread, 8> threads;
        for (size_t i = 0; i < threads.size(); ++i) {
            threads[i] = std::jthread([&, i] { results[i] = next_of(host); });
        }
    }
    CHECK(results == std::array<float, 8>{2, 2, 2, 2, 2, 2, 2, 2});
    CHECK(host.logged("Plugin 'misbehaves' opened from") == 1);
}

TEST_CASE("interruptions of a plugin that is tried to its end are forgotten") {
    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixtures / "libgood.so");
    LibraryVersions versions;
    Scan scan = look_at(*directory, "libgood.so", versions);
    scan.interruptions = 2;
    CHECK(try_out(scan, *directory, "libgood.so", find_probe(), false).took_place);
    CHECK(scan.transcript != nullptr);
    CHECK(scan.interruptions == 0);
}

TEST_CASE("a plugin that is not the one that was looked at is tried no further, and rejected") {
    HeldDirectories directories;
    const HeldDirectoryPtr directory = directories.of(fixtures / "libgood.so");
    LibraryVersions versions;
    Scan scan = look_at(*directory, "libgood.so", versions);
    ++scan.identity.size;
    const Trial trial = try_out(scan, *directory, "libgood.so", find_probe(), false);
    CHECK(trial.took_place); // it ran to its end: the failure is not for want of a probe
    CHECK(trial.why.empty());
    CHECK(trial.printed.empty());
    REQUIRE(scan.rejection.has_value());
    CHECK(scan.rejection->code == RejectCode::file_changed);
    CHECK(scan.transcript == nullptr);
}

TEST_CASE("a plugin cannot end the host from its probe") {
    for (const auto &calls : poorer_kernels) {
        CAPTURE(calls.size());
        const int status = status_of_child([&] {
            std::thread([&] {
                if (!calls.empty() && !refuse_calls(calls)) {
                    _exit(2);
                }
                _exit(std::holds_alternative<Transcript>(try_plugin("libkills_parent.so")) ? 0 : 1);
            }).join();
        });
        REQUIRE(WIFEXITED(status));
        // In a PID namespace it has no parent, and kill(0) ends only the plugin's own group.
        CHECK(WEXITSTATUS(status) == (calls.empty() && has_namespaces() ? 1 : 0));
    }
}

TEST_CASE("a plugin cannot reach another process of its user from its probe") {
    for (const auto &calls : poorer_kernels) {
        CAPTURE(calls.size());
        const pid_t victim = fork();
        if (victim == 0) {
            setsid();
            for (;;) {
                pause();
            }
        }
        const auto state = [&] {
            rlimit files{};
            REQUIRE(prlimit(victim, RLIMIT_NOFILE, nullptr, &files) == 0);
            cpu_set_t cpus;
            CPU_ZERO(&cpus);
            REQUIRE(sched_getaffinity(victim, sizeof cpus, &cpus) == 0);
            std::string score;
            std::ifstream("/proc/" + std::to_string(victim) + "/oom_score_adj") >> score;
            return std::vector<std::string>{std::to_string(files.rlim_cur),
                                            std::to_string(files.rlim_max),
                                            std::to_string(getpriority(PRIO_PROCESS, static_cast<id_t>(victim))),
                                            std::to_string(sched_getscheduler(victim)),
                                            std::to_string(CPU_COUNT(&cpus)),
                                            calls.size() < 2 && has_landlock() ? score : "Landlock's"};
        };
        const auto before = state();
        const Exported variable("OPDOCK_FIXTURE_VICTIM", std::to_string(victim));
        bool refused = true;
        std::optional<std::variant<Transcript, Rejection>> judged;
        std::thread([&] {
            refused = calls.empty() || refuse_calls(calls);
            judged.emplace(try_plugin("libreaches_for_victim.so"));
        }).join();
        REQUIRE(refused);
        const auto *rejection = std::get_if<Rejection>(&*judged);
        CHECK_MESSAGE(rejection == nullptr, (rejection != nullptr ? rejection->message : ""));
        CHECK(waitpid(victim, nullptr, WNOHANG) == 0);
        CHECK(state() == before);
        kill(victim, SIGKILL);
        CHECK(waitpid(victim, nullptr, 0) == victim);
    }
}

TEST_CASE("a plugin cannot use or change objects of System V or queues of POSIX of other processes from its probe") {
    const int segment = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    const int semaphores = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
    const int queue = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    auto *const memory = static_cast<int *>(shmat(segment, nullptr, 0));
    const Exported number("OPDOCK_FIXTURE_VICTIM", std::to_string(segment));
    const Exported others("OPDOCK_FIXTURE_FILE", std::to_string(semaphores) + "," + std::to_string(queue));
    const auto judged = try_plugin("libreaches_for_shared_objects.so");
    shmid_ds rights = {};
    shmctl(segment, IPC_STAT, &rights);
    msqid_ds messages = {};
    const bool has_queue = msgctl(queue, IPC_STAT, &messages) == 0;
    const int value = semctl(semaphores, 0, GETVAL);
    const int first = *memory;
    shmdt(memory);
    shmctl(segment, IPC_RMID, nullptr);
    semctl(semaphores, 0, IPC_RMID);
    msgctl(queue, IPC_RMID, nullptr);
    CHECK(std::holds_alternative<Transcript>(judged));
    CHECK(first == 0);
    CHECK((rights.shm_perm.mode & 0777) == 0600);
    CHECK(value == 0);
    CHECK(has_queue);
    CHECK(messages.msg_qnum == 0);
}

TEST_CASE("a plugin cannot change rights of its user's files, of keys or of itself from its probe") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.write("file", "secret");
    REQUIRE(chmod(file.c_str(), 0600) == 0);
    const Exported variable("OPDOCK_FIXTURE_FILE", file.string());
    const auto judged = try_plugin("libchanges_rights.so"); // aborts if a change succeeds
    CHECK(std::holds_alternative<Transcript>(judged));
    struct stat status = {};
    REQUIRE(stat(file.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0600);
    CHECK_FALSE(std::filesystem::exists(file.string() + "-made"));
}

TEST_CASE("a daemon that a plugin leaves goes with the process that tried it") {
    for (const auto &calls : poorer_kernels) { // without PID namespaces, the keeper ends it
        CAPTURE(calls.size());
        const FixtureChild daemon;
        const int status = status_of_child([&] {
            std::thread([&] {
                if (!calls.empty() && !refuse_calls(calls)) {
                    _exit(2);
                }
                _exit(std::holds_alternative<Transcript>(try_plugin("libleaves_daemon.so")) ? 0 : 1);
            }).join();
        });
        CHECK(status == 0);
        daemon.wait_for_end();
    }
}

TEST_CASE("what a host that is killed was trying ends with it, where there are PID namespaces") {
    if (!has_namespaces()) {
        MESSAGE("not tried: no PID namespace can be made here");
        return;
    }
    const FixtureChild hangs;
    const pid_t host = fork();
    if (host == 0) {
        (void)try_plugin("libhangs_with_child_in_entry.so");
        _exit(1);
    }
    hangs.wait_for_start();
    REQUIRE(kill(host, SIGKILL) == 0);
    REQUIRE(waitpid(host, nullptr, 0) == host);
    hangs.wait_for_end();
}

TEST_CASE("a plugin whose thread crashes a moment after loading is rejected") {
    const Rejection rejection = rejection_of(try_plugin("libthread_crashes_later.so"));
    CHECK(rejection.code == RejectCode::probe_died);
    CHECK_MESSAGE(contains(rejection.message, "by signal 11 (Segmentation fault), after it had registered"),
                  rejection.message);
}

TEST_CASE(
    "a plugin that leaves a timer or a blocked signal that ends the process is rejected, whenever that would be") {
    const struct {
        const char *file, *end;
    } cases[] = {{"libalarms_later.so", "by signal 14 (Alarm clock), after it had registered"},
                 {"libtimes_out_later.so", "by signal 11 (Segmentation fault), after it had registered"},
                 {"libtimes_out_as_one_of_many.so", "by signal 11 (Segmentation fault), after it had registered"},
                 {"libticks_later.so", "by signal 6 (Aborted), after it had registered"},
                 {"libleaves_signal.so", "by signal 6 (Aborted), after it had registered"},
                 {"libleaves_signal_of_libc.so", "by signal 32 ("}};
    for (const auto &[file, end] : cases) {
        const Rejection rejection = rejection_of(try_plugin(file));
        CHECK(rejection.code == RejectCode::probe_died);
        const std::string &message = rejection.message;
        CHECK_MESSAGE(contains(message, end), message);
    }
    const auto handled = try_plugin("libcounts_time.so");
    REQUIRE(std::holds_alternative<Transcript>(handled));
    CHECK(std::get<Transcript>(handled).changes() == std::vector<std::string>{"the handler of signal SIGPROF"});
}

TEST_CASE("a plugin that crashes or hangs when the process ends is rejected") {
    const Rejection crash = rejection_of(try_plugin("libcrashes_at_exit.so"));
    CHECK(crash.code == RejectCode::probe_died);
    CHECK_MESSAGE(contains(crash.message, "by signal 6 (Aborted), after it had registered"), crash.message);
    const Rejection hang = rejection_of(try_plugin("libhangs_at_exit.so", limits()));
    CHECK(hang.code == RejectCode::probe_timed_out);
    CHECK_MESSAGE(contains(hang.message, "after it had registered"), hang.message);
}

TEST_CASE("a plugin that ends the process well as its thread ends, or a moment later, has not come to its end") {
    for (const char *file : {"libexits_when_thread_ends.so", "libexits_after_its_thread.so"}) {
        CAPTURE(file);
        const Rejection end = rejection_of(try_plugin(file));
        CHECK(end.code == RejectCode::probe_died);
        CHECK_MESSAGE(contains(end.message, "with exit code 0, after it had registered"), end.message);
    }
}

TEST_CASE(
    "a plugin that crashes when the thread that opened it ends, or in a child that the program forks, is rejected") {
    for (const char *file : {"libcrashes_when_thread_ends.so", "libcrashes_at_fork.so"}) {
        CAPTURE(file);
        const Rejection crash = rejection_of(try_plugin(file));
        CHECK(crash.code == RejectCode::probe_died);
        CHECK_MESSAGE(contains(crash.message, "by signal 6 (Aborted), after it had registered"), crash.message);
    }
}

TEST_CASE(
    "what a plugin leaves for later as it is shut down, as its thread ends, or to a child of the program counts") {
    const std::vector<const char *> crashing = {
        "libcrashes_after_shutdown.so",
        "libcrashes_after_its_thread.so",
#ifndef __SANITIZE_THREAD__ // ThreadSanitizer allows no threads in a child of a process that has several
        "libcrashes_later_in_child.so",
#endif
    };
    for (const char *file : crashing) {
        CAPTURE(file);
        const Rejection crash = rejection_of(try_plugin(file));
        CHECK(crash.code == RejectCode::probe_died);
        CHECK_MESSAGE(contains(crash.message, "by signal 11 (Segmentation fault), after it had registered"),
                      crash.message);
    }
    for (const char *file : {"libalarms_after_shutdown.so", "libalarms_in_child.so"}) {
        CAPTURE(file);
        const Rejection alarm = rejection_of(try_plugin(file));
        CHECK(alarm.code == RejectCode::probe_died);
        CHECK_MESSAGE(contains(alarm.message, "by signal 14 (Alarm clock), after it had registered"), alarm.message);
    }
}

#if defined(__x86_64__)
TEST_CASE("a plugin that forbids the process reading the clock is rejected") {
    const Rejection crash = rejection_of(try_plugin("libforbids_clock.so"));
    CHECK(crash.code == RejectCode::probe_died);
    CHECK_MESSAGE(contains(crash.message, "by signal 11 (Segmentation fault), after it had registered"), crash.message);
}

TEST_CASE("a plugin that forbids asking the processor what it is is rejected") {
    if (!can_forbid_cpuid()) { // this processor's cpuid cannot be made to trap
        return;
    }
    const Rejection crash = rejection_of(try_plugin("libforbids_cpuid.so"));
    CHECK(crash.code == RejectCode::probe_died);
    CHECK_MESSAGE(contains(crash.message, "by signal 11 (Segmentation fault), after it had registered"), crash.message);
}
#endif

TEST_CASE("a plugin may leave a thread that stays, and end one when the host closes") {
    CHECK(std::holds_alternative<Transcript>(try_plugin("libthread_stays.so")));
    CHECK(std::holds_alternative<Transcript>(try_plugin("libends_its_thread.so")));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // these probes have no limit
TEST_CASE("a plugin that takes shared memory without bound is stopped by a limit of its own") {
    ProbeLimits patient = limits_for({"cpu"});
    patient.time = std::chrono::minutes(1); // a busy machine needs a while to fill that much memory
    for (const char *file : {"libtakes_shared_memory.so", "libtakes_memory_files.so"}) {
        CAPTURE(file);
        CHECK(rejection_of(try_plugin(file, patient)).code == RejectCode::probe_died);
    }
}
#endif

TEST_CASE("the umask, limits, signal mask and priority that a plugin changes are reported") {
    const auto judged = try_plugin("libchanges_what_can_be_put_back.so");
    REQUIRE(std::holds_alternative<Transcript>(judged));
    CHECK(std::get<Transcript>(judged).changes() ==
          std::vector<std::string>{"the locale", "the working directory", "the umask", "the resource limits",
                                   "the signal mask of the thread that loads it",
                                   "the floating-point rounding or traps"});
}

TEST_CASE("a program without standard streams has its plugins tried all the same") {
    const int status = status_of_child([] {
        for (int stream = 0; stream < 3; ++stream) {
            close(stream);
        }
        HeldDirectories directories;
        std::string why;
        const auto result = run_probe(find_probe(), *directories.of(fixtures / "libgood.so"), "libgood.so",
                                      limits_for({"cpu"}), false, &why);
        _exit(result && Transcript::parse(result->sent).stage() == Transcript::Stage::complete ? 0 : 1);
    });
    CHECK(status == 0);
}

namespace {

// Uses up the 16 layers, or those that are left if the program already has some.
bool use_up_layers_of_landlock() {
    const std::uint64_t making_of_block_devices = LANDLOCK_ACCESS_FS_MAKE_BLOCK;
    for (;;) {
        const auto ruleset = static_cast<int>(
            syscall(SYS_landlock_create_ruleset, &making_of_block_devices, sizeof making_of_block_devices, 0));
        if (ruleset < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
            return false;
        }
        const bool is_last = syscall(SYS_landlock_restrict_self, ruleset, 0) != 0;
        close(ruleset);
        if (is_last) {
            return errno == E2BIG;
        }
    }
}

// Uses up the instructions allowed for all filters together. Each filter answers every call with its first one.
bool use_up_room_for_filters() {
    for (const unsigned short length : std::array<unsigned short, 2>{4096, 64}) {
        std::vector<sock_filter> program(length, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW});
        const sock_fprog filter = {length, program.data()};
        while (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
        }
        if (errno != ENOMEM) {
            return false;
        }
    }
    return true;
}

} // namespace

TEST_CASE("where the kernel has no more of what confines a process, nothing is tried, and that is said") {
    enum { held, is_tried, cannot_be_shown };
    for (const auto use_up : {use_up_layers_of_landlock, use_up_room_for_filters}) {
        const bool is_landlock = use_up == use_up_layers_of_landlock;
        CAPTURE(is_landlock);
        const int status = status_of_child([&] {
            if (!use_up()) {
                _exit(cannot_be_shown);
            }
            HeldDirectories directories;
            const HeldDirectoryPtr directory = directories.of(fixtures / "libgood.so");
            std::string why;
            const bool tried = run_probe(find_probe(), *directory, "libgood.so", limits_for({"cpu"}), false, &why) ||
                               run_device_query("true", find_probe(), false).find(why) == std::string::npos;
            _exit(!tried && contains(why, "it cannot be confined: the kernel accepts no further") ? held : is_tried);
        });
        REQUIRE(WIFEXITED(status));
        if (WEXITSTATUS(status) == cannot_be_shown) {
            MESSAGE("needs a kernel with Landlock and system call filters, for this program");
        } else {
            CHECK(WEXITSTATUS(status) == held);
        }
    }
}

TEST_CASE("in strict mode and where trust is required, a plugin that cannot be tried is not opened") {
    for (const RawEnvironment &environment : {RawEnvironment{{"PLUGIN_STRICT", "1"}, {"PLUGIN_TRUST", "off"}},
                                              RawEnvironment{{"PLUGIN_STRICT", "0"}, {"PLUGIN_TRUST", "require"}}}) {
        const TemporaryDirectory directory;
        const std::filesystem::path file = directory.path() / "libgood.so";
        std::filesystem::copy_file(fixtures / "libgood.so", file);
        const std::filesystem::path policy =
            directory.write("policy.yaml", "trusted_sha256:\n  - " + hex(sha256_of(PluginFile(file))) + "\n");
        RawEnvironment with_policy = environment;
        with_policy["PLUGIN_CONFIG"] = policy.string();
        MadeHost host(with_policy, "/nonexistent", {}, {}, "/nonexistent/plugin-probe");
        CHECK_THROWS_WITH_AS(host->load(file.string()), doctest::Contains("OPDOCK-E057"), opdock::core::Error);
        CHECK_FALSE(is_mapped(file.string()));
    }
}
