// The host as its calls know it: published values of what is registered and in force, which anyone may read without a
// lock, and a Ledger of what calls found out. A derived class brings plugins in.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/devices.hpp"
#include "dispatch/call_counts.hpp"
#include "dispatch/call_thread.hpp"
#include "dispatch/chain.hpp"
#include "dispatch/ledger.hpp"
#include "dispatch/shadow.hpp"
#include "observe/call_observer.hpp"
#include "opdock/opdock.h"
#include "resolve/resolve_error.hpp"
#include "signature/bind.hpp"
#include "signature/call_shape.hpp"
#include "text/log.hpp"
#include "tune/configs.hpp"

namespace opdock::core {

class CallFiles;

struct WorkspaceAllocator {
    decltype(opdock_options::allocate_workspace) allocate = nullptr;
    decltype(opdock_options::free_workspace) free = nullptr;
    void *user_data = nullptr;
};

struct TunedCall {
    const CallShape &shape;
    void *const *data; // shape.n_tensors pointers; null for tensors that are absent or have no elements
    const opdock_value *attributes;
    void *stream;
};

class CallHost {
  public:
    struct Options {
        const opdock_host_api &api;
        Log log;
        WorkspaceAllocator workspace;
        Devices::Ask ask_device_command;
        ConfigOptions configs;
        std::string journal_folder; // empty: no journal
        Deployment::Clock::time_point (*now)() = Deployment::Clock::now;
    };

    CallHost(const CallHost &) = delete;
    CallHost &operator=(const CallHost &) = delete;

    // Never used twice in a process.
    uint64_t id() const { return id_; }
    const Log &log() const { return log_; }
    const opdock_host_api &api() const { return devices_.api(); }
    const Devices &devices() const { return devices_; }
    const Configs &configs() const { return configs_; }
    const WorkspaceAllocator &workspace() const { return workspace_; }
    // Null where nobody watches the calls.
    CallObserver *observer() const { return observer_.get(); }
    // Of sampled calls; empty where nobody asked for them.
    std::vector<Latency> latencies() const { return observer_ ? observer_->latencies() : std::vector<Latency>(); }
    // Of calls that have shadows, and the variable that asks for them.
    std::span<const ShadowRule> shadow_rules() const { return shadow_rules_; }
    const std::string &shadow_source() const { return shadow_source_; }
    // Null where nobody wants files of calls.
    CallFiles *call_files() const { return call_files_.get(); }
    const Catalog &catalog() const { return *catalog_.load(std::memory_order_acquire); }
    // Grows with each change of anything that a decision depends on.
    uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
    const std::atomic<uint64_t> &generation_counter() const { return generation_; }
    Deployment::Clock::time_point now() const { return now_(); }
    bool is_frozen() const { return frozen_.load(std::memory_order_acquire); }
    // Throws Error(OPDOCK_FROZEN): "the host is frozen, so that nothing can {what}".
    void refuse_when_frozen(const char *what) const;

    // Null when nobody declared it.
    OpEntry *find_op(std::string_view name) const;
    // Throws Error(OPDOCK_UNKNOWN_OP) naming the nearest one.
    OpEntry &op(std::string_view name) const;
    // The policy in force on the calling thread.
    PolicyStack effective_policy() const;

    // The op's target under the policy of the process, or of the thread's scope.
    // It stays as long as the thread is in that scope and runs nothing that may change the policy.
    const Target &target_of(const OpEntry &op, CallThread &thread);
    // The target under one policy.
    HeldTarget target_under(const OpEntry &op, PolicyStack policy);
    // The chain for a call, made and published when the target has none yet. Throws Error when nothing is left to try.
    // The target is to be held meanwhile: plugins are asked whether they are available.
    std::shared_ptr<const Chain> chain_for(const Target &target, DLDevice device, const std::vector<uint32_t> &dtypes);
    // The chain for one call: that of its dtypes or, where the policy has `measured`, the same with another link in
    // front.
    std::shared_ptr<const Chain> chain_for_call(std::shared_ptr<const Chain> chain, const View &view,
                                                const Bound &bound);
    // Null dtypes: whatever they are.
    Key key_for(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> *dtypes) const;
    // The same without asking a provider: of a device that nobody has met yet the architecture may be any.
    Key listing_key(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> &dtypes) const;
    // `missing`: why there is no such device; nothing is available there.
    Decision decide(const CatalogOp &op, const PolicyStack &policy, const Key &key, DLDevice device,
                    const std::string &missing = {}) const;
    Deployment &deployment_of(const Implementation &implementation, DLDevice device) const;

    // Enters a first call into the journal, for the case that the process dies of it. The entry stands as long as the
    // returned value.
    Journal::Open note_first_call(Deployment &deployment) const noexcept;
    // TUNE=online: tunes what nobody tuned, before the first call of it. Never throws for want of a result.
    virtual void tune_first_call(Deployment &deployment, const TunedCall &call) = 0;

    Memo &adopt(std::unique_ptr<Memo> memo);
    void release(Memo *memo);
    // Writes the log line when `implementation` did not serve the op's last call. `failures`: those tried before it.
    // `fallback`: what became of the first of them.
    void note_serving(const Chain &chain, const Implementation &implementation, std::span<const Failure> failures,
                      std::optional<Count> fallback);
    // How often who serves an op changed without a line. When the host is closed.
    void tell_left_out() const;
    // Says once for each op and device that calls are served on the CPU, and why.
    void note_cpu_fallback(const std::string &op, DLDevice device, const std::string &source, const std::string &why);
    // An implementation left its chain: says for how long.
    void drop_failed(const Chain &chain, Deployment &deployment);
    // What a deployment computed is wrong: it leaves its chain until its health is reset, and the log says so. Nothing
    // in a frozen host, and where it has left already.
    void drop_wrong(Deployment &deployment, const std::string &reason);
    // Lets those of the chain's op that left it be tried again whose time has come: later calls find them.
    void retry_failed(const Chain &chain);
    void lose_device(DLDevice device, const std::string &message);

    uint64_t served_count(const char *op, const char *impl_id) const;
    // Of every implementation that could have been tried for a call so far.
    std::vector<CountedImplementation> counters() const { return counts_.all(); }
    void refresh_availability();

    // Around a fork, in the parent and in the child.
    void before_fork();
    void after_fork();
    // In a forked child: abandons what threads of the parent may have been changing.
    virtual void start_over_in_child();
    // In a forked child, when it first calls an op: what a child that only runs another program can do without.
    virtual void work_in_child() {}
    // What is left to do when the process exits and the host is still open. It may be done when that is closed.
    virtual std::function<void()> work_at_exit() const;

  protected:
    explicit CallHost(Options options);
    virtual ~CallHost(); // after end_calls

    // Watches calls that are made ready from here on.
    void start_observing(CallObserver::Options options);
    // The same of shadows.
    void start_shadows(std::vector<ShadowRule> rules, std::string source);
    // Before that: those that disagree are written.
    void start_call_files(std::shared_ptr<CallFiles> files) { call_files_ = std::move(files); }
    // Writes what was observed, gives back plans and states of devices. No call may be made from here on.
    void end_calls();

    // `next` is what is registered from now on.
    void publish_catalog(Catalog next);
    void reset_health(const char *op, const char *impl_id);
    Ledger &ledger() const { return *ledger_.load(std::memory_order_acquire); }
    PolicyStack process_policy() const { return *policy_.load(std::memory_order_acquire); }
    // The op's own name for one of its names, null for null. Throws when the op (any, when null) has no implementation
    // of this id (any, when null).
    const char *expect_implementation(const char *op, const char *impl_id) const;

    // The ledger is locked in these.
    // With `policy`, which the ledger keeps, that comes into force; not when this throws. Without one a new epoch
    // begins: no decision of before counts.
    void publish(Ledger &ledger, const PolicyStack *policy = nullptr);
    Deployment &deployment(Ledger &ledger, const Implementation &implementation, DLDevice device) const;

    void set_first_policy(PolicyStack policy);
    const std::string &journal_folder() const { return journal_folder_; }
    // Locks it.
    void publish_frozen(bool frozen);

    Log log_;
    Devices devices_;
    Configs configs_;

  private:
    std::shared_ptr<CallObserver> observer_; // null where nobody watches
    std::vector<ShadowRule> shadow_rules_;
    std::string shadow_source_;
    std::shared_ptr<CallFiles> call_files_;

    // The implementations of a decision that health keeps out and that may be tried again at some time.
    std::vector<Deployment *> waiting_for_retry(Ledger &ledger, const CatalogOp &op, const Decision &decision,
                                                DLDevice device) const;
    // True when the time of some of them has come.
    bool retry_failed(const CatalogOp &op, const Decision &decision, DLDevice device);

    // The ledger is locked in these.
    std::shared_ptr<View> view_for(Ledger &ledger, PolicyStack policy);
    const Target &target_in(const View &view, const OpEntry &op);
    const Target &make_target(const View &view, OpEntry &op, const Chain *newest);

    const uint64_t id_;
    const WorkspaceAllocator workspace_;
    const std::string journal_folder_;
    mutable AllCallCounts counts_; // deployments are made under the ledger's lock
    Deployment::Clock::time_point (*const now_)();

    // Published: replaced whole, the old ones kept for those who still read them.
    std::atomic<const Catalog *> catalog_{nullptr};
    std::atomic<const PolicyStack *> policy_{nullptr}; // without scopes
    std::atomic<const std::vector<OpEntry *> *> ops_{nullptr};
    std::atomic<const NameTable *> names_{nullptr};
    std::atomic<const View *> view_{nullptr}; // of the process
    std::atomic<Ledger *> ledger_;
    std::atomic<uint64_t> generation_{1};        // of anything a decision depends on
    std::atomic<uint64_t> policy_generation_{1}; // of the process's policy and the epoch: scopes look at it
    std::atomic<uint64_t> epoch_{1};
    std::atomic<bool> frozen_{false};
    std::atomic<bool> is_idle_child_{false}; // forked, and has made no call yet
};

} // namespace opdock::core
