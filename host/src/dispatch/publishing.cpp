// Makes decisions and publishes them to the handles. Everything here happens under the ledger's lock
// and off the call path; calls read the published values.
#include <algorithm>
#include <cstring>

#include <spdlog/fmt/fmt.h>

#include "dispatch/call_host.hpp"
#include "dispatch/dispatch.hpp"
#include "load/plugin_call.hpp"
#include "resolve/resolve_error.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// Number of views of scopes that are kept although no thread is in such a scope.
constexpr size_t most_idle_views = 64;

// True if only the ledger owns it; nobody can obtain it without the ledger's lock.
bool is_idle(const std::shared_ptr<View> &view) {
    return !view->is_of_process && view.use_count() == 1;
}

uint64_t next_target_id() {
    static std::atomic<uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
}

// Everything in a key except the architecture.
Key key_of_device(const Catalog &catalog, DLDevice device) {
    Key key;
    key.device_type = device_type(catalog.providers, device.device_type);
    key.device_index = device.device_id;
    const DeviceProvider *provider = find_provider(catalog.providers, device.device_type);
    key.ordered_architectures =
        provider != nullptr && (provider->table.flags & OPDOCK_DEVICE_ORDERED_ARCHITECTURES) != 0;
    return key;
}

} // namespace

Deployment &CallHost::deployment(Ledger &ledger, const Implementation &implementation, DLDevice device) const {
    const std::pair key(&implementation, device_key(device));
    const auto found = ledger.deployments.find(key);
    if (found != ledger.deployments.end()) {
        return *found->second;
    }
    // Created before its map entry: an entry without a deployment would be met when the host closes.
    return *ledger.deployments
                .emplace(key, std::make_unique<Deployment>(implementation, device, counts_.of(implementation), *this))
                .first->second;
}

const Target &CallHost::make_target(const View &view, OpEntry &op, const Chain *newest) {
    auto target = std::make_unique<Target>();
    target->call = call_target;
    target->id = next_target_id();
    target->op = &op;
    target->view = &view;
    target->newest = newest;
    const Target &made = *view.kept_targets.emplace_back(std::move(target));
    view.targets[op.number].store(&made, std::memory_order_release);
    if (view_.load(std::memory_order_relaxed) == &view) {
        __atomic_store_n(&op.target, static_cast<const opdock_target *>(&made), __ATOMIC_RELEASE);
    }
    return made;
}

const Target &CallHost::target_in(const View &view, const OpEntry &op) {
    const Target *target = view.targets[op.number].load(std::memory_order_acquire);
    return target != nullptr ? *target : make_target(view, const_cast<OpEntry &>(op), nullptr);
}

std::shared_ptr<View> CallHost::view_for(Ledger &ledger, PolicyStack policy) {
    const uint64_t epoch = epoch_.load(std::memory_order_relaxed);
    const Policy flattened = policy.flattened();
    size_t idle = 0;
    for (const auto &view : ledger.views) {
        if (view->epoch == epoch && view->flattened == flattened) {
            return view;
        }
        idle += is_idle(view) ? 1 : 0;
    }
    // Drops the oldest views, and all of old epochs, which no policy can reach any more.
    std::erase_if(ledger.views, [&](const auto &view) {
        const bool goes = is_idle(view) && (view->epoch != epoch || idle > most_idle_views);
        idle -= goes ? 1 : 0;
        return goes;
    });
    const size_t n_ops = ops_.load(std::memory_order_acquire)->size();
    return ledger.views.emplace_back(
        std::make_shared<View>(*catalog_.load(std::memory_order_acquire), epoch, std::move(policy), flattened, n_ops));
}

void CallHost::publish(Ledger &ledger, const PolicyStack *policy) {
    if (policy == nullptr) {
        epoch_.fetch_add(1, std::memory_order_relaxed);
    }
    const std::shared_ptr<View> held = view_for(ledger, policy != nullptr ? *policy : process_policy());
    View &view = *held;
    view.is_of_process = true;
    const std::vector<OpEntry *> &ops = *ops_.load(std::memory_order_acquire);
    for (const OpEntry *op : ops) {
        (void)target_in(view, *op); // may run out of memory: before anything is in force
    }
    if (policy != nullptr) {
        policy_.store(policy, std::memory_order_release);
    }
    const bool other_view = view_.exchange(&view, std::memory_order_acq_rel) != &view;
    for (OpEntry *op : ops) {
        const Target &target = target_in(view, *op);
        for (const Chain *chain = target.newest; chain != nullptr; chain = chain->older) {
            if (other_view) { // an old view: another implementation may have served meanwhile
                chain->forget_serving();
            }
        }
        __atomic_store_n(&op->target, static_cast<const opdock_target *>(&target), __ATOMIC_RELEASE);
    }
    policy_generation_.fetch_add(1, std::memory_order_release);
    generation_.fetch_add(1, std::memory_order_release);
}

Deployment &CallHost::deployment_of(const Implementation &implementation, DLDevice device) const {
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    return deployment(book, implementation, device);
}

const Target &CallHost::target_of(const OpEntry &op, CallThread &thread) {
    for (auto scope = thread.scopes.rbegin(); scope != thread.scopes.rend(); ++scope) {
        if (scope->host_id != id_) {
            continue;
        }
        const uint64_t generation = policy_generation_.load(std::memory_order_acquire);
        if (scope->policy_generation != generation) {
            PolicyStack policy = effective_policy();
            Ledger &locked = ledger();
            const std::lock_guard lock(locked.mutex);
            scope->view = view_for(locked, std::move(policy));
            scope->policy_generation = generation;
        }
        if (const Target *target = scope->view->targets[op.number].load(std::memory_order_acquire)) {
            return *target;
        }
        Ledger &locked = ledger();
        const std::lock_guard lock(locked.mutex);
        return target_in(*scope->view, op);
    }
    return *static_cast<const Target *>(__atomic_load_n(&op.target, __ATOMIC_ACQUIRE));
}

HeldTarget CallHost::target_under(const OpEntry &op, PolicyStack policy) {
    Ledger &locked = ledger();
    const std::lock_guard lock(locked.mutex);
    std::shared_ptr<const View> view = view_for(locked, std::move(policy));
    const Target &target = target_in(*view, op);
    return {std::move(view), &target};
}

Key CallHost::key_for(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> *dtypes) const {
    Key key = key_of_device(catalog, device);
    key.any_dtypes = dtypes == nullptr;
    if (dtypes != nullptr) {
        key.dtypes = *dtypes;
    }
    key.architecture = devices_.architecture(device);
    return key;
}

Key CallHost::listing_key(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> &dtypes) const {
    Key key = key_of_device(catalog, device);
    key.dtypes = dtypes;
    if (device.device_type == kDLCPU) { // the host's own device
        key.architecture = devices_.architecture(device);
        return key;
    }
    key.any_architecture = !devices_.known_architecture(device, &key.architecture);
    return key;
}

Decision CallHost::decide(const CatalogOp &op, const PolicyStack &policy, const Key &key, DLDevice device,
                          const std::string &missing) const {
    std::vector<Contender> contenders(op.implementations.size());
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    for (size_t i = 0; i < contenders.size(); ++i) {
        const Implementation &implementation = *op.implementations[i];
        contenders[i].candidate = &implementation;
        // An implementation that the device type rules out has no deployment here, so nothing is known about it.
        if (same_name(implementation.device, key.device_type)) {
            const auto here = book.deployments.find({&implementation, device_key(device)});
            if (!missing.empty()) {
                contenders[i].availability = {Availability::no, missing};
            } else if (here == book.deployments.end()) {
                contenders[i].availability = Deployment::availability_before_use(implementation);
            } else {
                contenders[i].availability = here->second->known_availability();
                contenders[i].health = {!here->second->is_out(), here->second->out_reason()};
            }
        }
    }
    return resolve(contenders, key, policy.effective(op.name, key.device_type, key.device_index));
}

std::shared_ptr<const Chain> CallHost::chain_for(const Target &target, DLDevice device,
                                                 const std::vector<uint32_t> &dtypes) {
    if (const Chain *chain = target.find(device, dtypes)) {
        return chain->shared_from_this();
    }
    if (is_idle_child_.load(std::memory_order_relaxed) && is_idle_child_.exchange(false, std::memory_order_relaxed)) {
        work_in_child();
    }
    const Catalog &catalog = target.view->catalog;
    const CatalogOp &op = catalog.declared(target.op->name);
    // Starts at the head: only implementations that may be chosen are asked whether they are available.
    const Key key = key_for(catalog, device, &dtypes);
    Decision decision;
    for (;;) {
        decision = decide(op, target.view->policy, key, device);
        if (retry_failed(op, decision, device)) {
            continue;
        }
        if (op.implementations.empty()) {
            throw no_implementation_error(op.name, std::vector{op.plugin}, catalog.rejected_plugins());
        }
        if (decision.chain.empty()) {
            throw all_dropped_error(op.name, key, decision);
        }
        const Implementation &head = *op.implementations[decision.chain.front().id];
        Deployment &there = deployment_of(head, device);
        if (there.known_availability().answer != Availability::unknown) {
            break;
        }
        const Availability answer = there.ask_availability();
        if (there.known_availability().answer == Availability::unknown) { // asking is impossible on this thread now
            throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("op '{}': cannot determine whether '{}' is available: {}",
                                                             op.name, head.impl_id, answer.reason));
        }
    }
    Ledger &book = ledger();
    const std::lock_guard lock(book.mutex);
    const Target &current = target_in(*target.view, *target.op);
    if (const Chain *chain = current.find(device, dtypes)) {
        return chain->shared_from_this(); // another thread was faster
    }
    auto chain = std::make_shared<Chain>();
    chain->older = current.newest;
    chain->op = &op;
    chain->device = device;
    chain->dtypes = dtypes;
    chain->scoped = !target.view->policy.scopes.empty();
    for (const Kept &kept : decision.chain) {
        const Implementation &implementation = *op.implementations[kept.id];
        chain->links.push_back({&implementation, &deployment(book, implementation, device)});
    }
    for (const Deployment *out : waiting_for_retry(book, op, decision, device)) {
        const auto at = out->retry_at();
        chain->retry_at = at && (!chain->retry_at || *at < *chain->retry_at) ? at : chain->retry_at;
    }
    chain->decision = std::move(decision);
    target.view->kept_chains.push_back(chain);
    make_target(*target.view, *target.op, chain.get());
    return chain;
}

} // namespace opdock::core
