#include "observe/background_thread.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <thread>
#include <utility>

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace opdock::core {
namespace {

using Clock = std::chrono::steady_clock;

// The number that background threads wait on: it changes when one of them has work to check for. Never
// freed, since signal handlers may run at any time.
constinit std::atomic<uint32_t> bell{0};
// Number of requests made to all of them.
constinit std::atomic<uint32_t> asked_all{0};

static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof bell == sizeof(uint32_t));

uint32_t *word(std::atomic<uint32_t> &number) {
    return reinterpret_cast<uint32_t *>(&number);
}

void ring() noexcept {
    const int before = errno; // belongs to the code that a signal interrupted
    bell.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, word(bell), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
    errno = before;
}

// Waits until the bell differs from `heard`, or until `due`, or less.
void wait(uint32_t heard, Clock::time_point due) {
    timespec until{};
    if (due != Clock::time_point::max()) {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(due);
        until = {static_cast<time_t>(seconds.time_since_epoch().count()), static_cast<long>((due - seconds).count())};
    }
    // CLOCK_MONOTONIC, as for steady_clock.
    syscall(SYS_futex, word(bell), FUTEX_WAIT_BITSET_PRIVATE, heard, due != Clock::time_point::max() ? &until : nullptr,
            nullptr, FUTEX_BITSET_MATCH_ANY);
}

Clock::time_point later(Clock::time_point now, std::chrono::nanoseconds interval) {
    return interval > Clock::time_point::max() - now ? Clock::time_point::max() : now + interval;
}

// Applies to the calling thread, whose mask is inherited by threads that it starts.
class AllSignalsBlocked {
  public:
    AllSignalsBlocked() {
        sigset_t all{};
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~AllSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    AllSignalsBlocked(const AllSignalsBlocked &) = delete;
    AllSignalsBlocked &operator=(const AllSignalsBlocked &) = delete;

  private:
    sigset_t before_{};
};

} // namespace

// State shared by the thread and its owner.
struct BackgroundThread::Running {
    const pid_t process = ::getpid();
    std::atomic<bool> is_started{false}; // or could not be started
    std::atomic<bool> ends{false};
    std::atomic<bool> asked{false};
    std::thread thread;
    const Running *older = nullptr;

    void start(const BackgroundThread &of) {
        const AllSignalsBlocked blocked;
        // A later request to all threads reaches this one too, whenever it begins to run.
        thread = std::thread([this, &of, asked_before = asked_all.load(std::memory_order_acquire)] {
            pthread_setname_np(pthread_self(), of.name_.c_str());
            run(of.interval_, of.work_, asked_before);
        });
    }

    void run(std::chrono::nanoseconds interval, const Work &work, uint32_t asked_before) {
        Clock::time_point due = later(Clock::now(), interval);
        for (;;) {
            const uint32_t heard = bell.load(std::memory_order_acquire);
            if (ends.load(std::memory_order_acquire)) {
                return;
            }
            const uint32_t asked_now = asked_all.load(std::memory_order_acquire);
            const bool is_asked = asked.exchange(false, std::memory_order_acq_rel) || asked_now != asked_before;
            asked_before = asked_now;
            if (!is_asked && Clock::now() < due) {
                wait(heard, due);
                continue;
            }
            try {
                work();
            } catch (...) { // NOLINT(bugprone-empty-catch): no memory, say; the next time it may work
            }
            due = later(Clock::now(), interval);
        }
    }

    // Those of parent processes. Their threads are not in this process and cannot be ended; pointed to, so no leak.
    static constinit const Running *abandoned;
};

constinit const BackgroundThread::Running *BackgroundThread::Running::abandoned = nullptr;

BackgroundThread::BackgroundThread(std::string name, std::chrono::nanoseconds interval, Work work)
    : name_(std::move(name)), interval_(interval), work_(std::move(work)), running_(std::make_unique<Running>()) {
    running_->is_started = true;
    running_->start(*this);
}

BackgroundThread::~BackgroundThread() {
    if (running_->process != ::getpid()) { // a copy of the process made without libc's fork
        abandon();
    } else if (running_->thread.joinable()) {
        running_->ends.store(true, std::memory_order_release);
        ring();
        running_->thread.join();
    }
}

void BackgroundThread::ask() noexcept {
    running_->asked.store(true, std::memory_order_release);
    ring();
}

void BackgroundThread::ask_all() noexcept {
    asked_all.fetch_add(1, std::memory_order_release);
    ring();
}

void BackgroundThread::abandon() noexcept {
    running_->older = Running::abandoned;
    Running::abandoned = running_.release();
}

void BackgroundThread::start_over_in_child() {
    auto fresh = std::make_unique<Running>();
    abandon();
    running_ = std::move(fresh);
}

bool BackgroundThread::start_in_child() noexcept {
    if (running_->is_started.load(std::memory_order_relaxed) ||
        running_->is_started.exchange(true, std::memory_order_relaxed)) {
        return true;
    }
    try {
        running_->start(*this);
        return true;
    } catch (...) {
        return false;
    }
}

} // namespace opdock::core
