#include "dispatch/prepare.hpp"

#include <array>
#include <optional>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_counts.hpp"
#include "dispatch/call_host.hpp"
#include "dispatch/dispatch.hpp"
#include "dispatch/workspace.hpp"
#include "load/cancellation.hpp"
#include "load/plugin_call.hpp"
#include "load/tenancy.hpp"
#include "resolve/resolve_error.hpp"
#include "signature/bind.hpp"
#include "text/error.hpp"

namespace opdock::core {

namespace {

Attempt &attempt_of(const opdock_problem *problem) {
    return *static_cast<Attempt *>(problem->host_data);
}

// For a thread that has no state yet (perhaps for lack of memory) or a large number.
[[gnu::noinline]] void count_elsewhere(const Attempt &attempt, Count outcome) noexcept {
    const Uncancellable host_work;
    CallCounts &counts = attempt.deployment.counts();
    try {
        counts.row(call_thread().number).add(outcome);
    } catch (...) {
        counts.add_without_row(outcome);
    }
}

[[gnu::always_inline]] inline void count_run(const Attempt &attempt, Count outcome) noexcept {
    const CallThread *const thread = known_call_thread();
    if (thread != nullptr && thread->number < CallCounts::n_first) [[likely]] {
        attempt.counts[thread->number].add(outcome);
    } else {
        count_elsewhere(attempt, outcome);
    }
}

// `run` returns the kernel's status. Its exceptions are passed on.
template<class Run>
[[gnu::always_inline]] inline opdock_status counted(const Attempt &attempt, Run run) {
    opdock_status status = OPDOCK_FAILED;
    try {
        status = run();
    } catch (...) {
        count_run(attempt, Count::failed);
        throw;
    }
    if (status == OPDOCK_OK) [[likely]] {
        count_run(attempt, Count::served);
    } else {
        count_run(attempt, outcome_of(status));
    }
    return status;
}

opdock_status run_counted(const opdock_problem *problem, const opdock_call *call) {
    const Attempt &attempt = attempt_of(problem);
    return counted(attempt, [&] { return attempt.kernel(problem, call); });
}

// Gives the kernel the caller's pointers in the order of the kernel's form.
opdock_status run_in_order(const opdock_problem *problem, const opdock_call *call) {
    const Attempt &attempt = attempt_of(problem);
    const std::vector<uint32_t> &sources = attempt.prepared->sources;
    constexpr size_t usual = 32; // number of pointers; lists may have more
    std::array<void *, usual> few;
    std::vector<void *> many;
    if (sources.size() > usual) {
        try {
            many.resize(sources.size());
        } catch (const std::bad_alloc &) {
            return problem->host->fail(problem->host, OPDOCK_OUT_OF_MEMORY,
                                       "no memory for the pointers of its tensors");
        }
    }
    void **const data = many.empty() ? few.data() : many.data();
    for (size_t i = 0; i < sources.size(); ++i) {
        data[i] = sources[i] == Prepared::none ? nullptr : call->data[sources[i]];
    }
    opdock_call ordered = *call;
    ordered.n_data = problem->n_tensors;
    ordered.data = data;
    return counted(attempt, [&] { return attempt.kernel(problem, &ordered); });
}

opdock_kernel kernel_of(const Prepared &prepared) {
    return prepared.sources.empty() ? run_counted : run_in_order;
}

// The first run of an implementation: recorded in the journal around the kernel's own run.
opdock_status first_run(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = attempt_of(problem);
    const opdock_kernel kernel = kernel_of(*attempt.prepared);
    Journal::Open entry = attempt.host.note_first_call(attempt.deployment);
    const opdock_status status = [&] {
        try {
            const opdock_status returned = kernel(problem, call);
            clear_cpu_flags();
            return returned;
        } catch (...) {
            opdock::detail::let_cancellation_pass();
            entry.close();
            throw;
        }
    }();
    entry.close();
    __atomic_store_n(&attempt.prepared->kernel, kernel, __ATOMIC_RELAXED);
    return status;
}

// See Prepared::sources.
std::vector<uint32_t> sources_of(const Attempt &attempt, const CallShape &shape, const opdock_args &args) {
    const uint32_t count = attempt.problem.n_tensors;
    std::vector<uint32_t> sources(count, Prepared::none);
    bool same = count == args.n_inputs + args.n_outputs;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t tensor = attempt.map.empty() ? i : attempt.map[i];
        if (tensor < shape.n_input_tensors) {
            sources[i] = tensor < args.n_inputs ? tensor : Prepared::none;
        } else if (tensor - shape.n_input_tensors < args.n_outputs) {
            sources[i] = args.n_inputs + (tensor - shape.n_input_tensors);
        }
        same &= sources[i] == i;
    }
    return same ? std::vector<uint32_t>() : sources;
}

} // namespace

Prepared::Prepared(CallHost &host, std::unique_ptr<CallShape> of, std::unique_ptr<Attempt> chosen,
                   const opdock_args &args)
    : opdock_prepared{OPDOCK_STRUCT_SIZE(opdock_prepared, alignment),
                      args.n_inputs + args.n_outputs,
                      nullptr,
                      &chosen->problem,
                      chosen->workspace_size,
                      chosen->implementation.alignment},
      shape(std::move(of)), attempt(std::move(chosen)), sources(sources_of(*attempt, *shape, args)),
      generation(host.generation()), current_generation(&host.generation_counter()) {
    attempt->prepared = this;
    attempt->counts = attempt->deployment.counts().first_rows();
    kernel = attempt->deployment.was_called() ? kernel_of(*this) : first_run;
}

namespace {

// The op's target under the policy in force combined with `policy`, which may be null.
HeldTarget target_for(OpEntry &op, const PolicyPtr &policy) {
    CallHost &host = *op.host;
    if (policy != nullptr) {
        host.refuse_when_frozen("be prepared under another policy");
        PolicyStack stack = host.effective_policy();
        stack.scopes.push_back(policy);
        return host.target_under(op, std::move(stack));
    }
    const Target &found = host.target_of(op, call_thread());
    return {found.view->shared_from_this(), &found};
}

// Throws Error if no other implementation may be tried after one that could not be prepared.
void check_may_go_on(const OpEntry &op, DLDevice device, opdock_status status, const std::string &outcome,
                     const OpPolicy &policy) {
    if (status == OPDOCK_DEVICE_LOST) {
        op.host->lose_device(device, outcome);
    } else if (policy.value(settings::strict)) {
        throw Error(status, fmt::format("op '{}': {}\nNothing else is tried because strict is set ({}).", op.name,
                                        outcome, policy.source(settings::strict)));
    }
    if (status == OPDOCK_DEVICE_LOST || status == OPDOCK_INVALID_ARGUMENT || status == OPDOCK_OUT_OF_MEMORY) {
        throw Error(status, fmt::format("op '{}': {}", op.name, outcome));
    }
}

} // namespace

std::unique_ptr<Prepared> prepare(OpEntry &op, const opdock_args &args, const PolicyPtr &policy) {
    refuse_op_calls();
    CallHost &host = *op.host;
    const uint64_t generation = host.generation(); // read first: any later change makes the call stale
    const HeldTarget held = target_for(op, policy);
    const Target &target = *held.target;
    const CatalogOp &declared = target.view->catalog.declared(op.name);
    const Bound bound = bind(*declared.signature, args, Pointing::optional);
    host.devices().check(bound.device);
    const std::shared_ptr<const Chain> kept =
        host.chain_for_call(host.chain_for(target, bound.device, bound.dtypes), *target.view, bound);
    const Chain &chain = *kept;
    std::vector<void *> data;
    for (const DLTensor *tensor : bound.tensors) {
        data.push_back(first_element(tensor));
    }
    auto shape = std::make_unique<CallShape>(*declared.signature, bound);
    std::string tried;
    std::vector<Failure> failures;
    std::optional<Count> fallback; // the outcome of the first one tried
    for (const Link &link : chain.links) {
        if (is_active(call_thread(), *link.implementation)) {
            tried += fmt::format("\n  '{}' is running on this thread and must not call itself",
                                 link.implementation->impl_id);
            fallback = fallback.value_or(Count::after_running);
            continue;
        }
        auto attempt = std::make_unique<Attempt>(host, *link.deployment);
        attempt->fits = fits_form(*link.implementation->form, *declared.signature, bound);
        opdock_status status = known_status(attempt->prepare(*shape, true), bound.device, attempt->reason);
        if (std::string why = attempt->misalignment(*shape, data.data()); status == OPDOCK_OK && !why.empty()) {
            status = OPDOCK_UNSUPPORTED;
            attempt->reason = std::move(why);
        }
        if (status == OPDOCK_OK) {
            auto prepared = std::make_unique<Prepared>(host, std::move(shape), std::move(attempt), args);
            prepared->generation = generation;
            host.note_serving(chain, *link.implementation, failures, fallback);
            thread_state().forget_message(); // earlier messages are not about the runs to come
            return prepared;
        }
        link.deployment->counts().row(call_thread().number).add(outcome_of(status));
        fallback = fallback.value_or(fallback_after(outcome_of(status)));
        const std::string outcome =
            fmt::format("'{}' returned {}: {}", link.implementation->impl_id, status_text(status), attempt->reason);
        check_may_go_on(op, bound.device, status, outcome, chain.decision.policy);
        tried += "\n  " + outcome;
        failures.push_back({link.implementation->impl_id, fmt::format("{}: {}", status_text(status), attempt->reason)});
    }
    throw Error(OPDOCK_ALL_FAILED, fmt::format("op '{}': no implementation can be prepared for this call on {}:{}",
                                               op.name, host.devices().text(bound.device), tried));
}

std::string failed_run_text(const Prepared &prepared, opdock_status status) {
    std::string said;
    said.swap(thread_state().message);
    std::string text =
        !said.empty() ? said
                      : fmt::format("op '{}': '{}' returned {}: it gave no reason", prepared.shape->signature->name,
                                    prepared.attempt->implementation.impl_id, status_text(status));
    Tenancy *const tenancy = prepared.attempt->implementation.tenancy.get();
    if (status == OPDOCK_UNSUPPORTED && Tenancy::Visit(tenancy).is_refused()) {
        text += "\nPrepare the call again to use what serves it now.";
    } else if (status == OPDOCK_UNSUPPORTED) {
        // On one line, so that a caller who knows the remedy can leave it out.
        text += fmt::format(
            "\n'{}' accepted the call when it was prepared but declines to run it, so each run fails. Call the op "
            "without preparing it, which tries the next implementation, or prepare it with a policy that chooses "
            "another implementation. The vendor can decline such calls in `supports`, which is called earlier.",
            prepared.attempt->implementation.impl_id);
    }
    return text;
}

opdock_status run_incomplete(const Prepared &prepared, const opdock_call &call) {
    const Uncancellable host_work;
    if (call.n_data != prepared.n_data) {
        throw Error(OPDOCK_INVALID_ARGUMENT,
                    fmt::format("op '{}': the call was prepared with {}, but {} given", prepared.shape->signature->name,
                                prepared.n_data == 1 ? "1 tensor" : fmt::format("{} tensors", prepared.n_data),
                                call.n_data == 1 ? "1 pointer is" : fmt::format("{} pointers are", call.n_data)));
    }
    opdock_args args = {};
    args.stream = call.stream;
    args.workspace = call.workspace;
    args.workspace_size = call.workspace_size;
    Workspace workspace(*prepared.attempt, args);
    std::string reason;
    if (const opdock_status status = workspace.provide(&reason); status != OPDOCK_OK) {
        throw Error(status, fmt::format("op '{}': '{}': {}", prepared.shape->signature->name,
                                        prepared.attempt->implementation.impl_id, reason));
    }
    opdock_call complete = call;
    complete.workspace = workspace.memory();
    complete.workspace_size = prepared.workspace_size;
    return status_of([&] {
        const Cancellable kernel(host_work);
        return __atomic_load_n(&prepared.kernel, __ATOMIC_RELAXED)(prepared.problem, &complete);
    });
}

} // namespace opdock::core
