// The host as seen by its calls: published values of what is registered and in force, which any thread
// may read without a lock, and a Ledger of what calls found out. A derived class adds plugins.
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
    void *const *data; // shape.n_tensors pointers; null for tensors that are absent or empty
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

    // Unique within the process; never reused.
    uint64_t id() const { return id_; }
    const Log &log() const { return log_; }
    const opdock_host_api &api() const { return devices_.api(); }
    const Devices &devices() const { return devices_; }
    const Configs &configs() const { return configs_; }
    const WorkspaceAllocator &workspace() const { return workspace_; }
    // Null when calls are not observed.
    CallObserver *observer() const { return observer_.get(); }
    // Latencies of sampled calls; empty when sampling is off.
    std::vector<Latency> latencies() const { return observer_ ? observer_->latencies() : std::vector<Latency>(); }
    // Rules that select calls for shadows, and the variable they came from.
    std::span<const ShadowRule> shadow_rules() const { return shadow_rules_; }
    const std::string &shadow_source() const { return shadow_source_; }
    // Null when no call files are wanted.
    CallFiles *call_files() const { return call_files_.get(); }
    const Catalog &catalog() const { return *catalog_.load(std::memory_order_acquire); }
    // Incremented by every change that a decision depends on.
    uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
    const std::atomic<uint64_t> &generation_counter() const { return generation_; }
    Deployment::Clock::time_point now() const { return now_(); }
    bool is_frozen() const { return frozen_.load(std::memory_order_acquire); }
    // Throws Error(OPDOCK_FROZEN): "the host is frozen, so that nothing can {what}".
    void refuse_when_frozen(const char *what) const;

    // Null when the op was never declared.
    OpEntry *find_op(std::string_view name) const;
    // Throws Error(OPDOCK_UNKNOWN_OP) that names the closest match.
    OpEntry &op(std::string_view name) const;
    // The policy in force on the calling thread.
    PolicyStack effective_policy() const;

    // The op's target under the policy of the process or of the thread's scope. Valid as long as the
    // thread stays in that scope and runs nothing that may change the policy.
    const Target &target_of(const OpEntry &op, CallThread &thread);
    // The target under one policy.
    HeldTarget target_under(const OpEntry &op, PolicyStack policy);
    // The chain for a call; created and published if the target has none yet. Throws Error when nothing is left to try.
    // The caller must hold the target meanwhile, since plugins are asked whether they are available.
    std::shared_ptr<const Chain> chain_for(const Target &target, DLDevice device, const std::vector<uint32_t> &dtypes);
    // The chain for one call: the chain of its dtypes or, if the policy has `measured`, the same chain
    // with another link in front.
    std::shared_ptr<const Chain> chain_for_call(std::shared_ptr<const Chain> chain, const View &view,
                                                const Bound &bound);
    // Null `dtypes` stands for any dtypes.
    Key key_for(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> *dtypes) const;
    // The same without calling a provider: for a device that was never used, any architecture matches.
    Key listing_key(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> &dtypes) const;
    // `missing`: why the device does not exist; nothing is available there.
    Decision decide(const CatalogOp &op, const PolicyStack &policy, const Key &key, DLDevice device,
                    const std::string &missing = {}) const;
    Deployment &deployment_of(const Implementation &implementation, DLDevice device) const;

    // Records a first call in the journal, in case it kills the process. The entry stays as long as
    // the returned value lives.
    Journal::Open note_first_call(Deployment &deployment) const noexcept;
    // TUNE=online: tunes an untuned problem before its first call. Never throws when tuning gives no result.
    virtual void tune_first_call(Deployment &deployment, const TunedCall &call) = 0;

    Memo &adopt(std::unique_ptr<Memo> memo);
    void release(Memo *memo);
    // Writes the log line when `implementation` did not serve the op's previous call. `failures`:
    // implementations tried before it. `fallback`: the outcome of the first of them.
    void note_serving(const Chain &chain, const Implementation &implementation, std::span<const Failure> failures,
                      std::optional<Count> fallback);
    // Logs how many changes of the serving implementation got no line. To be called when the host is closed.
    void tell_left_out() const;
    // Logs once per op and device that calls are served on the CPU, and why.
    void note_cpu_fallback(const std::string &op, DLDevice device, const std::string &source, const std::string &why);
    // Logs that an implementation left its chain and when it is tried again, and publishes new decisions.
    void drop_failed(const Chain &chain, Deployment &deployment);
    // A deployment computed a wrong result: removes it from its chain until its health is reset, and
    // logs that. Does nothing in a frozen host or if it has already left.
    void drop_wrong(Deployment &deployment, const std::string &reason);
    // Readmits implementations that left the chain of this op and whose retry time has come: later calls find them.
    void retry_failed(const Chain &chain);
    void lose_device(DLDevice device, const std::string &message);

    uint64_t served_count(const char *op, const char *impl_id) const;
    // The counts of every implementation that could have been tried for a call so far.
    std::vector<CountedImplementation> counters() const { return counts_.all(); }
    void refresh_availability();

    // To be called around a fork, in the parent and in the child.
    void before_fork();
    void after_fork();
    // In a forked child: abandons data that the parent's threads may have been changing.
    virtual void start_over_in_child();
    // In a forked child, at its first op call: work that is not needed by a child that only runs another program.
    virtual void work_in_child() {}
    // The work that remains if the process exits while the host is open. It may also be done when the host is closed.
    virtual std::function<void()> work_at_exit() const;

  protected:
    explicit CallHost(Options options);
    virtual ~CallHost(); // to be called after end_calls

    // Observes calls that are prepared from here on.
    void start_observing(CallObserver::Options options);
    // The same for shadows.
    void start_shadows(std::vector<ShadowRule> rules, std::string source);
    // To be called before start_shadows: calls that disagree are written to files.
    void start_call_files(std::shared_ptr<CallFiles> files) { call_files_ = std::move(files); }
    // Writes what was observed and releases plans and device states. No call may be made afterwards.
    void end_calls();

    // `next` is the set of everything registered from now on.
    void publish_catalog(Catalog next);
    void reset_health(const char *op, const char *impl_id);
    Ledger &ledger() const { return *ledger_.load(std::memory_order_acquire); }
    PolicyStack process_policy() const { return *policy_.load(std::memory_order_acquire); }
    // Returns the op's canonical name for any of its names, null for null. Throws if no implementation
    // of the op (of any op, when null) has this id (any id, when null).
    const char *expect_implementation(const char *op, const char *impl_id) const;

    // The following functions require the ledger to be locked.
    // With `policy`, which the ledger must own, that policy comes into force unless this throws. Without one, a new
    // epoch begins and invalidates earlier decisions.
    void publish(Ledger &ledger, const PolicyStack *policy = nullptr);
    Deployment &deployment(Ledger &ledger, const Implementation &implementation, DLDevice device) const;

    void set_first_policy(PolicyStack policy);
    const std::string &journal_folder() const { return journal_folder_; }
    // Locks the ledger.
    void publish_frozen(bool frozen);

    Log log_;
    Devices devices_;
    Configs configs_;

  private:
    std::shared_ptr<CallObserver> observer_; // null when calls are not observed
    std::vector<ShadowRule> shadow_rules_;
    std::string shadow_source_;
    std::shared_ptr<CallFiles> call_files_;

    // The implementations of a decision that health keeps out and that may be retried at some time.
    std::vector<Deployment *> waiting_for_retry(Ledger &ledger, const CatalogOp &op, const Decision &decision,
                                                DLDevice device) const;
    // Returns true if the retry time of any of them has come.
    bool retry_failed(const CatalogOp &op, const Decision &decision, DLDevice device);

    // The following functions require the ledger to be locked.
    std::shared_ptr<View> view_for(Ledger &ledger, PolicyStack policy);
    const Target &target_in(const View &view, const OpEntry &op);
    const Target &make_target(const View &view, OpEntry &op, const Chain *newest);

    const uint64_t id_;
    const WorkspaceAllocator workspace_;
    const std::string journal_folder_;
    mutable AllCallCounts counts_; // deployments are created under the ledger's lock
    Deployment::Clock::time_point (*const now_)();

    // Published: replaced as a whole; old values are kept for threads that still read them.
    std::atomic<const Catalog *> catalog_{nullptr};
    std::atomic<const PolicyStack *> policy_{nullptr}; // without scopes
    std::atomic<const std::vector<OpEntry *> *> ops_{nullptr};
    std::atomic<const NameTable *> names_{nullptr};
    std::atomic<const View *> view_{nullptr}; // the view of the process
    std::atomic<Ledger *> ledger_;
    std::atomic<uint64_t> generation_{1};        // changes with anything a decision depends on
    std::atomic<uint64_t> policy_generation_{1}; // changes with the process's policy and the epoch; scopes compare it
    std::atomic<uint64_t> epoch_{1};
    std::atomic<bool> frozen_{false};
    std::atomic<bool> is_idle_child_{false}; // forked, and no call made yet
};

} // namespace opdock::core
