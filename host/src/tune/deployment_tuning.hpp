// Chooses the config that an implementation uses on one device, from its tune file and the tuning database, per call.
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

// The origin of a config, in the order in which they are tried.
enum class ConfigSource { pinned, database, heuristic_function, heuristic_file, first_allowed, defaults, given };

// "pinned", "database", "heuristic function", "heuristic of the tune file", "first config that where allows",
// "defaults", "given"
const char *source_name(ConfigSource source);

struct ChosenConfig {
    TuneConfig config;
    ConfigSource source = ConfigSource::defaults;
    std::string origin; // details of the source for an explanation: "acme.tune.yaml:12"; empty if there are none
};

// The tunable aspects of one call.
struct TuneTask {
    const ImplementationSection *section; // null: the tune file has no configs for it
    std::string dtypes;
    std::string key;
    std::string key_text; // how numbers are bucketed
    std::vector<TuneConfig> candidates;
};

class DeploymentTuning {
  public:
    // `device` and `tuning` must outlive this. Reads the database's entries; if that fails, sets *problem.
    DeploymentTuning(const ImplementationTuning &tuning, const std::string &file,
                     const opdock_device_properties &device, bool ordered_architectures, TuneIdentity identity,
                     const TuneDatabase &database, std::string *problem);

    // Configs that `where` excludes for a call, one line each.
    using Excluded = std::vector<std::string>;

    // Each of the following functions evaluates `where` at the call's own values: other calls of a key may be allowed
    // what this one is not. `excluded` is null if no explanation is wanted; then there is no origin, either.
    //
    // The known config for such calls: pinned or in the database.
    std::optional<ChosenConfig> look_up(const opdock_problem &problem, Excluded *excluded) const;
    // By the tune file's expressions. Nothing if it has none; nothing and *why on failure.
    std::optional<ChosenConfig> heuristic(const opdock_problem &problem, Excluded *excluded, std::string *why) const;
    // For a config that belongs to no section.
    bool allows(const opdock_problem &problem, const ChosenConfig &chosen, Excluded *excluded) const;
    // The first of the configs to tune that `where` allows, if it excludes the defaults. Nothing if it
    // allows none: an implementation must support its defaults for everything it does not decline.
    std::optional<ChosenConfig> in_place_of_defaults(const opdock_problem &problem, Excluded *excluded) const;
    TuneTask task(const opdock_problem &problem) const;

    // Applies a result to later calls in this process.
    void take(const TuneTask &task, const TuneConfig &config, double microseconds, double default_microseconds);
    // Returns true once per task, at the first try in this process.
    bool is_first_try(const TuneTask &task);

    const TuneIdentity &identity() const { return identity_; }
    const ImplementationTuning &implementation() const { return tuning_; }
    const opdock_device_properties &device() const { return device_; }
    // Entries of another tune file, in the form of the database. Adds a problem for each section whose
    // key differs from that in the plugin's tune file for the same dtypes. Dtypes without configs in
    // the plugin's tune file are left out and added to `without_configs`.
    std::vector<TuneEntry> adopt(const ImplementationTuning &given, std::vector<std::string> &problems,
                                 std::set<std::string> &without_configs) const;
    // Entries in force, from the database and from this process.
    std::vector<TuneEntry> entries() const;

  private:
    // The sections for one tuple of dtypes: the first matching section of each kind.
    struct Plan {
        std::vector<const ImplementationSection *> pinned;
        const ImplementationSection *space = nullptr;
        const ImplementationSection *heuristics = nullptr;
        const ImplementationSection *where = nullptr; // for configs of a section without one, or of no section
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
    const bool has_where_; // true if any section has a `where`
    const TuneIdentity identity_;

    mutable std::mutex mutex_; // guards the members below
    mutable std::map<std::vector<uint32_t>, Plan> plans_;
    std::unordered_map<std::string, Tuned> tuned_; // by space, dtypes and key
    std::set<std::string> tried_;                  // likewise
};

} // namespace opdock::core
