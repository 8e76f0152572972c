// Decisions as the call path uses them: immutable and interned.
//
//   handle -> Target -> Chain (one for each device and dtypes met) -> Link -> Implementation
//
// A View is one effective policy over one catalog; it owns a Target for each op. A handle points to its op's Target in
// the view of the process; a thread with a scoped policy finds its Target in the scope's view. A change of policy
// points the handles to another view's targets, which may be an old one; a change of catalog, health or availability
// starts a new epoch with new views.
//
// A view of the process lives as long as the host, since calls read it without a lock. One of a scope is held by the
// threads that are in such a scope, and a few that nobody is in are kept for the next: how many policies a program
// makes up has no bound.
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
    const Chain *older = nullptr; // of the same op in the same view, which owns both
    const CatalogOp *op;
    DLDevice device;
    std::vector<uint32_t> dtypes;
    bool scoped = false; // under the scopes of a thread
    Decision decision;
    std::vector<Link> links; // what is left to try, in order
    // When one that failed too often may be tried again; such a chain keeps out of the quick way.
    std::optional<Deployment::Clock::time_point> retry_at;
    // Who served the last call, as the log has it; null while the log owes a line. Changes that come too quickly for a
    // line each are counted.
    mutable std::atomic<const Implementation *> serving{nullptr};
    mutable std::atomic<const Implementation *> served_last{nullptr};
    mutable LinePause changes;
    // A bit for each link and what became of it when it was first tried, as far as the log has told of both. What it
    // has not told of waits for no pause.
    mutable std::atomic<uint64_t> told_reasons{0};
    // The same with another link in front, for calls that `measured` has so. Guarded by the ledger's lock; the view
    // owns them.
    mutable std::vector<const Chain *> measured;

    // The log tells of the next change at once. Under the ledger's lock.
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
    const Policy flattened; // two stacks that come to the same share a view
    // By OpEntry::number; null until first needed.
    mutable std::vector<std::atomic<const Target *>> targets;

    // Guarded by the ledger's lock.
    mutable bool is_of_process = false; // or was
    mutable std::vector<std::unique_ptr<const Target>> kept_targets;
    mutable std::vector<std::shared_ptr<const Chain>> kept_chains;
};

// An op of a host. What a handle really is.
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

// Both destroy targets, and so come after what a target is.
inline View::View(const Catalog &of, uint64_t in_epoch, PolicyStack under, Policy as_one, size_t n_ops)
    : catalog(of), epoch(in_epoch), policy(std::move(under)), flattened(std::move(as_one)), targets(n_ops) {}
inline View::~View() = default;

// A target, and what keeps it.
struct HeldTarget {
    std::shared_ptr<const View> view;
    const Target *target;
};

} // namespace opdock::core
