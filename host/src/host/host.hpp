// An open host: loads plugins and describes its contents. The base class CallHost holds what calls need.
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

#include <nlohmann/json_fwd.hpp>

#include "dispatch/call_host.hpp"
#include "host/live_socket.hpp"
#include "host/loading.hpp"
#include "host/plugin_table.hpp"
#include "inspect/search.hpp"
#include "load/deferred_plugin.hpp"
#include "opdock/opdock.h"
#include "policy/policy_names.hpp"
#include "policy/policy_sources.hpp"
#include "probe/scan.hpp"
#include "probe/scan_cache.hpp"
#include "text/environment.hpp"
#include "text/log.hpp"
#include "tuner/tuner.hpp"

namespace opdock::core {

class Observation;
struct ServedCalls;

// Lookup of the tables that the program offers to plugins.
struct Extensions {
    decltype(opdock_options::get_extension) get = nullptr;
    void *user_data = nullptr;

    const void *find(const char *name) const { return get != nullptr ? get(user_data, name) : nullptr; }
};

struct HostOptions {
    std::string prefix = "PLUGIN_";
    std::vector<std::string> modules;
    bool rescan = false; // try every plugin again, regardless of the scan cache
    bool retry = false;  // retry those of `modules` that the cache has rejected
    Log log;
    WorkspaceAllocator workspace;
    Extensions extensions;
    // Replaced by tests.
    std::optional<Environment> environment; // none: the process's own
    std::string system_policy_file = core::system_policy_file;
    std::string system_trust_folder = core::system_trust_folder;
    std::optional<std::vector<SearchDirectory>> standard_directories; // none: beside the library, /usr/local, /usr
    std::optional<std::string> cache_folder; // none: opdock in the user's cache directory; empty: no cache
    std::optional<std::string> probe;        // none: the one that belongs to the library
    Deployment::Clock::time_point (*now)() = Deployment::Clock::now;
};

class Host : public CallHost, public PluginOpener {
  public:
    // Throws Error. Nothing remains in that case except mapped plugins.
    explicit Host(const HostOptions &options);
    ~Host() override;

    void load(const std::string &path);
    // `may_go`: the module can be unregistered.
    void register_module(const std::string &id, const std::string &vendor, opdock_entry entry,
                         void *user_data = nullptr, bool may_go = false);
    void unregister_module(const std::string &id);

    const Rejection *open_plugin(DeferredPlugin &plugin) const override;

    // Warns of names that match nothing loaded; in strict mode they are errors.
    Policy make_policy(std::span<const Setting> settings) const;
    void set_program_policy(PolicyPtr policy); // null removes it
    void reload_policy();
    void push_scope(PolicyPtr policy);
    void pop_scope();

    // Also resets counted deaths in first calls.
    void reset_health(const char *op, const char *impl_id);
    // A table that the program offers; null if it has no such table.
    const void *extension(const char *name) const { return extensions_.find(name); }
    // See opdock_find_extension; null if there is none.
    const void *find_extension(const char *op, const char *impl_id, const char *name) const;
    // See opdock_freeze. `expected` may be null.
    nlohmann::json freeze(const char *expected);
    nlohmann::json describe() const;
    nlohmann::json describe_devices() const;
    // See opdock_counters.
    nlohmann::json describe_counters() const;
    // The implementations that serve each op under the process's policy. Opens and calls no plugin.
    std::vector<ServedCalls> serving() const;
    // See opdock_find_device.
    DLDevice named_device(std::string_view text) const;
    nlohmann::json explain(std::string_view op, const char *device, const char *dtypes, const PolicyPtr &policy) const;
    nlohmann::json explain_call(OpEntry &op, const opdock_args &args, const PolicyPtr &policy);
    // The answer to a question of another process: host_live.cpp defines both. Throws.
    nlohmann::json answer(const nlohmann::json &question);

    // See opdock_tune and the functions after it.
    nlohmann::json tune_call(OpEntry &op, const opdock_args &args, const std::string &impl_id,
                             const TuneOptions &options, bool again, bool dry_run);
    nlohmann::json tune_across(OpEntry &op, const opdock_args &args, const TuneOptions &options, bool dry_run);
    void check_tune_database() const;
    std::string export_tuning(const char *op, const char *impl_id) const;
    uint64_t import_tuning(std::string_view yaml, const std::string &name);
    void tune_first_call(Deployment &deployment, const TunedCall &call) override;

    void start_over_in_child() override;
    void work_in_child() override;
    std::function<void()> work_at_exit() const override;

  private:
    Host(const HostOptions &options, Environment environment, PluginTablePtr table);
    void open(const HostOptions &options);
    void open_live_socket();
    void close();
    void load_found(const HostOptions &options, Catalog &into);
    void log_impl_ids(const Catalog &catalog) const;
    // Loads one file and adds what it registers. The record holds the outcome.
    // `retry`: also try files that were rejected before.
    PluginRecord load_file(const PluginCandidate &candidate, Catalog &into, ScanCache &cache, bool retry);
    // The part of load_file that may throw Rejected. Returns the plugin's ops whose calls killed earlier processes.
    std::vector<CallDeath> judge_and_take(const PluginCandidate &candidate, Catalog &into, ScanCache &cache, bool retry,
                                          PluginRecord &record);
    // The scan of the file, if it may be accepted as far as can be told without opening it in this
    // process; else throws Rejected. Writes what the file says of itself to the record.
    Scan scan(const DeferredPlugin::Place &place, const Catalog &into, ScanCache &cache, PluginRecord &record);
    // `kept`: the entry in the cache.
    Scan known_scan(const DeferredPlugin::Place &place, std::optional<Scan> kept, const std::string &path);
    // Throws Rejected unless it fits the machine, the policy and the plugins accepted before.
    void judge_scan(const Scan &scan, const DeferredPlugin::Place &place, const Catalog &into, PluginRecord &record);
    // Tries it in a separate process, if there is a probe; throws Rejected if it may not be opened untried.
    void try_plugin(Scan &scan, const DeferredPlugin::Place &place, const std::string &path);
    // Throws Rejected unless the file may be trusted. Questionable findings are written to the log or
    // the record.
    void judge_trust(const PluginCandidate &candidate, const DeferredPlugin::Place &place, PluginRecord &record);
    // `status`: as in PathRules::judge.
    void judge_place(const std::string &path, const struct stat *status, bool refuse, PluginRecord &record);
    // The same for the libraries that it needs.
    void judge_libraries(const Scan &scan, const DeferredPlugin::Place &place, PluginRecord &record);
    void judge_library_names(const Scan &scan, PluginRecord &record);
    const TrustedKeys &trusted_keys();
    // Runs a vendor's device_query_command, subject to the rules for places. See Devices::Ask.
    std::string ask_device_command(const std::string &command) const;
    // Writes each line that a plugin printed to the log.
    void log_printed(std::string_view printed, const std::string &name, std::int32_t level) const;
    // True if the policy gives the plugin the kinds of opdock's own plugins.
    bool is_named_default(const std::string &id, const std::string &vendor) const;
    // True if the earlier of two plugins with the same id yields: to opdock's own, unless the policy names it.
    bool yields(const PluginRecord &earlier, const PluginRecord &later, const Catalog &in) const;
    // Hides the module, so that nobody finds anything of it from here on and it may be unloaded.
    std::shared_ptr<Tenancy> withdraw_module(const std::string &id);
    // Throws Rejected if there were errors; logs the rest.
    void refuse_errors(const Registrar &registrar, PluginRecord *record) const;
    // Logs what the host leaves out of a plugin, and keeps it in the record if there is one.
    void leave_out(const std::vector<std::string> &sentences, const std::string &plugin, PluginRecord *record) const;
    // Adds those parts that fit what is already there. Other parts are left out with a warning, in the
    // record if there is one; throws Rejected if nothing may be accepted.
    void admit(const PluginIdentity &identity, const Registration &registration, Catalog &into,
               PluginRecord *record) const;
    // Strict mode requires a correct tune file: throws Rejected.
    void judge_tune_file(const PluginRecord &record, const Registration &registration) const;
    // Adds what it registered when it was tried; throws Rejected.
    void take_tried(const PluginIdentity &identity, const Scan &scan, DeferredPlugin::Place place, Catalog &into,
                    PluginRecord &record);
    // Runs the entry in this process and adds what it registers; throws Rejected, with nothing added. `record`: the
    // record of its file; null for a module of the program, whose entry receives `user_data`.
    void take(const PluginIdentity &identity, opdock_entry entry, Catalog &into, PluginRecord *record,
              void *user_data = nullptr);
    // Opens and accepts a plugin that was not tried; throws Rejected.
    void open_untried(const PluginIdentity &identity, const DeferredPlugin::Place &place, Catalog &into,
                      PluginRecord &record);
    // Throws Rejected. `warning`: set to Loaded::warning.
    Registration open_and_register(const DeferredPlugin &plugin, std::string &warning) const;
    Registration register_opened(const DeferredPlugin &plugin, std::string &warning) const;
    nlohmann::json describe_op(const Catalog &now, const CatalogOp &op, const PolicyStack &policy) const;
    Availability known_availability(const Catalog &now, const Implementation &implementation) const;
    void check_names(const PolicyStack &policy, const Catalog &catalog) const;
    // Warns of each name, or throws Error(OPDOCK_INVALID_POLICY).
    void complain(const std::vector<UnknownName> &names, bool strict) const;

    template<class Visit>
    void each_tuning(const char *op, const char *impl_id, Visit visit) const;

    Deployment *chosen_for(const Target &target, DLDevice device, const std::vector<uint32_t> &dtypes);

    Loading &loading() const { return *loading_.load(std::memory_order_acquire); }
    // Learns from the deaths of earlier processes.
    void read_journals(ScanCache &cache) const;
    void count_deaths(const std::vector<Death> &deaths, ScanCache &cache) const;
    // Number of processes that ended while they opened the plugin, including those after this host was
    // opened, since the last one that opened it and lived. Throws Rejected if there are too many.
    std::uint32_t deaths_of(const DeferredPlugin &plugin) const;
    // It was opened: earlier deaths during its opening had other causes.
    void forget_deaths(const DeferredPlugin &plugin) const noexcept;
    // For reset_health, with its arguments. What was listed stays listed while this host is open.
    void forget_call_deaths(const char *op, const char *impl_id) const;

    const PluginTablePtr table_;
    const bool environment_given_; // so it is not captured again
    const Environment environment_;
    const std::string system_policy_file_;
    const std::string system_trust_folder_;
    const Extensions extensions_;
    const std::string probe_;
    const std::string cache_folder_;
    std::optional<FolderIdentity> own_folder_; // folder of opdock's own plugins; set when the host opens
    std::vector<SearchPath> paths_;
    std::vector<SearchProblem> problems_;
    std::atomic<Loading *> loading_;
    std::shared_ptr<Observation> observation_; // null when not requested
    std::shared_ptr<LiveSocket> live_socket_;  // null when LIVE does not request it
};

} // namespace opdock::core
