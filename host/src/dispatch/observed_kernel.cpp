#include "dispatch/observed_kernel.hpp"

#include <new>

#include "dispatch/attempt.hpp"
#include "dispatch/call_thread.hpp"
#include "observe/call_observer.hpp"

namespace opdock::core {
namespace {

Attempt &observed_attempt(const opdock_problem *problem) {
    return *static_cast<Attempt *>(problem->host_data);
}

// Null if there is no memory for a cursor: the call is then not traced.
TraceCursor *cursor_of_thread() noexcept {
    try {
        return &call_thread().trace;
    } catch (const std::bad_alloc &) {
        return nullptr;
    }
}

// Lives from before a kernel starts until it returns or is left.
class TracedCall {
  public:
    explicit TracedCall(const ObservedCall &observed)
        : observed_(observed), cursor_(cursor_of_thread()), begin_(ticks()) {}
    ~TracedCall() {
        if (cursor_ != nullptr) {
            observed_.ring->add(*cursor_, observed_.call->trace_entry, begin_, ticks(), status);
        }
    }
    TracedCall(const TracedCall &) = delete;
    TracedCall &operator=(const TracedCall &) = delete;

    opdock_status status = OPDOCK_FAILED;

  private:
    const ObservedCall &observed_;
    TraceCursor *const cursor_;
    const uint64_t begin_;
};

// The same for a call that is sampled or runs on a device with its own timer.
class TimedCall {
  public:
    TimedCall(const ObservedCall &observed, uint64_t number, void *stream)
        : observed_(observed), number_(number), stream_(stream),
          events_(observed.timer != nullptr ? observed.timer->begin(stream) : DeviceTimer::Span()), begin_(ticks()) {}
    ~TimedCall() {
        const uint64_t end = ticks();
        const bool is_sampled = observed_.counts && CountedCall::is_sampled(number_) && status == OPDOCK_OK;
        uint64_t traced = 0;
        TraceCursor *const cursor = observed_.ring != nullptr ? cursor_of_thread() : nullptr;
        if (events_.begin != nullptr && status != OPDOCK_OK) {
            observed_.timer->drop(events_);
            events_ = {};
        }
        if (cursor != nullptr) {
            observed_.ring->add(*cursor, observed_.call->trace_entry, begin_, end, status);
            traced = TraceRing::number_of_last(*cursor);
        }
        if (is_sampled) {
            observed_.call->add_host_time(number_, observed_.clock->nanoseconds(end - begin_));
        }
        if (events_.begin != nullptr) {
            const auto told = [ring = traced != 0 ? observed_.ring : nullptr, traced,
                               call = is_sampled ? observed_.call : nullptr, number = number_](uint64_t nanoseconds) {
                if (ring != nullptr) {
                    ring->set_device_time(traced, nanoseconds);
                }
                if (call != nullptr) {
                    call->add_device_time(number, nanoseconds);
                }
            };
            observed_.timer->end(events_, stream_, told);
        }
    }
    TimedCall(const TimedCall &) = delete;
    TimedCall &operator=(const TimedCall &) = delete;

    opdock_status status = OPDOCK_FAILED;

  private:
    const ObservedCall &observed_;
    const uint64_t number_;
    void *const stream_;
    DeviceTimer::Span events_;
    const uint64_t begin_;
};

[[gnu::noinline]] opdock_status run_timed(const ObservedCall &observed, uint64_t number, const opdock_problem *problem,
                                          const opdock_call *call) {
    TimedCall timed(observed, number, call->stream);
    return timed.status = observed.kernel(problem, call);
}

uint64_t count_observed(Attempt &attempt) {
    return attempt.observed.call->count(attempt.observed_calls);
}

opdock_status observe_counted(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = observed_attempt(problem);
    const ObservedCall &observed = attempt.observed;
    const uint64_t number = count_observed(attempt);
    if (CountedCall::is_sampled(number)) [[unlikely]] {
        return run_timed(observed, number, problem, call);
    }
    return observed.kernel(problem, call);
}

opdock_status observe_traced(const opdock_problem *problem, const opdock_call *call) {
    const ObservedCall &observed = observed_attempt(problem).observed;
    TracedCall traced(observed);
    return traced.status = observed.kernel(problem, call);
}

opdock_status observe_traced_and_counted(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = observed_attempt(problem);
    const ObservedCall &observed = attempt.observed;
    const uint64_t number = count_observed(attempt);
    if (CountedCall::is_sampled(number)) [[unlikely]] {
        return run_timed(observed, number, problem, call);
    }
    return observe_traced(problem, call);
}

// For a device with its own timer, which is used for every call.
opdock_status observe_on_device(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = observed_attempt(problem);
    const ObservedCall &observed = attempt.observed;
    return run_timed(observed, observed.counts ? count_observed(attempt) : 0, problem, call);
}

// A profiler's range, which also ends if an exception leaves the kernel.
class Range {
  public:
    explicit Range(const ObservedCall &observed) : observed_(observed) { observed.ranges->begin(*observed.range); }
    ~Range() { observed_.ranges->end(); }
    Range(const Range &) = delete;
    Range &operator=(const Range &) = delete;

  private:
    const ObservedCall &observed_;
};

opdock_status observe_in_range(const opdock_problem *problem, const opdock_call *call) {
    const ObservedCall &observed = observed_attempt(problem).observed;
    const Range range(observed);
    return observed.in_range(problem, call);
}

opdock_kernel timing_kernel(const ObservedCall &observed) {
    if (observed.ring == nullptr) {
        return observed.counts ? observe_counted : observed.kernel;
    }
    if (observed.timer != nullptr) {
        return observe_on_device;
    }
    return observed.counts ? observe_traced_and_counted : observe_traced;
}

} // namespace

opdock_kernel observing_kernel(ObservedCall &observed) {
    const opdock_kernel timing = timing_kernel(observed);
    if (observed.ranges == nullptr) {
        return timing;
    }
    observed.in_range = timing;
    return observe_in_range;
}

} // namespace opdock::core
