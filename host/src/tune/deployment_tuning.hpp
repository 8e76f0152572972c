// Which config an implementation uses on one device: what its tune file and the tuning database say, for each call.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tune/implementation_tuning.hpp"
#include "tune/tune_database.hpp"

namespace opdock::core {

// Where a config came from, in the order in which they are asked.
enum class ConfigSource { pinned, database, heuristic_function, heuristic_file, first_allowed, defaults, given };

// "pinned", "database", "heuristic function", "heuristic of the tune file", "first config that where allows",
// "defaults", "given"
const char *source_name(ConfigSource source);

struct ChosenConfig {
    TuneConfig config;
    ConfigSource source = ConfigSource::defaults;
    std::string origin; // more about the source, for who asked: "acme.tune.yaml:12"; empty when there is no more
};

// What can be tuned of one call.
struct TuneTask {
    const ImplementationSection *section; // null: the tune file has no configs for it
    std::string dtypes;
    std::string key;
    std::string key_text; // how it is bucketed
    std::vector<TuneConfig> candidates;
};

class DeploymentTuning {
  public:
    // `device` and `tuning` must outlive this. Reads what the database has; when it cannot, *problem says why.
    DeploymentTuning(const ImplementationTuning &tuning, const std::string &file,
                     const opdock_device_properties &device, bool ordered_architectures, TuneIdentity identity,
                     const TuneDatabase &database, std::string *problem);

    // Configs that `where` excludes for a call, a line each.
    using Excluded = std::vector<std::string>;

    // Each of these holds what it finds to `where` at the call's own values: other calls of the same key may be allowed
    // what this one is not. `excluded` is null where no explanation is wanted, and then there is no origin either.
    //
    // What is known of calls like this: pinned or in the database.
    std::optional<ChosenConfig> look_up(const opdock_problem &problem, Excluded *excluded) const;
    // By the tune file's expressions. Nothing when it has none, or with *why.
    std::optional<ChosenConfig> heuristic(const opdock_problem &problem, Excluded *excluded, std::string *why) const;
    // Of a config that no section has.
    bool allows(const opdock_problem &problem, const ChosenConfig &chosen, Excluded *excluded) const;
    // The first of the configs to tune that `where` allows, if it excludes the defaults. Nothing if it allows none: an
    // implementation has to take its defaults for whatever it does not decline.
    std::optional<ChosenConfig> in_place_of_defaults(const opdock_problem &problem, Excluded *excluded) const;
    TuneTask task(const opdock_problem &problem) const;

    // Puts a result in force for the calls that come, in this process.
    void take(const TuneTask &task, const TuneConfig &config, double microseconds, double default_microseconds);
    // True once for each task: whether it was not tried yet by this process.
    bool is_first_try(const TuneTask &task);

    const TuneIdentity &identity() const { return identity_; }
    const ImplementationTuning &implementation() const { return tuning_; }
    const opdock_device_properties &device() const { return device_; }
    // What another tune file pins, as entries of the database. A problem for each section whose key is not the one that
    // the plugin's tune file has for the same dtypes. Dtypes that the plugin's tune file has no configs for are left
    // out and come into `without_configs`.
    std::vector<TuneEntry> adopt(const ImplementationTuning &given, std::vector<std::string> &problems,
                                 std::set<std::string> &without_configs) const;
    // What is in force, of the database and of this process.
    std::vector<TuneEntry> entries() const;

  private:
    // What counts for one tuple of dtypes: of each kind the first section that is for it.
    struct Plan {
        std::vector<const ImplementationSection *> pinned;
        const ImplementationSection *space = nullptr;
        const ImplementationSection *heuristics = nullptr;
        const ImplementationSection *where = nullptr; // for what comes from a section without one, or from none
    };
    struct Call {
        std::vector<uint32_t> dtypes;
        std::vector<double> values;
    };
    struct Tuned {
        TuneConfig config;
        double microseconds;
        double default_microseconds;
    };

    Call call_of(const opdock_problem &problem) const;
    const Plan &plan_for(const std::vector<uint32_t> &dtypes) const;
    std::string name_of(const ImplementationSection &section, const std::string &dtypes, const std::string &key) const;
    bool allows(const Plan &plan, const ImplementationSection *from, const ChosenConfig &chosen,
                std::span<const double> values, Excluded *excluded) const;

    const ImplementationTuning &tuning_;
    const std::string file_;
    const opdock_device_properties &device_;
    const bool ordered_;
    const bool has_where_; // of any section
    const TuneIdentity identity_;

    mutable std::mutex mutex_; // of what follows
    mutable std::map<std::vector<uint32_t>, Plan> plans_;
    std::unordered_map<std::string, Tuned> tuned_; // by space, dtypes and key
    std::set<std::string> tried_;                  // likewise
};

} // namespace opdock::core
