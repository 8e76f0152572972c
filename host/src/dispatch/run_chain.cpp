#include "dispatch/run_chain.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/workspace.hpp"
#include "load/plugin_call.hpp"
#include "resolve/resolve_error.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

void remember_launch(CallThread &thread, const Attempt &attempt) {
    thread.launches.at(thread.n_launches % thread.launches.size()) = {attempt.host.id(), &attempt.implementation,
                                                                      attempt.deployment.device()};
    ++thread.n_launches;
}

// Returns for example "rmsnorm_fwd (vendor.acme), gelu (vendor.acme)", the latest first.
std::string recent_launches(const CallThread &thread, const CallHost &host, DLDevice device) {
    std::string text;
    const size_t kept = std::min<size_t>(thread.n_launches, thread.launches.size());
    for (size_t back = 1; back <= kept; ++back) {
        const Launch &launch = thread.launches.at((thread.n_launches - back) % thread.launches.size());
        if (launch.host_id == host.id() && same_device(launch.device, device)) {
            text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", launch.implementation->op,
                                launch.implementation->impl_id);
        }
    }
    return text;
}

// Calls the kernel of an attempt that is ready, unless an earlier step fails; *ran is set accordingly.
// On failure *reason holds the message.
opdock_status invoke(Run &run, Attempt &attempt, std::string *reason, bool *ran) {
    *reason = attempt.misalignment(run.memo.shape, run.pointers.data);
    if (!reason->empty()) {
        return OPDOCK_UNSUPPORTED;
    }
    std::copy_n(run.pointers.attributes, attempt.attributes.size(), attempt.attributes.begin());
    std::vector<void *> mapped;
    for (const uint32_t tensor : attempt.map) {
        mapped.push_back(run.pointers.data[tensor]);
    }
    const CurrentDevice current(run.host.api(), attempt.provider, run.memo.shape.device.device_id);
    if (current.status() != OPDOCK_OK) {
        *reason = take_message(current.status());
        return current.status();
    }
    Workspace workspace(attempt, run.args);
    const opdock_status has_workspace = workspace.provide(reason);
    if (has_workspace != OPDOCK_OK) {
        return has_workspace;
    }
    if (attempt.provider != nullptr) {
        remember_launch(run.thread, attempt);
    }
    const opdock_call call{OPDOCK_STRUCT_SIZE(opdock_call, workspace_size),
                           0,
                           attempt.problem.n_tensors,
                           0,
                           attempt.map.empty() ? run.pointers.data : mapped.data(),
                           run.args.stream,
                           workspace.memory(),
                           workspace.memory() != nullptr ? attempt.workspace_size : 0};
    *ran = true;
    Journal::Open entry = run.host.note_first_call(attempt.deployment);
    const opdock_status status = call_plugin([&] {
        const Cancellable kernel(run.host_work);
        return attempt.kernel(&attempt.problem, &call);
    });
    entry.close();
    if (status != OPDOCK_OK) {
        *reason = take_message(status);
    }
    return status;
}

opdock_status fail_call(const Run &run, opdock_status status, const Attempt &attempt, const std::string &reason,
                        const std::string &remark = {}) {
    return leave_error(status, fmt::format("op '{}': '{}' returned {}: {}{}{}", run.memo.chain.op->name,
                                           attempt.implementation.impl_id, status_text(status), reason,
                                           remark.empty() ? "" : "\n", remark));
}

// Handles an implementation that did not serve; true if the next one may be tried. `ran`: its kernel was called.
bool may_fall_back(Run &run, Attempt &attempt, opdock_status status, bool ran, const std::string &reason,
                   opdock_status *result) {
    // A lost device is not counted against an implementation: it is detected late, by any later call.
    const bool counts = status == OPDOCK_FAILED || status == OPDOCK_FAILED_CLEAN;
    if (counts && !run.host.is_frozen() && attempt.deployment.count_failure(reason)) {
        run.host.drop_failed(run.memo.chain, attempt.deployment);
    }
    if (status == OPDOCK_INVALID_ARGUMENT || status == OPDOCK_OUT_OF_MEMORY) {
        *result = fail_call(run, status, attempt, reason);
        return false;
    }
    if (status == OPDOCK_DEVICE_LOST) {
        const std::string launches = recent_launches(run.thread, run.host, run.memo.shape.device);
        const std::string remark =
            launches.empty() ? "" : "The last launches on this thread, any of which may be the cause: " + launches;
        *result = fail_call(run, status, attempt, reason, remark);
        run.host.lose_device(run.memo.shape.device, run.thread.error);
        return false;
    }
    if (run.memo.chain.decision.policy.value(settings::strict)) {
        *result = fail_call(run, status, attempt, reason,
                            "Nothing else is tried because strict is set (" +
                                run.memo.chain.decision.policy.source(settings::strict) + ").");
        return false;
    }
    if (status == OPDOCK_UNSUPPORTED || status == OPDOCK_FAILED_CLEAN || !ran) {
        return true;
    }
    if (run.memo.shape.signature->writes_inputs() || run.pointers.aliased) {
        *result = fail_call(run, status, attempt, reason,
                            "Nothing else is tried because the op writes an input, which may be partly written.");
        return false;
    }
    return true;
}

// `failures`: implementations tried before.
void note_served(Run &run, Attempt &attempt, const std::vector<Failure> &failures) {
    if (run.fallback) {
        attempt.counts->add(*run.fallback);
    }
    if (!serves_steadily(run.memo, attempt)) {
        attempt.deployment.count_success();
        run.host.note_serving(run.memo.chain, attempt.implementation, failures, run.fallback);
        run.host.retry_failed(run.memo.chain);
    }
}

} // namespace

opdock_status run_on_device(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = *static_cast<Attempt *>(problem->host_data);
    const Uncancellable host_work;
    const CurrentDevice current(attempt.host.api(), attempt.provider, attempt.deployment.device().device_id);
    if (current.status() != OPDOCK_OK) {
        return current.status() == OPDOCK_FAILED ? OPDOCK_FAILED_CLEAN : current.status();
    }
    remember_launch(*known_call_thread(), attempt);
    const Cancellable kernel(host_work);
    return attempt.kernel(problem, call);
}

opdock_status run_chain(Run &run, const opdock_status *head_status) {
    Memo &memo = run.memo;
    std::vector<Failure> failures;
    for (size_t i = 0; i < memo.attempts.size(); ++i) {
        Attempt &attempt = *memo.attempts[i];
        std::string reason;
        bool ran = true;
        opdock_status status = OPDOCK_OK;
        if (i == 0 && head_status != nullptr) {
            status = *head_status;
            reason = status == OPDOCK_OK ? "" : take_message(status);
        } else {
            if (is_active(run.thread, attempt.implementation)) {
                failures.push_back(
                    {attempt.implementation.impl_id, "is running on this thread and must not call itself"});
                run.fallback = run.fallback.value_or(Count::after_running);
                continue;
            }
            ran = false;
            if (!attempt.ready) {
                if (run.host.configs().mode() == TuneMode::online) {
                    run.host.tune_first_call(attempt.deployment,
                                             {memo.shape, run.pointers.data, run.pointers.attributes, run.args.stream});
                }
                status = attempt.prepare(memo.shape, true);
                reason = attempt.reason;
                if (i == 0 && status == OPDOCK_OK && attempt.plain && memo.repeats) {
                    memo.take_quickly(attempt);
                }
            }
            if (status == OPDOCK_OK) {
                status = invoke(run, attempt, &reason, &ran);
            }
        }
        status = known_status(status, run.memo.shape.device, reason);
        const Count outcome = outcome_of(status);
        attempt.counts->add(outcome);
        if (status == OPDOCK_OK) {
            note_served(run, attempt, failures);
            return OPDOCK_OK;
        }
        opdock_status result = status;
        if (!may_fall_back(run, attempt, status, ran, reason, &result)) {
            return result;
        }
        if (run.host.devices().is_capturing(memo.shape.device, run.args.stream)) {
            return fail_call(
                run, status, attempt, reason,
                "Nothing else is tried because the stream is being captured; prepare the call before the capture.");
        }
        failures.push_back({attempt.implementation.impl_id, fmt::format("{}: {}", status_text(status), reason)});
        run.fallback = run.fallback.value_or(fallback_after(outcome));
    }
    throw all_failed_error(memo.chain.op->name,
                           run.host.key_for(run.host.catalog(), memo.shape.device, &memo.shape.dtypes),
                           memo.chain.decision, failures);
}

} // namespace opdock::core
