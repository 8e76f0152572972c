#include "load/kept_process.hpp"

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <locale>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "made_host.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"

using namespace opdock::core;
using opdock::test::contains;
using opdock::test::MadeHost;
using opdock::test::TemporaryDirectory;

namespace {

const std::filesystem::path fixtures = opdock::test::fixtures_folder();

// State that a plugin may change, as text, so that a difference can be shown.
std::string process_now() {
    const mode_t mask = umask(0);
    umask(mask);
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    sigset_t blocked;
    sigemptyset(&blocked);
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return "umask " + std::to_string(mask) + ", files " + std::to_string(files.rlim_cur) + ", SIGUSR2 " +
           std::to_string(sigismember(&blocked, SIGUSR2)) + ", locale " + std::setlocale(LC_ALL, nullptr) +
           ", rounding " + std::to_string(std::fegetround()) + ", folder " + std::filesystem::current_path().string();
}

} // namespace

TEST_CASE("what a plugin changes of the process when it is opened is put back, with a warning") {
    for (const char *probe : {"", "tried"}) { // opened at once, or at its first call
        CAPTURE(probe);
        const std::string before = process_now();
        MadeHost host({}, "/nonexistent", {(fixtures / "libchanges_what_can_be_put_back.so").string()}, {},
                      *probe == '\0' ? std::optional<std::string>("") : std::nullopt);
        float in[] = {1};
        float out[] = {0};
        CHECK(host.op("badco.next")
                  .try_call({opdock::Tensor(in, opdock::f32, {1})}, {opdock::Tensor(out, opdock::f32, {1})}) ==
              OPDOCK_OK);
        CHECK(process_now() == before);
        CHECK(host.logged("changed the floating-point rounding or traps, the signal mask of the thread that loads it, "
                          "the resource limits, the umask, the locale, the working directory when it was opened; the "
                          "change was undone") == 1);
    }
}

TEST_CASE("the global locale of C++ that a plugin sets is put back, with a warning") {
    const auto written = [] {
        std::ostringstream text;
        text << 12345.5;
        return text.str() + " " + std::setlocale(LC_ALL, nullptr);
    };
    for (const char *file : {"libchanges_cpp_locale.so", "libchanges_both_locales.so"}) {
        for (const char *probe : {"", "tried"}) {
            CAPTURE(file);
            CAPTURE(probe);
            const std::string before = written();
            const std::locale locale;
            MadeHost host({}, "/nonexistent", {(fixtures / file).string()}, {},
                          *probe == '\0' ? std::optional<std::string>("") : std::nullopt);
            float in[] = {1};
            float out[] = {0};
            CHECK(host.op("badco.next")
                      .try_call({opdock::Tensor(in, opdock::f32, {1})}, {opdock::Tensor(out, opdock::f32, {1})}) ==
                  OPDOCK_OK);
            CHECK(written() == before);
            CHECK(std::locale() == locale);
            CHECK(host.logged("changed the locale when it was opened; the change was undone") == 1);
        }
    }
    const std::string before = written();
    MadeHost host({}, "/nonexistent", {(fixtures / "libchanges_locale_and_fails.so").string()}, {}, "");
    CHECK(written() == before);
    CHECK(host.logged("changed the locale when it was opened; the change was undone") == 1);
}

#if defined(__x86_64__)
TEST_CASE("registers of the x87 unit that a plugin leaves in use are freed") {
    for (const char *probe : {"", "tried"}) {
        CAPTURE(probe);
        MadeHost host({}, "/nonexistent", {(fixtures / "libleaves_x87_registers.so").string()}, {},
                      *probe == '\0' ? std::optional<std::string>("") : std::nullopt);
        float in[] = {1};
        float out[] = {0};
        CHECK(host.op("badco.next")
                  .try_call({opdock::Tensor(in, opdock::f32, {1})}, {opdock::Tensor(out, opdock::f32, {1})}) ==
              OPDOCK_OK);
        volatile long double three = 3;
        CHECK(three * 2 == 6); // if a plugin left all eight x87 registers in use, this would be NaN
        CHECK(host.logged("changed the registers of the x87 unit when it was opened; the change was undone") == 1);
    }
}
#endif

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) // its own functions crash if that direction is set
namespace {

// The direction flag of string instructions, and traps on unaligned access.
constexpr unsigned long long cpu_flags = (1U << 10U) | (1U << 18U);

opdock_status leave_cpu_flags() {
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | cpu_flags);
    return OPDOCK_OK;
}

} // namespace

TEST_CASE("flags of the processor that entries, callbacks and first calls leave set are cleared") {
    const auto are_clear = [] { return (__builtin_ia32_readeflags_u64() & cpu_flags) == 0; };
    MadeHost host;
    host.module("leaves-flags", [](opdock_registry *) { return leave_cpu_flags(); });
    CHECK(are_clear());
    auto made = std::make_unique<opdock::test::Made>("vendor.leaves", OPDOCK_KIND_VENDOR);
    made->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) { return leave_cpu_flags(); };
        impl.kernel = [](const opdock_problem *, const opdock_call *) { return leave_cpu_flags(); };
    };
    host.add(std::move(made));
    opdock::test::Rows rows;
    CHECK(host.op().try_call({rows.x}, {rows.y}) == OPDOCK_OK);
    CHECK(are_clear());
    auto prepared = std::make_unique<opdock::test::Made>("vendor.prepared", OPDOCK_KIND_VENDOR);
    prepared->adjust = [](opdock_impl &impl) {
        impl.priority = 1;
        impl.kernel = [](const opdock_problem *, const opdock_call *) { return leave_cpu_flags(); };
    };
    host.add(std::move(prepared));
    const opdock::Prepared call = host.op().prepare({rows.x}, {rows.y});
    CHECK(call.run({rows.in.data(), rows.out.data()}) == OPDOCK_OK);
    CHECK(are_clear());
}

#ifndef __SANITIZE_THREAD__ // its own dlopen makes unaligned accesses
TEST_CASE("the trap on unaligned access that a constructor leaves set is cleared before the host goes on") {
    const TemporaryDirectory folder;
    const auto plugin = fixtures / "libleaves_alignment_flag_when_opened.so";
    MadeHost host({{"XDG_CACHE_HOME", folder.path().string()}}, "/nonexistent", {plugin.string()});
    float in[] = {1, 2, 3};
    float out[] = {0, 0, 0};
    CHECK(host.op("badco.next")
              .try_call({opdock::Tensor(in, opdock::f32, {3})}, {opdock::Tensor(out, opdock::f32, {3})}) == OPDOCK_OK);
    CHECK((__builtin_ia32_readeflags_u64() & cpu_flags) == 0);
}
#endif
#endif

TEST_CASE("hard limits that a plugin lowers stay lowered where they cannot be raised, and that is said") {
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_MSGQUEUE, &before) == 0);
    REQUIRE(before.rlim_max > 200);
    const pid_t child = fork();
    if (child == 0) { // root may raise limits, but not in every container
        const rlimit few = {200, 200};
        _exit(setrlimit(RLIMIT_MSGQUEUE, &few) == 0 && setrlimit(RLIMIT_MSGQUEUE, &before) == 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    const bool may_raise = status == 0;
    MadeHost host({}, "/nonexistent", {(fixtures / "liblowers_hard_limits.so").string()}, {}, "");
    rlimit now{};
    REQUIRE(getrlimit(RLIMIT_MSGQUEUE, &now) == 0);
    CHECK(now.rlim_max == (may_raise ? before.rlim_max : 200));
    CHECK(host.logged("changed the resource limits when it was opened; the change was undone") == (may_raise ? 1 : 0));
    CHECK(host.logged(
              "lowered hard resource limits when it was opened; they stay lowered, because only root may raise them") ==
          (may_raise ? 0 : 1));
}

TEST_CASE("the umask and the working directory are put back also by a process without descriptors left") {
    const std::string folder = "/tmp"; // anybody may enter it
    const mode_t mask = umask(0);
    umask(mask);
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(folder.c_str()) != 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)) {
            _exit(3);
        }
        {
            const Log silent;
            const std::string plugin = "acme";
            const KeptProcess kept(silent, plugin);
            if (close_range(3, ~0U, 0) != 0 || chdir("/") != 0) {
                _exit(2);
            }
#if !defined(__SANITIZE_ADDRESS__) // the sanitizers read memory through descriptors
            const rlimit none = {3, 3};
            setrlimit(RLIMIT_NOFILE, &none);
#endif
            umask(mask == 0 ? 077 : 0);
        }
        const bool same_mask = umask(0) == mask;
        char now[4096];
        _exit(same_mask && getcwd(now, sizeof now) != nullptr && folder == now ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the working directory is put back also where it has another name by then") {
    const TemporaryDirectory directory;
    const std::filesystem::path before = directory.path() / "before", after = directory.path() / "after";
    std::filesystem::create_directory(before);
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(before.c_str()) != 0) {
            _exit(3);
        }
        {
            const Log silent;
            const std::string plugin = "acme";
            const KeptProcess kept(silent, plugin);
            if (chdir("/") != 0 || rename(before.c_str(), after.c_str()) != 0) {
                _exit(2);
            }
        }
        char now[4096];
        _exit(getcwd(now, sizeof now) != nullptr && after == now ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a working directory that cannot be entered again is told") {
    std::string closed = "/tmp/opdock-closed-XXXXXX"; // in /tmp, where root also finds it as another user
    REQUIRE(mkdtemp(closed.data()) != nullptr);
    REQUIRE((geteuid() != 0 || chown(closed.c_str(), 65534, 65534) == 0));
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(closed.c_str()) != 0 || (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)) {
            _exit(3);
        }
        std::string told;
        const Log log(
            [](void *user_data, int32_t, const char *line) { *static_cast<std::string *>(user_data) += line; }, &told);
        {
            const std::string plugin = "acme";
            const KeptProcess kept(log, plugin);
            if (chdir("/") != 0 || chmod(closed.c_str(), 0) != 0) {
                _exit(2);
            }
        }
        _exit(contains(told, "'" + closed + "' cannot be entered again") ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(rmdir(closed.c_str()) == 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the umask is put back also by a process without a standard input") {
    const mode_t mask = umask(0);
    umask(mask);
    const pid_t child = fork();
    if (child == 0) {
        close(STDIN_FILENO);
        {
            const Log silent;
            const std::string plugin = "acme";
            const KeptProcess kept(silent, plugin);
            umask(mask == 0 ? 077 : 0);
        }
        _exit(umask(0) == mask ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("a plugin that changes nothing of the process is opened without a word") {
    MadeHost host({}, "/nonexistent", {(fixtures / "libprints.so").string()}, {}, "");
    CHECK(host.logged("when it was opened") == 0);
}

namespace {

// The host's message if a plugin does this while it is opened; empty if there is none.
template<class Work>
std::string said_of(Work work) {
    std::string lines;
    const Log log([](void *to, int32_t, const char *line) { *static_cast<std::string *>(to) += line; }, &lines);
    const std::string plugin = "acme";
    {
        const KeptProcess kept(log, plugin);
        work();
    }
    return lines;
}

constexpr const char *signals_were_put_back = "changed the signal mask of the thread that loads it when it was opened";
constexpr const char *limits_were_put_back = "changed the resource limits when it was opened";
constexpr const char *numbers_were_put_back = "changed the floating-point rounding or traps when it was opened";

} // namespace

TEST_CASE("the first and the last signal are put back as any other") {
    for (const int signal : {SIGHUP, SIGUSR2, SIGRTMAX}) {
        CAPTURE(signal);
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signal);
        CHECK(contains(said_of([&] { pthread_sigmask(SIG_BLOCK, &one, nullptr); }), signals_were_put_back));
        sigset_t blocked;
        pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        CHECK(sigismember(&blocked, signal) == 0);
    }
}

TEST_CASE("the first and the last limit of resources are put back as any other") {
    for (const auto resource : {RLIMIT_CPU, RLIMIT_CORE, RLIMIT_RTTIME}) {
        CAPTURE(static_cast<int>(resource));
        rlimit before{}, after{};
        REQUIRE(getrlimit(resource, &before) == 0);
        rlimit other = before;
        other.rlim_cur = before.rlim_cur == 1'000'000 ? 2'000'000 : 1'000'000;
        if (other.rlim_cur > other.rlim_max) {
            continue; // this machine's hard limit is lower
        }
        CHECK(contains(said_of([&] { REQUIRE(setrlimit(resource, &other) == 0); }), limits_were_put_back));
        REQUIRE(getrlimit(resource, &after) == 0);
        CHECK(after.rlim_cur == before.rlim_cur);
    }
}

TEST_CASE("the locales of C and C++ are put back each as it was, whatever sets both") {
    const std::locale cpp_before;
    const std::string c_before = std::setlocale(LC_ALL, nullptr);
    // The name of one is not the name of the other, and a program's own locale has none.
    const std::locale mine(std::locale::classic(), new std::numpunct<char>);
    for (const std::locale &given : {std::locale::classic(), mine}) {
        std::locale::global(given);
        for (const char *c : {"C.UTF-8", "C"}) {
            CAPTURE(c);
            REQUIRE(std::setlocale(LC_ALL, c) != nullptr);
            const std::string other = std::string(c) == "C" ? "C.UTF-8" : "C";
            for (const std::locale &set : {std::locale(other), std::locale(given, new std::numpunct<char>)}) {
                const std::string said = said_of([&] { std::locale::global(set); });
                CHECK(contains(said, "changed the locale when it was opened; the change was undone"));
                CHECK(std::locale() == given);
                CHECK(std::string(std::setlocale(LC_ALL, nullptr)) == c);
            }
        }
    }
    std::locale::global(cpp_before);
    std::setlocale(LC_ALL, c_before.c_str());
}

TEST_CASE("a locale of C that cannot be set again is told, and not said to be put back") {
    const std::filesystem::path of_system = "/usr/lib/locale/C.utf8";
    if (!std::filesystem::exists(of_system)) {
        MESSAGE("needs ", of_system.string());
        return;
    }
    const std::string before = std::setlocale(LC_ALL, nullptr);
    const TemporaryDirectory locales;
    std::filesystem::copy(of_system, locales.path() / "xx_YY.utf8", std::filesystem::copy_options::recursive);
    setenv("LOCPATH", locales.path().c_str(), 1);
    REQUIRE(std::setlocale(LC_ALL, "xx_YY.UTF-8") != nullptr);
    const std::string said = said_of([&] {
        unsetenv("LOCPATH");
        REQUIRE(std::setlocale(LC_ALL, "C") != nullptr);
    });
    CHECK(contains(
        said, "'xx_YY.UTF-8' cannot be restored, for instance because LOCPATH has changed, and the locale stays 'C'"));
    CHECK_FALSE(contains(said, "undone"));
    std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("the timer slack that a plugin sets is put back, also one that is longer than an int") {
    const auto slack = [] { return syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0); };
    const long before = slack();
    for (const long of_program : {before, 4'000'000'000L}) {
        REQUIRE(prctl(PR_SET_TIMERSLACK, of_program) == 0);
        CHECK(said_of([] { prctl(PR_SET_TIMERSLACK, 5'000'000'000L); }).find("the timer slack of the thread") !=
              std::string::npos);
        CHECK(slack() == of_program);
    }
    prctl(PR_SET_TIMERSLACK, before);
}

TEST_CASE("what operations find out about numbers is nobody's change, unlike how they round and trap") {
    for (const int flag : {FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INEXACT}) {
        CAPTURE(flag);
        std::feclearexcept(FE_ALL_EXCEPT);
        CHECK(said_of([&] { std::feraiseexcept(flag); }).empty());
    }
    std::feclearexcept(FE_ALL_EXCEPT);
    CHECK(contains(said_of([] { std::fesetround(FE_DOWNWARD); }), numbers_were_put_back));
    CHECK(std::fegetround() == FE_TONEAREST);
#if defined(__x86_64__)
    const unsigned before = _mm_getcsr();
    // Denormal operands as 0, traps on invalid operations, rounding down, rounding up, and denormal results as 0.
    for (const unsigned bit : {6u, 7u, 13u, 14u, 15u}) {
        CAPTURE(bit);
        CHECK(contains(said_of([&] { _mm_setcsr(before ^ 1u << bit); }), numbers_were_put_back));
        CHECK(_mm_getcsr() == before);
    }
#endif
}
