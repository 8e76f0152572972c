#include "process_state.hpp"

#include <clocale>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include <pthread.h>

namespace opdock::plugin_check {
namespace {

std::string folder() {
    std::error_code not_there;
    return std::filesystem::current_path(not_there).string();
}

// Without the flags that any operation may raise.
uint64_t control_of(const std::fenv_t &floating) {
#if defined(__x86_64__)
    constexpr uint64_t raised = 0x3f;
    return (floating.__mxcsr & ~raised) << 16 | floating.__control_word;
#elif defined(__aarch64__)
    return floating.__fpcr;
#else
    static_cast<void>(floating);
    return static_cast<uint64_t>(std::fegetround());
#endif
}

bool are_same(const sigset_t &a, const sigset_t &b) {
    for (int signal = 1; signal < NSIG; ++signal) {
        if (sigismember(&a, signal) != sigismember(&b, signal)) {
            return false;
        }
    }
    return true;
}

} // namespace

ProcessState::ProcessState() : locale_(std::setlocale(LC_ALL, nullptr)), folder_(folder()) {
    std::fegetenv(&floating_);
    pthread_sigmask(SIG_SETMASK, nullptr, &signals_);
}

std::string ProcessState::restore() const {
    std::string changed;
    const auto add = [&](const char *what) { changed += (changed.empty() ? "" : ", ") + std::string(what); };
    const ProcessState now;
    if (control_of(now.floating_) != control_of(floating_)) {
        add("the rounding or flush-to-zero mode of floating-point numbers");
        std::fesetenv(&floating_);
    }
    if (!are_same(now.signals_, signals_)) {
        add("the set of blocked signals");
        pthread_sigmask(SIG_SETMASK, &signals_, nullptr);
    }
    if (now.locale_ != locale_ || now.cpp_locale_ != cpp_locale_) {
        add("the locale");
        std::locale::global(cpp_locale_); // may also set the locale of C
        (void)std::setlocale(LC_ALL, locale_.c_str());
    }
    if (now.folder_ != folder_) {
        add("the working directory");
        std::error_code gone;
        std::filesystem::current_path(folder_, gone);
    }
    return changed;
}

} // namespace opdock::plugin_check
