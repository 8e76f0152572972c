#include "load/kept_process.hpp"

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "load/plugin_call.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr mode_t unknown = ~mode_t{0};

// Read from /proc, because umask() can only be queried by changing it for all threads. Returns `unknown` without
// /proc.
mode_t current_umask() {
    const Descriptor status(::open("/proc/self/status", O_RDONLY | O_CLOEXEC));
    char text[512]; // the umask is in the second line
    const ssize_t got = status.get() >= 0 ? ::read(status.get(), text, sizeof text - 1) : -1;
    text[std::max<ssize_t>(got, 0)] = '\0';
    constexpr char name[] = "\nUmask:";
    const char *const found = std::strstr(text, name);
    return found != nullptr ? static_cast<mode_t>(std::strtoul(found + std::strlen(name), nullptr, 8)) : unknown;
}

bool same_set(const sigset_t &one, const sigset_t &other) {
    for (int signal = 1; signal < NSIG; ++signal) {
        if (sigismember(&one, signal) != sigismember(&other, signal)) {
            return false;
        }
    }
    return true;
}

bool same_file(const struct stat &one, const struct stat &other) {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

std::string working_directory() {
    std::error_code none; // it may have been removed, or its path may be too long
    const std::filesystem::path path = std::filesystem::current_path(none);
    return none ? "" : path.string();
}

const char *locale_now() {
    return std::setlocale(LC_ALL, nullptr); // NOLINT(concurrency-mt-unsafe): plugins are opened one at a time
}

long timer_slack() { // prctl's wrapper returns int, which overflows at 2 s
    return ::syscall(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0);
}

// Compares rounding and trap control, which affects computations; ignores flags that operations set.
bool same_floating_point(const std::fenv_t &one, const std::fenv_t &other) {
#if defined(__x86_64__)
    constexpr unsigned control = 0xffc0u;
    return (one.__mxcsr & control) == (other.__mxcsr & control) && one.__control_word == other.__control_word;
#else
    return std::memcmp(&one, &other, sizeof one) == 0;
#endif
}

// Returns true if x87 registers were in use, which would make the program's next computation fail, and frees
// them.
bool freed_x87_registers() {
#if defined(__x86_64__)
    std::fenv_t now{};
    std::fegetenv(&now);
    constexpr unsigned all_free = 0xffffu;
    if (now.__tags != all_free) {
        asm volatile("emms");
        return true;
    }
#endif
    return false;
}

// If the plugin disabled these, the process ends here, while the journal still names the plugin.
void use_what_can_be_forbidden() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time); // PR_SET_TSC
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    asm volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d)); // ARCH_SET_CPUID
#endif
}

// A plugin's locale has facets whose code may be unmapped or may fail in destructors: it is never freed.
void keep_for_good(const std::locale &locale) {
    static auto *const mutex = new std::mutex;
    static auto *const kept = new std::vector<std::locale>;
    const std::lock_guard lock(*mutex);
    kept->push_back(locale);
}

} // namespace

KeptProcess::KeptProcess(const Log &log, const std::string &plugin)
    : log_(log), plugin_(plugin), umask_(current_umask()), timer_slack_(timer_slack()), locale_(locale_now()),
      working_directory_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)), working_directory_path_(working_directory()) {
    (void)::stat(".", &working_directory_status_); // stays zero if the folder cannot be inspected
    for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
        ::getrlimit(static_cast<__rlimit_resource_t>(resource), &limits_.at(static_cast<std::size_t>(resource)));
    }
    ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked_);
    std::fegetenv(&floating_point_);
}

KeptProcess::~KeptProcess() {
    try {
        put_back();
    } catch (const std::exception &) { // no memory for the warning
        return;
    }
}

bool KeptProcess::is_working_directory() const {
    struct stat now = {};
    return working_directory_status_.st_ino == 0 ? working_directory() == working_directory_path_
                                                 : ::stat(".", &now) == 0 && same_file(now, working_directory_status_);
}

bool KeptProcess::enter_working_directory() const {
    struct stat held = {};
    if (::fstat(working_directory_.get(), &held) == 0 && same_file(held, working_directory_status_) &&
        ::fchdir(working_directory_.get()) == 0) {
        return true;
    }
    struct stat there = {};
    return ::stat(working_directory_path_.c_str(), &there) == 0 && same_file(there, working_directory_status_) &&
           ::chdir(working_directory_path_.c_str()) == 0;
}

bool KeptProcess::put_back_working_directory() const {
    if (is_working_directory()) {
        return false;
    }
    if (enter_working_directory()) {
        return true;
    }
    log_.warning(
        fmt::format("Plugin '{}' changed the working directory when it was opened; '{}' cannot be entered again",
                    plugin_, working_directory_path_));
    return false;
}

KeptProcess::Locales KeptProcess::put_back_locales() const {
    const std::locale cpp_now;
    const bool is_other_cpp = cpp_now != cpp_locale_;
    const bool is_other = is_other_cpp || locale_ != locale_now();
    if (is_other_cpp) {
        keep_for_good(cpp_now);
        std::locale::global(cpp_locale_); // also sets the C locale if this locale has a name
    }
    if (locale_ != locale_now() &&
        std::setlocale(LC_ALL, locale_.c_str()) == nullptr) { // NOLINT(concurrency-mt-unsafe): as above
        return Locales::lost;
    }
    return is_other ? Locales::put_back : Locales::same;
}

KeptProcess::Limits KeptProcess::put_back_limits() const {
    Limits found = Limits::same;
    for (int resource = 0; resource < RLIM_NLIMITS; ++resource) {
        const auto which = static_cast<__rlimit_resource_t>(resource);
        const rlimit &before = limits_.at(static_cast<std::size_t>(resource));
        rlimit now{};
        if (::getrlimit(which, &now) != 0 || (now.rlim_cur == before.rlim_cur && now.rlim_max == before.rlim_max)) {
            continue;
        }
        if (::setrlimit(which, &before) == 0) {
            found = std::max(found, Limits::put_back);
        } else { // only root can raise a lowered hard limit
            now.rlim_cur = std::min(before.rlim_cur, now.rlim_max);
            ::setrlimit(which, &now);
            found = Limits::lowered;
        }
    }
    return found;
}

void KeptProcess::put_back() const {
    clear_cpu_flags();
    std::fenv_t floating_point{};
    std::fegetenv(&floating_point);
    std::fesetenv(&floating_point_);
    const bool left_registers = freed_x87_registers();
    sigset_t blocked{};
    ::pthread_sigmask(SIG_SETMASK, &blocked_, &blocked);

    std::vector<std::string_view> changed;
    if (!same_floating_point(floating_point, floating_point_)) {
        changed.emplace_back("the floating-point rounding or traps");
    }
    if (left_registers) {
        changed.emplace_back("the registers of the x87 unit");
    }
    use_what_can_be_forbidden();
    if (!same_set(blocked, blocked_)) {
        changed.emplace_back("the signal mask of the thread that loads it");
    }
    const Limits limits = put_back_limits();
    if (limits == Limits::put_back) {
        changed.emplace_back("the resource limits");
    }
    // If it cannot be read, because descriptors or /proc are missing, it is restored anyway.
    const mode_t umask_now = current_umask();
    if (umask_ != unknown && umask_now != umask_ && ::umask(umask_) != umask_) {
        changed.emplace_back("the umask");
    }
    const Locales locales = put_back_locales();
    if (locales == Locales::put_back) {
        changed.emplace_back("the locale");
    }
    if (timer_slack() != timer_slack_) {
        ::prctl(PR_SET_TIMERSLACK, timer_slack_);
        changed.emplace_back("the timer slack of the thread that loads it");
    }
    if (locales == Locales::lost) {
        log_.warning(fmt::format("Plugin '{}' changed the locale when it was opened; '{}' cannot be restored, for "
                                 "instance because LOCPATH has changed, and the locale stays '{}'",
                                 plugin_, visible_line(locale_), visible_line(locale_now())));
    }
    if (put_back_working_directory()) {
        changed.emplace_back("the working directory");
    }
    if (limits == Limits::lowered) {
        log_.warning(fmt::format("Plugin '{}' lowered hard resource limits when it was opened; they stay lowered, "
                                 "because only root may raise them",
                                 plugin_));
    }
    if (!changed.empty()) {
        log_.warning(fmt::format("Plugin '{}' changed {} when it was opened; the change was undone", plugin_,
                                 fmt::join(changed, ", ")));
    }
}

} // namespace opdock::core
