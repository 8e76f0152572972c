// An opened host. The only thing that holds state: published values that anyone may read without a lock, and a Ledger.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "dispatch/chain.hpp"
#include "dispatch/ledger.hpp"
#include "host/plugin_table.hpp"
#include "inspect/search.hpp"
#include "load/deferred_plugin.hpp"
#include "load/devices.hpp"
#include "load/thread_state.hpp"
#include "opdock/opdock.h"
#include "policy/policy_names.hpp"
#include "policy/policy_sources.hpp"
#include "probe/scan.hpp"
#include "probe/scan_cache.hpp"
#include "resolve/resolve_error.hpp"
#include "text/environment.hpp"
#include "text/log.hpp"
#include "tune/deployment_tuning.hpp"
#include "tune/plugin_tuning.hpp"
#include "tune/tune_database.hpp"
#include "tune/tuner.hpp"

namespace opdock::core {

struct WorkspaceAllocator {
    decltype(opdock_options::allocate_workspace) allocate = nullptr;
    decltype(opdock_options::free_workspace) free = nullptr;
    void *user_data = nullptr;
};

// The tables that the program offers to plugins.
struct Extensions {
    decltype(opdock_options::get_extension) get = nullptr;
    void *user_data = nullptr;

    const void *find(const char *name) const { return get != nullptr ? get(user_data, name) : nullptr; }
};

struct HostOptions {
    std::string prefix = "PLUGIN_";
    std::vector<std::string> modules;
    bool rescan = false; // try every plugin again, whatever the scan cache says
    Log log;
    WorkspaceAllocator workspace;
    Extensions extensions;
    // What tests replace.
    std::optional<Environment> environment; // none: the process's own
    std::string system_policy_file = core::system_policy_file;
    std::string system_trust_folder = core::system_trust_folder;
    std::optional<std::vector<SearchDirectory>> standard_directories; // none: beside the library, /usr/local, /usr
    std::optional<std::string> cache_folder; // none: opdock in the user's cache directory; empty: no cache
    std::optional<std::string> probe;        // none: the one that belongs to the library
    Deployment::Clock::time_point (*now)() = Deployment::Clock::now;
};

class Host {
  public:
    // Throws Error. Nothing stays behind then but mapped plugins.
    explicit Host(HostOptions options);
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;
    ~Host();

    void load(const std::string &path);
    // `may_go`: it can be unregistered.
    void register_module(const std::string &id, const std::string &vendor, opdock_entry entry,
                         void *user_data = nullptr, bool may_go = false);
    void unregister_module(const std::string &id);

    // Opens the plugin unless that was done; null, or why it cannot be used.
    const Rejection *open_plugin(DeferredPlugin &plugin) const;

    // Null when nobody declared it.
    OpEntry *find_op(std::string_view name) const;
    // Throws Error(OPDOCK_UNKNOWN_OP) naming the nearest one.
    OpEntry &op(std::string_view name) const;

    // Warns of names that nothing loaded answers to; in strict mode they are errors.
    Policy make_policy(std::span<const Setting> settings) const;
    void set_program_policy(PolicyPtr policy); // null takes it away
    void reload_policy();
    void push_scope(PolicyPtr policy);
    void pop_scope();
    // What is in force on the calling thread.
    PolicyStack effective_policy() const;

    uint64_t served_count(const char *op, const char *impl_id) const;
    void reset_health(const char *op, const char *impl_id);
    void refresh_availability();
    // See opdock_find_extension; null where it has none.
    const void *find_extension(const char *op, const char *impl_id, const char *name) const;
    // See opdock_freeze. `expected` may be null.
    nlohmann::json freeze(const char *expected);
    // Throws Error(OPDOCK_FROZEN): "the host is frozen, so that nothing can {what}".
    void refuse_when_frozen(const char *what) const;
    bool is_frozen() const { return frozen_.load(std::memory_order_acquire); }
    nlohmann::json describe() const;
    nlohmann::json describe_devices() const;
    nlohmann::json explain(std::string_view op, const char *device, const char *dtypes, const PolicyPtr &policy) const;
    nlohmann::json explain_call(OpEntry &op, const opdock_args &args, const PolicyPtr &policy);

    // See opdock_tune and what follows it.
    nlohmann::json tune_call(OpEntry &op, const opdock_args &args, const std::string &impl_id,
                             const TuneOptions &options, bool again, bool dry_run);
    void check_tune_database() const;
    std::string export_tuning(const char *op, const char *impl_id) const;
    uint64_t import_tuning(std::string_view yaml, const std::string &name);
    // TUNE=online: tunes what nobody tuned, before the first call of it. Never throws for want of a result.
    void tune_first_call(Deployment &deployment, const TunedCall &call);

    // --- for the stages of a call ---------------------------------------------------------------------------------
    uint64_t id() const { return id_; }
    const Log &log() const { return log_; }
    const opdock_host_api &api() const { return table_->api; }
    const Catalog &catalog() const { return *catalog_.load(std::memory_order_acquire); }
    const WorkspaceAllocator &workspace() const { return workspace_; }
    const void *extension(const char *name) const { return extensions_.find(name); }
    uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
    const std::atomic<uint64_t> &generation_counter() const { return generation_; }
    // How often this process was forked since the host was opened.
    uint64_t forks() const { return forks_.load(std::memory_order_relaxed); }
    // The provider of a device that calls have to make current; null for the CPU and types nobody provides.
    const DeviceProvider *provider_to_enter(DLDevice device) const;
    // What its provider says of the device; null for one that is not there, and where the provider failed to say. Valid
    // as long as the host.
    const opdock_device_properties *device_properties(DLDevice device) const;
    // Makes the device current for this thread, where that means anything, as long as what is returned lives.
    CurrentDevice enter(DLDevice device) const { return {api(), provider_to_enter(device), device.device_id}; }
    bool is_capturing(DLDevice device, void *stream) const;

    TuneMode tune_mode() const { return tune_mode_; }
    double tune_budget() const { return tune_budget_; }
    const TuneDatabase &tune_database() const { return tune_database_; }
    // What the plugin's tune file says; read when it is first asked for, and its problems logged then.
    const PluginTuning &plugin_tuning(const std::string &plugin) const;
    // The same for one implementation on one device, with what the database has. Null without knobs and for a device
    // that nothing is known of.
    std::unique_ptr<DeploymentTuning> tuning_for(const Implementation &implementation, DLDevice device) const;

    // The op's target under the policy of the process, or of the thread's scope.
    // It stays as long as the thread is in that scope and runs nothing that may change the policy.
    const Target &target_of(const OpEntry &op, ThreadState &thread);
    // The target under one policy.
    HeldTarget target_under(const OpEntry &op, PolicyStack policy);
    // The chain for a call, made and published when the target has none yet. Throws Error when nothing is left to try.
    // The target is to be held meanwhile: plugins are asked whether they are available.
    std::shared_ptr<const Chain> chain_for(const Target &target, DLDevice device, const std::vector<uint32_t> &dtypes);
    // Null dtypes: whatever they are.
    Key key_for(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> *dtypes) const;
    // The same without asking a provider: of a device that nobody has met yet the architecture may be any.
    Key listing_key(const Catalog &catalog, DLDevice device, const std::vector<uint32_t> &dtypes) const;
    // `missing`: why there is no such device; nothing is available there.
    Decision decide(const CatalogOp &op, const PolicyStack &policy, const Key &key, DLDevice device,
                    const std::string &missing = {}) const;

    // What a process that dies of a first call leaves behind: an entry that stands as long as what is returned.
    Journal::Open note_first_call(Deployment &deployment) const noexcept;

    Memo &adopt(std::unique_ptr<Memo> memo);
    void release(Memo *memo);
    // Writes the log line when `implementation` did not serve the op's last call. `failures`: those tried before it.
    void note_serving(const Chain &chain, const Implementation &implementation, std::span<const Failure> failures);
    // Says once for each op and device that calls are served on the CPU, and why.
    void note_cpu_fallback(const std::string &op, DLDevice device, const std::string &source, const std::string &why);
    // An implementation left its chain: says for how long.
    void drop_failed(const Chain &chain, Deployment &deployment);
    // Lets those of the chain's op that left it be tried again whose time has come: later calls find them.
    void retry_failed(const Chain &chain);
    void lose_device(DLDevice device, const std::string &message);
    // "there is no device cuda:7: ..." for one that its provider does not have; empty for every other. Of a type that
    // nobody provides every index that machines have is taken to be there.
    std::string missing_device(DLDevice device) const;
    // Why the device of the implementation's vendor is not there, by the vendor's device_query_command; empty when it
    // is, when there is no such command, and where a provider counts devices of the type.
    std::string query_device(const Implementation &implementation, DLDevice device) const;
    // Throws Error: OPDOCK_INVALID_ARGUMENT for a missing device, OPDOCK_DEVICE_LOST for one that was lost.
    void check_device(DLDevice device) const;

    // In a forked child: abandons what threads of the parent may have been changing.
    void start_over_in_child();

  private:
    void open(const HostOptions &options);
    void close();
    void load_found(const HostOptions &options, Catalog &into);
    void log_impl_ids(const Catalog &catalog) const;
    // Loads one file and adds what it registers. The record says what became of it.
    PluginRecord load_file(const PluginCandidate &candidate, Catalog &into, ScanCache &cache);
    // What is known of the file, if it may be taken as far as can be told without opening it in this process; throws
    // Rejected. What it says of itself goes into the record.
    Scan scan(const DeferredPlugin::Place &place, const Catalog &into, ScanCache &cache, PluginRecord &record);
    // Whether the file may be believed at all; throws Rejected. What is only questionable goes into the log or the
    // record.
    void judge_trust(const PluginCandidate &candidate, const DeferredPlugin::Place &place, PluginRecord &record);
    // `status` as PathRules::judge has it.
    void judge_place(const std::string &path, const struct stat *status, bool refuse, PluginRecord &record);
    // The same of the libraries that it needs.
    void judge_libraries(const Scan &scan, const DeferredPlugin::Place &place, PluginRecord &record);
    void judge_library_names(const Scan &scan, PluginRecord &record);
    const TrustedKeys &trusted_keys();
    // A line of the log for each that a plugin printed.
    void log_printed(std::string_view printed, const std::string &name, std::int32_t level) const;
    // True when the policy gives the plugin the kinds of opdock's own.
    bool is_named_default(const std::string &id, const std::string &vendor) const;
    // True when the earlier of two plugins with one id gives way: to opdock's own, unless the policy names it.
    bool yields(const PluginRecord &earlier, const PluginRecord &later, const Catalog &in) const;
    // From here on nobody finds anything of the module, which may go.
    std::shared_ptr<Tenancy> withdraw_module(const std::string &id);
    // Throws Rejected when there were errors; logs the rest.
    void refuse_errors(const Registrar &registrar, PluginRecord *record) const;
    // Logs what of a plugin the host does without, and keeps it in the record if there is one.
    void leave_out(const std::vector<std::string> &sentences, const std::string &plugin, PluginRecord *record) const;
    // Adds what of it goes with what is there. What does not is left out with a warning, in the record if there is one;
    // throws Rejected where nothing may be taken.
    void admit(const PluginIdentity &identity, const Registration &registration, Catalog &into,
               PluginRecord *record) const;
    // In strict mode a tune file has to be right: throws Rejected.
    void judge_tune_file(const PluginRecord &record, const Registration &registration) const;
    // Runs the entry in this process and adds what it registers; throws Rejected, with nothing added. `record`: of its
    // file; null for a module of the program, whose entry finds `user_data`.
    void take(const PluginIdentity &identity, opdock_entry entry, Catalog &into, PluginRecord *record,
              void *user_data = nullptr);
    // Opens a plugin that was not tried, and takes it; throws Rejected.
    void open_untried(const PluginIdentity &identity, const DeferredPlugin::Place &place, Catalog &into,
                      PluginRecord &record);
    // Throws Rejected. `warning`: set as Loaded has it.
    Registration open_and_register(Ledger &book, const DeferredPlugin &plugin, std::string &warning) const;
    Registration register_opened(Ledger &book, const DeferredPlugin &plugin, std::string &warning) const;
    void publish_catalog(Catalog next);
    nlohmann::json describe_op(const Catalog &now, const CatalogOp &op, const PolicyStack &policy) const;
    Availability known_availability(const Catalog &now, const Implementation &implementation) const;
    // The implementations of a decision that health keeps out and that may be tried again at some time.
    std::vector<Deployment *> waiting_for_retry(Ledger &ledger, const CatalogOp &op, const Decision &decision,
                                                DLDevice device) const;
    // True when the time of some of them has come.
    bool retry_failed(const CatalogOp &op, const Decision &decision, DLDevice device);
    void check_names(const PolicyStack &policy, const Catalog &catalog) const;
    // Warns of each, or throws Error(OPDOCK_INVALID_POLICY).
    void complain(const std::vector<UnknownName> &names, bool strict) const;

    // The ledger is locked in all of these.
    // With `policy`, which the ledger keeps, that comes into force; not when this throws. Without one a new epoch
    // begins: no decision of before counts.
    void publish(Ledger &ledger, const PolicyStack *policy = nullptr);
    std::shared_ptr<View> view_for(Ledger &ledger, PolicyStack policy);
    const Target &target_in(const View &view, const OpEntry &op);
    const Target &make_target(const View &view, OpEntry &op, const Chain *newest);
    Deployment &deployment(Ledger &ledger, const Implementation &implementation, DLDevice device) const;
    // Locks it.
    Deployment &deployment_of(const Implementation &implementation, DLDevice device) const;
    template<class Visit>
    void each_tuning(const char *op, const char *impl_id, Visit visit) const;

    void publish_frozen(bool frozen);
    Deployment *chosen_for(const Target &target, DLDevice device, const std::vector<uint32_t> &dtypes);

    std::string architecture(DLDevice device) const;
    // Asked once, as availability is.
    DeviceCount device_count(const DeviceProvider &provider) const;
    // The same; while the command runs, others who need its answer wait.
    std::string query_device(const std::string &command) const;
    PolicyStack process_policy() const { return *policy_.load(std::memory_order_acquire); }
    Ledger &ledger() const { return *ledger_.load(std::memory_order_acquire); }
    std::string journal_folder() const { return cache_folder_.empty() ? "" : cache_folder_ + "/journal"; }
    // Learns from what killed earlier processes.
    void read_journals(ScanCache &cache) const;
    void count_deaths(const std::vector<Death> &deaths, ScanCache &cache) const;
    // How many processes ended while they opened the plugin, also after this host was opened, with none since that did
    // so and lived. Throws Rejected where they are too many.
    std::uint32_t deaths_of(const DeferredPlugin &plugin) const;
    // It was opened: who died while they did so died of something else.
    void forget_deaths(const DeferredPlugin &plugin) const noexcept;
    // As reset_health has them. What was listed stays listed as long as this host is open.
    void forget_call_deaths(const char *op, const char *impl_id) const;

    const uint64_t id_;
    Log log_;
    bool environment_given_; // and so not to be captured again
    Environment environment_;
    std::string system_policy_file_;
    const std::string system_trust_folder_;
    WorkspaceAllocator workspace_;
    Extensions extensions_;
    const std::string probe_;
    Deployment::Clock::time_point (*const now_)();
    const std::string cache_folder_;
    const TuneMode tune_mode_;
    const double tune_budget_;
    const TuneDatabase tune_database_;
    const PluginTablePtr table_;
    std::optional<FolderIdentity> own_folder_; // where opdock's own plugins lie; set when the host opens
    std::vector<SearchPath> paths_;
    std::vector<SearchProblem> problems_;

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
    std::atomic<uint64_t> forks_{0};
    std::atomic<bool> frozen_{false};
};

// Throws when this thread is inside a plugin's entry.
void refuse_while_registering(const char *what);
// Throws when this thread is inside code of a plugin that is being loaded, or of one whose host it closes.
void refuse_op_calls();

// Gives back what a thread that ends holds of hosts that are still open.
void release_memos_of(ThreadState &thread);

} // namespace opdock::core
