#include "observe/call_observer.hpp"

#include <system_error>

#include <spdlog/fmt/fmt.h>

#include "files/replace_file.hpp"
#include "observe/record_text.hpp"
#include "observe/trace_file.hpp"

namespace opdock::core {
namespace {

std::string ring_path(const std::string &trace) {
    return trace + ".ring";
}

} // namespace

CallObserver::CallObserver(Options options, const Devices &devices, const Log &log)
    : options_(std::move(options)), devices_(devices), log_(log), table_(options_.most_calls),
      ranges_(ProfilerRanges::of_listening_profiler()) {
    start_trace();
    if (options_.record) {
        try {
            writer_ = std::make_unique<BackgroundThread>("opdock-record", options_.record_interval,
                                                         [this] { write_record(); });
        } catch (const std::system_error &error) {
            log_.warning(fmt::format("{}: the record is written only when the host closes: {}",
                                     options_.record->variable, error.what()));
        }
    }
}

CallObserver::~CallObserver() = default;

void CallObserver::start_trace() {
    if (!options_.trace) {
        return;
    }
    try {
        ring_ = std::make_unique<TraceRing>(ring_path(options_.trace->file.path().value_or("")), options_.trace_size);
    } catch (const std::exception &error) {
        log_.warning(fmt::format("{}: calls are not traced: {}", options_.trace->variable, error.what()));
    }
}

DeviceTimer *CallObserver::timer_of(DLDevice device, const DeviceProvider *provider) {
    if (provider == nullptr) {
        return nullptr;
    }
    auto &timer = timers_[device_key(device)];
    if (!timer) {
        timer = std::make_unique<DeviceTimer>(devices_.api(), *provider, device);
    }
    return timer.get();
}

ObservedCall CallObserver::observe(opdock_kernel kernel, CallText text, DLDevice device,
                                   const DeviceProvider *provider) {
    if (is_idle_child_.load(std::memory_order_relaxed)) {
        start_in_child();
    }
    const std::lock_guard lock(mutex_);
    CountedCall &call = table_.find(std::move(text), [this](CountedCall &added) {
        if (ring_) {
            const std::string arguments = added.is_described ? added.text.arguments() : "";
            added.trace_entry =
                ring_->describe({added.text.op, added.text.impl_id, added.text.device, arguments, added.text.config});
        }
    });
    ObservedCall observed;
    observed.kernel = kernel;
    observed.call = &call;
    observed.ring = ring_.get();
    observed.counts = is_counting();
    observed.clock = ring_ ? &ring_->clock() : &clock_;
    observed.timer = timer_of(device, provider);
    if (ranges_) {
        observed.ranges = ranges_.get();
        observed.range = ranges_->name(call.text.op + " " + call.text.impl_id);
    }
    return observed;
}

std::vector<Latency> CallObserver::latencies() const {
    const std::lock_guard lock(mutex_);
    return table_.latencies();
}

void CallObserver::write_record() noexcept {
    try {
        const std::optional<std::string> path = options_.record->file.path();
        if (!path) {
            return;
        }
        std::vector<const CountedCall *> calls;
        {
            const std::lock_guard lock(mutex_);
            calls = table_.by_time();
        }
        if (calls.empty()) {
            return; // an earlier process's results are worth more
        }
        clock_.compare();
        const std::string why = replace_file(*path, record_text(calls));
        if (!why.empty() && !has_warned_.exchange(true)) {
            log_.warning(fmt::format("{}: {}", options_.record->variable, why));
        }
    } catch (const std::exception &error) {
        if (!has_warned_.exchange(true)) {
            log_.warning(fmt::format("{}: the record is not written: {}", options_.record->variable, error.what()));
        }
    }
}

void CallObserver::write_trace() noexcept {
    const std::optional<std::string> path = ring_ && ring_->has_own_file() ? options_.trace->file.path() : std::nullopt;
    if (!path) {
        return;
    }
    std::string why;
    try {
        const Trace trace = read_trace(ring_->bytes(), ring_->path());
        why = trace.events.empty() ? "" : replace_file(*path, chrome_json(trace));
    } catch (const std::exception &error) {
        why = error.what();
    }
    if (why.empty()) {
        ring_->remove();
        return;
    }
    log_.warning(fmt::format("{}: {}\nThe trace is in {}; 'plugin-ls --trace' converts it to a readable form.",
                             options_.trace->variable, why, ring_->path()));
}

void CallObserver::ask_devices() noexcept {
    for (const auto &[device, timer] : timers_) {
        timer->finish();
    }
}

void CallObserver::finish() noexcept {
    State state = State::watches;
    if (!state_.compare_exchange_strong(state, State::finishes, std::memory_order_acq_rel)) {
        for (; state != State::finished; state = state_.load(std::memory_order_acquire)) {
            state_.wait(state, std::memory_order_acquire);
        }
        return;
    }
    writer_.reset();
    if (options_.record && !is_idle_child_.load(std::memory_order_relaxed)) {
        write_record();
    }
    write_trace();
    state_.store(State::finished, std::memory_order_release);
    state_.notify_all();
}

void CallObserver::before_fork() {
    mutex_.lock();
    for (const auto &[device, timer] : timers_) {
        timer->mutex().lock();
    }
}

void CallObserver::after_fork() {
    for (const auto &[device, timer] : timers_) {
        timer->mutex().unlock();
    }
    mutex_.unlock();
}

void CallObserver::start_over_in_child() {
    state_ = State::watches;
    is_idle_child_ = true;
    has_warned_ = false;
    table_.clear_counters();
    for (const auto &[device, timer] : timers_) {
        timer->forget();
    }
    if (writer_) {
        writer_->start_over_in_child();
    }
    if (ring_) {
        ring_->leave_to_parent();
    }
}

void CallObserver::start_in_child() {
    const std::lock_guard lock(mutex_);
    if (!is_idle_child_.exchange(false)) {
        return;
    }
    if (writer_ && options_.record->file.path()) {
        (void)writer_->start_in_child();
    }
    if (const auto path = ring_ ? options_.trace->file.path() : std::nullopt) {
        try {
            ring_->move_to(ring_path(*path));
        } catch (const std::exception &error) {
            log_.warning(fmt::format("{}: calls are not traced: {}", options_.trace->variable, error.what()));
        }
    }
}

} // namespace opdock::core
