// Decisions as the call path uses them: immutable and interned.
//
//   handle -> Target -> Chain (one for each device and dtypes met) -> Link -> Implementation
//
// A View is one effective policy over one catalog; it owns a Target for each op. A handle points to its op's Target in
// the view of the process; a thread with a scoped policy finds its Target in the scope's view. A change of policy
// points the handles to another view's targets, which may be an old one; a change of catalog, health or availability
// starts a new epoch with new views.
//
// A view of the process lives as long as the host, since calls read it without a lock. A view of a
// scope is held by the threads in such a scope; a few unused ones are kept for reuse, but not all,
// since a program may create any number of policies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/deployment.hpp"
#include "dispatch/line_pause.hpp"
#include "policy/policy_stack.hpp"
#include "resolve/catalog.hpp"
#include "resolve/resolve.hpp"

namespace opdock::core {

class CallHost;
struct Target;

struct Link {
    const Implementation *implementation;
    Deployment *deployment;
};

struct Chain : std::enable_shared_from_this<Chain> {
    const Chain *older = nullptr; // of the same op in the same view; the view owns both
    const CatalogOp *op;
    DLDevice device;
    std::vector<uint32_t> dtypes;
    bool scoped = false; // created under the scopes of a thread
    Decision decision;
    std::vector<Link> links; // implementations left to try, in order
    // The time of the next retry of one that failed too often. Such a chain is kept off the quick way.
    std::optional<Deployment::Clock::time_point> retry_at;
    // The implementation that served the last call, as logged; null while a line is owed. Changes that
    // come too quickly for a line each are counted.
    mutable std::atomic<const Implementation *> serving{nullptr};
    mutable std::atomic<const Implementation *> served_last{nullptr};
    mutable LinePause changes;
    // One bit per link and outcome of its first try, set once logged. An outcome not logged yet is
    // written without a pause.
    mutable std::atomic<uint64_t> told_reasons{0};
    // The same chain with another link in front, for calls where `measured` selected it. Guarded by
    // the ledger's lock; owned by the view.
    mutable std::vector<const Chain *> measured;

    // Makes the log report the next change at once. Requires the ledger's lock.
    void forget_serving() const {
        serving.store(nullptr, std::memory_order_relaxed);
        changes.end();
        for (const Chain *one : measured) {
            one->forget_serving();
        }
    }
};

struct View : std::enable_shared_from_this<View> {
    View(const Catalog &of, uint64_t in_epoch, PolicyStack under, Policy as_one, size_t n_ops);
    View(const View &) = delete;
    View &operator=(const View &) = delete;
    ~View();

    const Catalog &catalog;
    const uint64_t epoch;
    const PolicyStack policy;
    const Policy flattened; // stacks with equal results share a view
    // By OpEntry::number; null until first needed.
    mutable std::vector<std::atomic<const Target *>> targets;

    // Guarded by the ledger's lock.
    mutable bool is_of_process = false; // is, or was, a view of the process
    mutable std::vector<std::unique_ptr<const Target>> kept_targets;
    mutable std::vector<std::shared_ptr<const Chain>> kept_chains;
};

// An op of a host. Every handle points to one.
struct OpEntry : opdock_op {
    std::string name;
    CallHost *host = nullptr;
    uint32_t number = 0; // within the host; `index` is unique in the process
};

struct Target : opdock_target {
    uint64_t id = 0; // never used twice in a process
    OpEntry *op = nullptr;
    const View *view = nullptr;
    const Chain *newest = nullptr;

    const Chain *find(DLDevice device, const std::vector<uint32_t> &dtypes) const {
        for (const Chain *chain = newest; chain != nullptr; chain = chain->older) {
            if (same_device(chain->device, device) && chain->dtypes == dtypes) {
                return chain;
            }
        }
        return nullptr;
    }
};

// Both destroy targets, so they follow the definition of Target.
inline View::View(const Catalog &of, uint64_t in_epoch, PolicyStack under, Policy as_one, size_t n_ops)
    : catalog(of), epoch(in_epoch), policy(std::move(under)), flattened(std::move(as_one)), targets(n_ops) {}
inline View::~View() = default;

// A target and the view that keeps it alive.
struct HeldTarget {
    std::shared_ptr<const View> view;
    const Target *target;
};

} // namespace opdock::core
