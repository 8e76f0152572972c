#include "dispatch/prepare.hpp"

#include <spdlog/fmt/fmt.h>

#include "host/host.hpp"
#include "load/plugin_call.hpp"
#include "signature/bind.hpp"
#include "text/error.hpp"

namespace opdock::core {

namespace {

// The first run of an implementation: written down, then the kernel's own.
opdock_status first_run(const opdock_problem *problem, const opdock_call *call) {
    Attempt &attempt = *static_cast<Attempt *>(problem->host_data);
    Journal::Open entry = attempt.host.note_first_call(attempt.deployment);
    const opdock_status status = [&] {
        try {
            return attempt.kernel(problem, call);
        } catch (...) {
            opdock::detail::let_cancellation_pass();
            entry.close();
            throw;
        }
    }();
    entry.close();
    __atomic_store_n(&attempt.prepared->kernel, attempt.kernel, __ATOMIC_RELAXED);
    return status;
}

} // namespace

Prepared::Prepared(Host &host, std::unique_ptr<CallShape> of, std::unique_ptr<Attempt> chosen)
    : opdock_prepared{chosen->kernel, &chosen->problem, chosen->workspace_size}, shape(std::move(of)),
      attempt(std::move(chosen)), generation(host.generation()), current_generation(&host.generation_counter()) {
    if (!attempt->deployment.was_called()) {
        attempt->prepared = this;
        kernel = first_run;
    }
}

std::unique_ptr<Prepared> prepare(OpEntry &op, const opdock_args &args, const PolicyPtr &policy) {
    Host &host = *op.host;
    const uint64_t generation = host.generation(); // before anything is read: what changes from here on makes it stale
    PolicyStack stack = host.effective_policy();
    if (policy != nullptr) {
        stack.scopes.push_back(policy);
    }
    const auto target_of_thread = [&]() -> HeldTarget {
        const Target &found = host.target_of(op, thread_state());
        return {found.view->shared_from_this(), &found};
    };
    const HeldTarget held = policy != nullptr ? host.target_under(op, std::move(stack)) : target_of_thread();
    const Target &target = *held.target;
    const CatalogOp &declared = *target.view->catalog.find(op.name);
    const Bound bound = bind(*declared.signature, args, Pointing::optional);
    host.check_device(bound.device);
    const std::shared_ptr<const Chain> kept = host.chain_for(target, bound.device, bound.dtypes);
    const Chain &chain = *kept;
    std::vector<void *> data;
    for (const DLTensor *tensor : bound.tensors) {
        data.push_back(first_element(tensor));
    }
    auto shape = std::make_unique<CallShape>(*declared.signature, bound);
    const bool strict = chain.decision.policy.strict;
    std::string tried;
    for (const Link &link : chain.links) {
        auto attempt = std::make_unique<Attempt>(host, *link.deployment);
        attempt->fits = fits_form(*link.implementation->form, *declared.signature, bound);
        opdock_status status = known_status(attempt->prepare(*shape, true), bound.device, attempt->reason);
        if (status == OPDOCK_OK && !attempt->map.empty()) {
            // run() hands the caller's pointers on as they are, in the order of the op's longest form.
            status = OPDOCK_UNSUPPORTED;
            attempt->reason = "it knows a shorter signature, which prepared calls do not translate";
        }
        if (std::string why = attempt->misalignment(*shape, data.data()); status == OPDOCK_OK && !why.empty()) {
            status = OPDOCK_UNSUPPORTED;
            attempt->reason = std::move(why);
        }
        if (status == OPDOCK_OK) {
            auto prepared = std::make_unique<Prepared>(host, std::move(shape), std::move(attempt));
            prepared->generation = generation;
            thread_state().forget_message(); // what was said so far is not about the runs to come
            return prepared;
        }
        const std::string outcome =
            fmt::format("'{}' returned {}: {}", link.implementation->impl_id, status_text(status), attempt->reason);
        if (status == OPDOCK_DEVICE_LOST) {
            host.lose_device(bound.device, outcome);
            throw Error(status, fmt::format("op '{}': {}", op.name, outcome));
        }
        if (strict) {
            throw Error(status, fmt::format("op '{}': {}\nNothing else is tried because strict is set ({}).", op.name,
                                            outcome, chain.decision.policy.strict_source));
        }
        if (status == OPDOCK_INVALID_ARGUMENT || status == OPDOCK_OUT_OF_MEMORY) {
            throw Error(status, fmt::format("op '{}': {}", op.name, outcome));
        }
        tried += "\n  " + outcome;
    }
    throw Error(OPDOCK_ALL_FAILED, fmt::format("op '{}': no implementation can be prepared for this call on {}:{}",
                                               op.name, device_text(host.catalog().providers, bound.device), tried));
}

std::string failed_run_text(const Prepared &prepared, opdock_status status) {
    std::string said;
    said.swap(thread_state().message);
    std::string text =
        !said.empty() ? said
                      : fmt::format("op '{}': '{}' returned {}: it gave no reason", prepared.shape->signature->name,
                                    prepared.attempt->implementation.impl_id, status_text(status));
    if (status == OPDOCK_UNSUPPORTED) {
        // One line, so that who knows the remedy can leave it out.
        text +=
            fmt::format("\n'{}' let this call be prepared and declines it only now, so that each run fails. Call the "
                        "op without preparing it, which goes on to the next implementation, or prepare it with a "
                        "policy that chooses another one. Its vendor can decline such calls in `supports`, which "
                        "is asked before.",
                        prepared.attempt->implementation.impl_id);
    }
    return text;
}

std::string too_few_pointers_text(const Prepared &prepared, uint64_t given) {
    return fmt::format("op '{}' has {} tensors, {} given", prepared.shape->signature->name, prepared.shape->n_tensors,
                       given == 1 ? "1 pointer was" : fmt::format("{} pointers were", given));
}

} // namespace opdock::core
