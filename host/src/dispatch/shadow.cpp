#include "dispatch/shadow.hpp"

#include <optional>
#include <utility>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "dispatch/call_host.hpp"
#include "dispatch/shadow_run.hpp"
#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"
#include "observe/call_files.hpp"

namespace opdock::core {
namespace {

// Marks the thread, since calls made by a shadow have no shadows of their own.
class InShadow {
  public:
    explicit InShadow(CallThread &thread) : thread_(thread) { thread_.is_in_shadow = true; }
    ~InShadow() { thread_.is_in_shadow = false; }
    InShadow(const InShadow &) = delete;
    InShadow &operator=(const InShadow &) = delete;

  private:
    CallThread &thread_;
};

void tell(const Attempt &attempt, ShadowCount count, const std::string &what) {
    CallHost &host = attempt.host;
    attempt.deployment.counts().add(count);
    if (count == ShadowCount::agreed) {
        return;
    }
    if (const auto more = attempt.deployment.shadow_lines().pass(host.now())) {
        const std::string line = fmt::format("Op '{}' on {}: {}{}", attempt.implementation.op,
                                             host.devices().text(attempt.problem.device), what, *more);
        host.log().write(count == ShadowCount::disagreed ? OPDOCK_LOG_WARNING : OPDOCK_LOG_INFO, line);
    }
}

// A call that is examined, and the reason.
struct Looked {
    const Attempt &attempt;
    bool is_compared; // compared with a shadow
    uint64_t number;  // the call number to write it for; 0: none
};

bool may_be_written(const Looked &looked) {
    const CallFiles *files = looked.attempt.host.call_files();
    return looked.number != 0 || (files != nullptr && files->takes(looked.attempt.deployment.call_files()));
}

// Errors in work beside the program's call are logged and do not affect that call.
template<class Work>
void beside(const Looked &looked, Work work) {
    const Uncancellable host_work;
    const Attempt &attempt = looked.attempt;
    try {
        const InShadow no_others(call_thread());
        work();
    } catch (const std::exception &error) {
        if (looked.is_compared) {
            tell(attempt, ShadowCount::left_out,
                 fmt::format("a call of '{}' has no shadow: {}", attempt.implementation.impl_id, error.what()));
        } else if (const auto more = attempt.deployment.shadow_lines().pass(attempt.host.now())) {
            attempt.host.log().warning(fmt::format("Op '{}': a call of '{}' is not written: {}{}",
                                                   attempt.implementation.op, attempt.implementation.impl_id,
                                                   error.what(), *more));
        }
    }
}

// Counts and logs the comparison, and removes an implementation with wrong results where the rule says so.
void tell_compared(const Attempt &attempt, const ShadowRun &run) {
    const std::string &difference = run.difference();
    tell(
        attempt, difference.empty() ? ShadowCount::agreed : ShadowCount::disagreed,
        fmt::format("'{}' and its shadow '{}' disagree: {}", attempt.implementation.impl_id, run.shadow(), difference));
    if (!difference.empty() && attempt.shadow.rule->drops) {
        attempt.host.drop_wrong(attempt.deployment,
                                fmt::format("it and its shadow '{}' disagree ({}): {}", run.shadow(),
                                            attempt.host.shadow_source(), difference));
    }
}

void write_call(const Looked &looked, const ShadowRun &run) {
    const Attempt &attempt = looked.attempt;
    CallFiles &files = *attempt.host.call_files();
    std::string told;
    if (files.reserve(run.bytes(), &told)) {
        told = looked.number != 0 ? files.write(run.file(), looked.number)
                                  : files.write(run.file(), attempt.deployment.call_files());
    }
    if (!told.empty()) {
        attempt.host.log().warning(fmt::format("Op '{}' on {}: {}", attempt.implementation.op,
                                               attempt.host.devices().text(attempt.problem.device), told));
    }
}

opdock_status run_looked_at(const Looked &looked, const opdock_problem *problem, const opdock_call *call) {
    const Attempt &attempt = looked.attempt;
    std::optional<ShadowRun> run;
    beside(looked, [&] { run.emplace(attempt, *call, may_be_written(looked)); });
    const opdock_status status = attempt.shadow.kernel(problem, call);
    if (run && status == OPDOCK_OK) {
        if (looked.is_compared) {
            beside(looked, [&] {
                run->compare();
                tell_compared(attempt, *run);
            });
        }
        if (may_be_written(looked) && (looked.number != 0 || !run->difference().empty())) {
            beside({attempt, false, looked.number}, [&] { write_call(looked, *run); });
        }
        thread_state().forget_message(); // the shadow's message
    }
    return status;
}

} // namespace

opdock_status run_with_shadow(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = *static_cast<Attempt *>(problem->host_data);
    Shadow &shadow = attempt.shadow;
    const CallThread *thread = known_call_thread();
    if (thread != nullptr && thread->is_in_shadow) {
        return shadow.kernel(problem, call);
    }
    const bool is_compared =
        shadow.rule != nullptr && shadow.calls.fetch_add(1, std::memory_order_relaxed) % shadow.rule->one_in == 0;
    const uint64_t number = shadow.written != nullptr ? attempt.deployment.number_call() : 0;
    const bool is_written = number != 0 && number >= shadow.written->first && number <= shadow.written->last;
    if (!is_compared && !is_written) [[likely]] {
        return shadow.kernel(problem, call);
    }
    return run_looked_at({attempt, is_compared, is_written ? number : 0}, problem, call);
}

} // namespace opdock::core
