// call_target is the hot path; tests/bench measures what it does and does not do. Anything rare is in
// a function of its own, to keep the path straight.
#include "dispatch/dispatch.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "dispatch/cpu_fallback.hpp"
#include "dispatch/memo.hpp"
#include "dispatch/quick_call.hpp"
#include "dispatch/run_chain.hpp"
#include "signature/bind.hpp"
#include "signature/layout.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

// `why`, extended by the implementation that would serve on the CPU if the policy allowed it.
Error with_cpu_hint(const CallHost &host, const OpEntry &op, const OpPolicy &policy, const Bound &bound,
                    const Error &why) {
    constexpr DLDevice cpu{kDLCPU, 0};
    const Catalog &catalog = host.catalog();
    const Decision there =
        host.decide(catalog.declared(op.name), host.effective_policy(), host.key_for(catalog, cpu, &bound.dtypes), cpu);
    if (there.chain.empty() || policy.required_beyond(there.policy) != nullptr) {
        return why;
    }
    return {why.status(),
            fmt::format(
                "{}\nWith fallback_to_cpu (PLUGIN_FALLBACK_TO_CPU=1), {} would serve the call on the CPU, on copies.",
                why.what(), there.chain.front().impl_id)};
}

// Makes a call on the CPU that nothing on the device serves, if the policy allows it; otherwise throws `why`.
opdock_status call_on_cpu(CallHost &host, OpEntry &op, const OpPolicy &policy, const Bound &bound,
                          const opdock_args &args, const Error &why) {
    const bool nobody_serves = why.status() == OPDOCK_ALL_DROPPED || why.status() == OPDOCK_ALL_FAILED;
    if (!nobody_serves || bound.device.device_type == kDLCPU ||
        find_provider(host.devices().providers(), bound.device.device_type) == nullptr) {
        throw why;
    }
    if (!policy.value(settings::fallback_to_cpu)) {
        throw policy.value(settings::strict) ? why : with_cpu_hint(host, op, policy, bound, why);
    }
    const auto refused = [&](const std::string &because) {
        return Error(why.status(), fmt::format("{}\nThe call does not run on the CPU either (fallback_to_cpu, {}): {}.",
                                               why.what(), policy.source(settings::fallback_to_cpu), because));
    };
    if (policy.value(settings::strict)) {
        throw refused("strict is set (" + policy.source(settings::strict) + ")");
    }
    if (host.devices().is_capturing(bound.device, args.stream)) {
        throw refused("the stream is being captured");
    }
    if (const auto *required = policy.required_beyond(host.effective_policy().effective(op.name, "cpu", 0))) {
        throw refused(required->source +
                      " requires contracts that are not required on the CPU; require them there too");
    }
    host.note_cpu_fallback(op.name, bound.device, policy.source(settings::fallback_to_cpu), why.what());
    const CatalogOp &declared = host.catalog().declared(op.name);
    const CpuCopies copies(host.devices(), *declared.signature, bound, args);
    const opdock_status status =
        call_slowly(nullptr, op, copies.args(),
                    why.status() == OPDOCK_ALL_DROPPED ? Count::after_all_dropped : Count::after_all_failed);
    if (status == OPDOCK_OK) {
        copies.copy_back();
        return status;
    }
    return leave_error(status, fmt::format("{}\nOn the CPU (fallback_to_cpu, {}): {}", why.what(),
                                           policy.source(settings::fallback_to_cpu), opdock_last_error()));
}

// Tries the previous calls of this thread, newest first.
[[gnu::noinline]] opdock_status look_back(const Target &target, OpEntry &op, const opdock_args &args) {
    CallThread &thread = *known_call_thread();
    Way &latest = thread.latest[op.index % CallThread::n_latest];
    const Memo *const tried = latest.target_id == target.id ? latest.memo : nullptr;
    if (op.index < thread.n_slots && thread.slots[op.index] != nullptr) {
        for (const Way way : thread.slots[op.index]->ways) { // a copy: the kernel may make calls of its own
            opdock_status status = OPDOCK_OK;
            if (way.target_id == target.id && way.memo != tried && way.memo->quick.attempt(*way.memo, args, &status)) {
                latest = way;
                return status;
            }
        }
    }
    return call_slowly(&target, op, args);
}

template<class Matching>
opdock_status call_or_look_back(const Target &target, OpEntry &op, const opdock_args &args, Memo &memo) {
    opdock_status status = OPDOCK_OK;
    if (call_quickly<Matching>(memo, args, &status)) [[likely]] {
        return status;
    }
    return look_back(target, op, args);
}

template<class Matching>
bool attempt(Memo &memo, const opdock_args &args, opdock_status *status) {
    return call_quickly<Matching>(memo, args, status);
}

template<class Matching>
constexpr QuickWay quick_way_of() {
    return {call_or_look_back<Matching>, attempt<Matching>};
}

// Handles a thread that has no state yet, has scopes, is inside a kernel that calls another op, or
// still holds a message from an earlier kernel.
[[gnu::noinline]] opdock_status call_in_context(OpEntry &op, const opdock_args &args) {
    CallThread *thread = known_call_thread();
    if (thread == nullptr) {
        return call_slowly(nullptr, op, args);
    }
    thread->forget_message();
    if ((thread->flags & ~ThreadState::scoped) != 0) {
        return call_slowly(nullptr, op, args);
    }
    try {
        const Target &target = [&]() -> const Target & {
            const Uncancellable host_work;
            return op.host->target_of(op, *thread);
        }();
        const Way &latest = thread->latest[op.index % CallThread::n_latest];
        return latest.target_id == target.id ? latest.memo->quick.call(target, op, args, *latest.memo)
                                             : look_back(target, op, args);
    } catch (...) {
        opdock::detail::let_cancellation_pass();
        return leave_current_exception();
    }
}

} // namespace

QuickWay quick_way(const Memo &memo) {
    static constexpr uint32_t most_inputs = 4, most_outputs = 3;
    static constexpr QuickWay usual_ways[most_outputs][most_inputs] = {
        {quick_way_of<UsualCall<1, 1>>(), quick_way_of<UsualCall<2, 1>>(), quick_way_of<UsualCall<3, 1>>(),
         quick_way_of<UsualCall<4, 1>>()},
        {quick_way_of<UsualCall<1, 2>>(), quick_way_of<UsualCall<2, 2>>(), quick_way_of<UsualCall<3, 2>>(),
         quick_way_of<UsualCall<4, 2>>()},
        {quick_way_of<UsualCall<1, 3>>(), quick_way_of<UsualCall<2, 3>>(), quick_way_of<UsualCall<3, 3>>(),
         quick_way_of<UsualCall<4, 3>>()},
    };
    const uint32_t n_outputs = memo.shape.n_tensors - memo.n_inputs;
    const bool usual = memo.n_inputs >= 1 && memo.n_inputs <= most_inputs && n_outputs >= 1 &&
                       n_outputs <= most_outputs && !memo.shape.signature->writes_inputs() &&
                       std::none_of(memo.given.begin(), memo.given.end(), [](const auto &one) { return one.special; });
    return usual ? usual_ways[n_outputs - 1][memo.n_inputs - 1] : quick_way_of<AnyCall>();
}

QuickWay no_quick_way() {
    return {[](const Target &target, OpEntry &op, const opdock_args &args, Memo & /*memo*/) {
                return look_back(target, op, args);
            },
            [](Memo & /*memo*/, const opdock_args & /*args*/, opdock_status * /*status*/) { return false; }};
}

opdock_status continue_after_head(Memo &memo, const opdock_args &given, opdock_status status) {
    const Uncancellable host_work;
    try {
        Pointers pointers{memo.data.data(), memo.attributes};
        void *const *data = memo.data.data();
        for (uint32_t i = 0; i < memo.shape.n_tensors; ++i) {
            const uint32_t alias = memo.quick_tensors.at(i).alias;
            pointers.aliased |= alias != i && data[i] != nullptr && data[i] == data[alias];
        }
        const opdock_args args = full_args(given);
        Run run{memo.head->host, call_thread(), memo, args, pointers, host_work, {}};
        try {
            return run_chain(run, &status);
        } catch (const Error &why) {
            return call_on_cpu(run.host, run.host.op(memo.chain.op->name), memo.chain.decision.policy,
                               bind(*memo.shape.signature, args), args, why);
        }
    } catch (...) {
        opdock::detail::let_cancellation_pass();
        return leave_current_exception();
    }
}

opdock_status call_target(const opdock_target *given, opdock_op *handle, const opdock_args *args) {
    const auto &target = static_cast<const Target &>(*given);
    auto &op = static_cast<OpEntry &>(*handle);
    CallThread *thread = known_call_thread();
    if (thread == nullptr || thread->flags != 0) [[unlikely]] {
        return call_in_context(op, *args);
    }
    const Way &latest = thread->latest[handle->index % CallThread::n_latest];
    return latest.target_id == target.id ? latest.memo->quick.call(target, op, *args, *latest.memo)
                                         : look_back(target, op, *args);
}

opdock_status leave_error(opdock_status status, std::string message) {
    thread_state().forget_message();
    thread_state().error = std::move(message);
    return status;
}

opdock_status leave_current_exception() noexcept {
    try {
        try {
            throw;
        } catch (const Error &error) {
            return leave_error(error.status(), error.what());
        } catch (const std::bad_alloc &) {
            return leave_error(OPDOCK_OUT_OF_MEMORY, "opdock ran out of memory");
        } catch (const std::exception &exception) {
            return leave_error(OPDOCK_INTERNAL_ERROR, std::string("opdock: ") + exception.what());
        }
    } catch (...) { // no memory even for the message
        if (opdock_thread_state != nullptr) {
            opdock_thread_state->error = "out of memory"; // short enough to need no allocation
        }
        return OPDOCK_OUT_OF_MEMORY;
    }
}

namespace {

bool is_pinned(const CallHost &host, const Way &way) {
    return way.memo != nullptr && way.host_id == host.id() &&
           std::any_of(way.memo->attempts.begin(), way.memo->attempts.end(),
                       [](const auto &attempt) { return attempt->pins.load(std::memory_order_relaxed) != 0; });
}

// This thread's memo for a validated call, created if there is none. `given`: the caller's arguments;
// `args`: the same with all fields.
Memo &memo_for(CallHost &host, CallThread &thread, const OpEntry &op, const Target &target, const Bound &bound,
               const opdock_args &given, const opdock_args &args, Pointers &pointers) {
    Slot &slot = thread.slot(op.index);
    for (size_t i = 0; i < Slot::n_ways; ++i) {
        Way &way = slot.ways.at(i);
        if (way.target_id == target.id && matches(*way.memo, given, pointers)) {
            std::rotate(slot.ways.begin(), slot.ways.begin() + static_cast<std::ptrdiff_t>(i),
                        slot.ways.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            thread.latest[op.index % CallThread::n_latest] = slot.ways.front();
            return *slot.ways.front().memo;
        }
        pointers.aliased = false;
    }
    std::shared_ptr<const Chain> chain = host.chain_for(target, bound.device, bound.dtypes);
    // Publishing the chain gave the op a new target; remember the call under that one. If another
    // policy came into force meanwhile, calls no longer use the old one.
    const Target &current = host.target_of(op, thread);
    const uint64_t target_id = current.find(bound.device, bound.dtypes) == chain.get() ? current.id : target.id;
    chain = host.chain_for_call(std::move(chain), *target.view, bound);
    Memo &memo = host.adopt(std::make_unique<Memo>(std::move(chain), bound, args, given.struct_size, host));
    // The oldest way is dropped, unless its kernel is further up this thread's stack. They cannot all
    // be: the slot is deeper than kernels can nest, since implementations never call themselves.
    auto oldest = slot.ways.end() - 1;
    while (oldest != slot.ways.begin() && is_pinned(host, *oldest)) {
        --oldest;
    }
    if (oldest->memo != nullptr && oldest->host_id == host.id() && !is_pinned(host, *oldest)) {
        host.release(oldest->memo);
    }
    std::rotate(slot.ways.begin(), oldest, oldest + 1);
    slot.ways.front() = {target_id, host.id(), &memo};
    thread.latest[op.index % CallThread::n_latest] = slot.ways.front();
    return memo;
}

} // namespace

opdock_status call_slowly(const Target *target, OpEntry &op, const opdock_args &given, std::optional<Count> fallback) {
    const Uncancellable host_work;
    try {
        refuse_op_calls();
        const opdock_args args = full_args(given);
        CallHost &host = *op.host;
        CallThread &thread = call_thread();
        if (target == nullptr) {
            target = &host.target_of(op, thread);
        }
        const std::shared_ptr<const View> kept = target->view->shared_from_this(); // held: plugins' code may run
        const CatalogOp &declared = target->view->catalog.declared(op.name);
        const Bound bound = bind(*declared.signature, args);
        host.devices().check(bound.device);
        if (target->find(bound.device, bound.dtypes) == nullptr &&
            host.devices().is_capturing(bound.device, args.stream)) {
            throw Error(OPDOCK_NOT_PREPARED,
                        fmt::format("op '{}': the stream is being captured and the op was never "
                                    "resolved for these dtypes; prepare the call before the capture",
                                    op.name));
        }
        try {
            std::vector<void *> data(bound.tensors.size());
            std::vector<opdock_value> attributes = bound.attributes;
            Pointers pointers{data.data(), attributes.data()};
            Memo &memo = memo_for(host, thread, op, *target, bound, given, args, pointers);
            std::transform(bound.tensors.begin(), bound.tensors.end(), data.begin(), first_element);
            attributes = bound.attributes;
            for (size_t i = 0; i < attributes.size(); ++i) {
                if (points_elsewhere(attributes[i])) {
                    attributes[i] = memo.shape.attributes[i]; // equal, and alive as long as the problem
                }
            }
            pointers.aliased = bound.writes_inputs && !declared.signature->writes_inputs();
            Run run{host, thread, memo, args, pointers, host_work, fallback};
            return run_chain(run);
        } catch (const Error &why) {
            const PolicyStack &policy = target->view->policy;
            return call_on_cpu(host, op,
                               policy.effective(op.name,
                                                device_type(host.devices().providers(), bound.device.device_type),
                                                bound.device.device_id),
                               bound, args, why);
        }
    } catch (...) {
        opdock::detail::let_cancellation_pass();
        return leave_current_exception();
    }
}

} // namespace opdock::core
