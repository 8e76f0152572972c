#include "dispatch/deployment.hpp"

#include <algorithm>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "load/deferred_plugin.hpp"
#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"

namespace opdock::core {

// A nested one never waits: two threads could wait for each other.
class Deployment::Asking {
  public:
    explicit Asking(Deployment &deployment) : lock_(deployment.asking_, std::defer_lock), asker_(deployment.asker_) {
        if (thread_state().n_asking == 0) {
            lock_.lock();
        } else if (!lock_.try_lock()) {
            return;
        }
        ++thread_state().n_asking;
        asker_ = std::this_thread::get_id();
    }
    ~Asking() {
        if (lock_.owns_lock()) {
            asker_ = std::thread::id();
            --thread_state().n_asking;
        }
    }
    Asking(const Asking &) = delete;
    Asking &operator=(const Asking &) = delete;

    bool is_refused() const { return !lock_.owns_lock(); }
    static constexpr const char *refused =
        "available() or device_init() of another implementation made the call while a thread was querying this one";

  private:
    std::unique_lock<std::mutex> lock_;
    std::atomic<std::thread::id> &asker_;
};

Deployment::Deployment(const Implementation &implementation, DLDevice device, CallCounts &counts, const CallHost &host)
    : implementation_(implementation), device_(device), counts_(counts), host_(host) {}

Deployment::~Deployment() = default;

Availability Deployment::availability_before_use(const Implementation &implementation) {
    if (const DeferredPlugin *plugin = implementation.deferred) {
        const DeferredPlugin::Outcome *outcome = plugin->outcome();
        if (outcome == nullptr) {
            return {};
        }
        if (outcome->rejection) {
            return {Availability::no, plugin->unavailable(*outcome->rejection)};
        }
    }
    return {implementation.has_conditions() ? Availability::unknown : Availability::yes, {}};
}

Availability Deployment::known_availability() const {
    Availability before = availability_before_use(implementation_);
    if (before.answer != Availability::unknown) {
        return before;
    }
    const std::lock_guard lock(mutex_);
    return availability_;
}

Availability Deployment::ask_availability() {
    if ((thread_state().flags & ThreadState::registering) != 0) { // for example by asking for an explanation
        return {Availability::no, "a plugin's entry must not call ops: it only registers what the plugin provides"};
    }
    if (asker_ == std::this_thread::get_id()) {
        return {Availability::no, "its available() or device_init() made the call, but must not call its own op"};
    }
    if (DeferredPlugin *plugin = implementation_.deferred) {
        if (const Rejection *rejection = plugin->open()) {
            return {Availability::no, plugin->unavailable(*rejection)};
        }
    }
    const Tenancy::Visit visit(implementation_.tenancy.get());
    if (visit.is_refused()) { // for good, so a decision moves on to other implementations
        const std::lock_guard lock(mutex_);
        availability_ = {Availability::no, Tenancy::gone};
        return availability_;
    }
    const Callbacks &callbacks = implementation_.callbacks();
    if (!implementation_.has_conditions()) {
        return {Availability::yes, {}};
    }
    const Asking asking(*this);
    if (asking.is_refused()) {
        return {Availability::no, Asking::refused};
    }
    Availability answer = known_availability();
    if (answer.answer == Availability::unknown) {
        answer.reason = host_.devices().missing(device_);
        if (answer.reason.empty()) {
            answer.reason = host_.devices().query(implementation_, device_);
        }
        answer.answer = answer.reason.empty() ? Availability::yes : Availability::no;
        if (answer.reason.empty() && callbacks.available != nullptr) {
            const CurrentDevice current = host_.devices().enter(device_);
            opdock_status status = current.status();
            if (status == OPDOCK_OK) {
                status = call_plugin([&] { return callbacks.available(&host_.api(), callbacks.user_data, device_); });
            }
            answer.answer = status == OPDOCK_OK ? Availability::yes : Availability::no;
            answer.reason = take_message(status);
        }
        const std::lock_guard lock(mutex_);
        availability_ = answer;
    }
    return answer;
}

Availability Deployment::forget_availability() {
    const std::lock_guard lock(mutex_);
    return std::exchange(availability_, Availability{});
}

opdock_status Deployment::device_state(void **state, std::string *reason) {
    *state = nullptr;
    const Callbacks &callbacks = implementation_.callbacks();
    if (callbacks.device_init == nullptr) {
        return OPDOCK_OK;
    }
    const Asking asking(*this);
    if (asking.is_refused()) {
        *reason = Asking::refused;
        return OPDOCK_UNSUPPORTED;
    }
    if (!initialized_) {
        const opdock_status status =
            call_plugin([&] { return callbacks.device_init(&host_.api(), callbacks.user_data, device_, &state_); });
        if (status != OPDOCK_OK) {
            *reason = "device_init: " + take_message(status);
            return status;
        }
        initialized_ = true;
    }
    *state = state_;
    return OPDOCK_OK;
}

DeploymentTuning *Deployment::tuning() {
    if (!has_read_tuning_.load(std::memory_order_acquire)) {
        const std::lock_guard reading(reading_tuning_);
        if (!has_read_tuning_.load(std::memory_order_relaxed)) {
            tuning_ = host_.configs().of(host_.catalog(), implementation_, device_);
            has_read_tuning_.store(true, std::memory_order_release);
        }
    }
    return tuning_.get();
}

void Deployment::finish() {
    if (asker_ == std::this_thread::get_id()) {
        return; // the function being asked called exit()
    }
    const Asking asking(*this);
    if (initialized_) {
        initialized_ = false;
        const Callbacks &callbacks = implementation_.callbacks();
        // If entering the device fails, the state's host resources are still released.
        const CurrentDevice current = host_.devices().enter(device_);
        call_plugin([&] {
            callbacks.device_fini(&host_.api(), callbacks.user_data, device_, state_);
            return OPDOCK_OK;
        });
    }
}

bool Deployment::count_failure(const std::string &reason) {
    const int32_t failures = consecutive_failures_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (failures < failure_limit || out_.exchange(true, std::memory_order_relaxed)) {
        return false;
    }
    const std::lock_guard lock(mutex_);
    out_reason_ = fmt::format("failed {} times in a row, last with: {}", failure_limit, reason);
    return true;
}

bool Deployment::take_out(const std::string &reason) {
    const std::lock_guard lock(mutex_);
    if (out_.exchange(true, std::memory_order_relaxed)) {
        return false;
    }
    out_reason_ = reason;
    retry_at_.reset();
    return true;
}

std::string Deployment::out_reason() const {
    const std::lock_guard lock(mutex_);
    return out_reason_;
}

std::chrono::nanoseconds Deployment::retry_after(Clock::time_point now, std::chrono::nanoseconds pause) {
    constexpr std::chrono::nanoseconds longest = std::chrono::hours(1);
    const std::lock_guard lock(mutex_);
    pause_ = std::max(pause, std::min(2 * pause_, longest));
    retry_at_ = now + pause_;
    return pause_;
}

std::optional<Deployment::Clock::time_point> Deployment::retry_at() const {
    const std::lock_guard lock(mutex_);
    return is_out() ? retry_at_ : std::nullopt;
}

bool Deployment::try_again(Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    if (!is_out() || !retry_at_ || now < *retry_at_) {
        return false;
    }
    consecutive_failures_.store(failure_limit - 1, std::memory_order_relaxed);
    out_reason_.clear();
    retry_at_.reset();
    out_.store(false, std::memory_order_relaxed);
    return true;
}

bool Deployment::reset_health() {
    const std::lock_guard lock(mutex_);
    retry_at_.reset();
    pause_ = {};
    consecutive_failures_.store(0, std::memory_order_relaxed);
    out_reason_.clear();
    return out_.exchange(false, std::memory_order_relaxed);
}

} // namespace opdock::core
