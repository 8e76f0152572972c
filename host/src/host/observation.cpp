#include "host/observation.hpp"

#include <csignal>
#include <system_error>
#include <utility>

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include "files/replace_file.hpp"
#include "host/counters.hpp"
#include "host/host.hpp"
#include "host/serving_table.hpp"

namespace opdock::core {
namespace {

constexpr std::chrono::seconds usual_interval(10);

// Number of reports requested by signals, for all hosts: a signal reaches the whole process.
constinit std::atomic<uint32_t> asked_by_signal{0};

void ask_by_signal(int /*signal*/) {
    asked_by_signal.fetch_add(1, std::memory_order_release);
    BackgroundThread::ask_all();
}

// Returns false if the program handles or ignores the signal. The handler remains after the host is
// closed: a late signal must not end the process.
bool handle_signal() {
    struct sigaction now = {};
    if (sigaction(SIGUSR1, nullptr, &now) != 0) {
        return false;
    }
    if ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == ask_by_signal) {
        return true;
    }
    if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL) {
        return false;
    }
    struct sigaction ours = {};
    ours.sa_handler = ask_by_signal;
    ours.sa_flags = SA_RESTART;
    return sigaction(SIGUSR1, &ours, nullptr) == 0;
}

void print(const std::string &what, const std::string &table) {
    const std::string text = fmt::format("[opdock] process {}: {}\n{}", ::getpid(), what, table);
    for (std::string_view left = text; !left.empty();) {
        const ssize_t count = TEMP_FAILURE_RETRY(::write(STDERR_FILENO, left.data(), left.size()));
        if (count <= 0) {
            return; // nobody to report to
        }
        left.remove_prefix(static_cast<std::size_t>(count));
    }
}

} // namespace

Observation::Settings Observation::Settings::of(const Environment &environment) {
    Settings settings;
    settings.report = environment.report();
    const std::string *value = environment.find(Variable::metrics);
    if (value == nullptr) {
        return settings;
    }
    const Place place = environment.place(Variable::metrics);
    const std::size_t comma = value->rfind(',');
    settings.metrics.emplace(std::string_view(*value).substr(0, comma), place);
    settings.interval = usual_interval;
    if (comma != std::string::npos) {
        settings.interval = std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double>(parse_seconds(std::string_view(*value).substr(comma + 1), place)));
    }
    return settings;
}

Observation::Observation(const Host &host, Settings settings) : host_(host), settings_(std::move(settings)) {
    if (settings_.report != Report::off) {
        print("what serves each op", serving_table(host_.serving()));
    }
    if (settings_.report == Report::signal && !handle_signal()) {
        warn_once("SIGUSR1 prints no report, because the program handles or ignores that signal itself");
    }
    if (settings_.metrics || settings_.report == Report::signal) {
        asked_before_ = asked_by_signal.load(std::memory_order_acquire);
        start_thread();
    }
}

void Observation::start_thread() noexcept {
    try {
        thread_ = std::make_unique<BackgroundThread>("opdock-observe", settings_.interval, [this] { work(); });
    } catch (const std::exception &error) {
        warn_once(fmt::format(
            "The thread for METRICS and REPORT cannot be started, so their output comes only at the end: {}",
            error.what()));
    }
}

void Observation::work() {
    write_metrics();
    const uint32_t asked = asked_by_signal.load(std::memory_order_acquire);
    if (std::exchange(asked_before_, asked) != asked && settings_.report == Report::signal) {
        print_counters();
    }
}

void Observation::write_metrics() {
    const std::optional<std::string> path = settings_.metrics ? settings_.metrics->path() : std::nullopt;
    if (!path) {
        return;
    }
    const std::vector<CountedImplementation> counted = host_.counters();
    if (nothing_counted(counted)) {
        return; // a helper tool, or a child that runs another program: the file is not theirs
    }
    if (const std::string problem = replace_file(*path, open_metrics(counted, host_.latencies())); !problem.empty()) {
        warn_once(fmt::format("The file of call counters is not up to date: {}. Writing is tried again.", problem));
    }
}

void Observation::print_counters() const {
    const std::string table = counters_table(host_.counters());
    print(table.empty() ? "no op was called" : "number of calls of each implementation", table);
}

void Observation::warn_once(const std::string &what) {
    if (!has_warned_.exchange(true, std::memory_order_relaxed)) {
        host_.log().warning(what);
    }
}

void Observation::end() noexcept {
    State state = State::runs;
    if (!state_.compare_exchange_strong(state, State::ends, std::memory_order_acq_rel)) {
        for (; state != State::ended; state = state_.load(std::memory_order_acquire)) {
            state_.wait(state, std::memory_order_acquire);
        }
        return;
    }
    thread_.reset();
    try {
        write_metrics();
        if (settings_.report != Report::off) {
            print_counters();
        }
    } catch (...) { // NOLINT(bugprone-empty-catch): no memory for it
    }
    state_.store(State::ended, std::memory_order_release);
    state_.notify_all();
}

void Observation::start_over_in_child() {
    state_.store(State::runs, std::memory_order_relaxed);
    if (thread_) {
        thread_->start_over_in_child();
    }
}

void Observation::start_in_child() noexcept {
    if (thread_ && (settings_.report == Report::signal || settings_.metrics->path())) {
        (void)thread_->start_in_child();
    }
}

} // namespace opdock::core
