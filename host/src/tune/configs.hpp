// The configs of a host's implementations: contents of tune files, which are read on first use, and of
// the tuning database.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devices/devices.hpp"
#include "resolve/catalog.hpp"
#include "text/environment.hpp"
#include "text/log.hpp"
#include "tune/deployment_tuning.hpp"
#include "tune/plugin_tuning.hpp"
#include "tune/standings.hpp"
#include "tune/tune_database.hpp"

namespace opdock::core {

struct ConfigOptions {
    TuneMode mode = TuneMode::cached;
    double budget = 0; // seconds for tuning a call before its first run
    TuneDatabase database{""};
};

// Safe to use from any thread.
class Configs {
  public:
    // `devices` and `log` must outlive this. Problems of files are logged when they are read.
    Configs(ConfigOptions options, const Devices &devices, const Log &log);
    ~Configs();
    Configs(const Configs &) = delete;
    Configs &operator=(const Configs &) = delete;

    TuneMode mode() const { return options_.mode; }
    double budget() const { return options_.budget; }
    const TuneDatabase &database() const { return options_.database; }

    // The contents of the plugin's tune file. Valid as long as this object.
    const PluginTuning &of_plugin(const Catalog &catalog, const std::string &plugin) const;
    // The same for one implementation on one device, with the entries of the database. Null if it has
    // no knobs or the device is unknown.
    std::unique_ptr<DeploymentTuning> of(const Catalog &catalog, const Implementation &implementation,
                                         DLDevice device) const;
    // Results of measurements that compare an op's implementations on calls of one bucket. The database is read for an
    // implementation at the first request for its device. Empty with TUNE=off and for an unknown device.
    std::vector<RaceStanding> standings(const Catalog &catalog, const CatalogOp &op, DLDevice device,
                                        const std::string &dtypes, const std::string &key) const;
    // Stores them for later calls, in this process and in the database. The first result must be that of the one that
    // is first by the order alone. Throws DatabaseError if writing fails; they are in force all the same.
    void keep(const Catalog &catalog, const CatalogOp &op, DLDevice device, const std::string &dtypes,
              const std::string &key, const std::vector<RaceStanding> &standings) const;
    // To be called when another plugin with this id may be loaded.
    void forget(const std::string &plugin);

    // In a forked child: abandons data that the parent's threads may have been changing.
    void start_over_in_child();

  private:
    struct Known;
    using Standings = std::map<std::pair<std::string, std::string>, RaceStanding>; // by dtypes and key

    std::optional<TuneIdentity> identity_of(const Catalog &catalog, const Implementation &implementation,
                                            DLDevice device) const;
    Standings read_standings(const TuneIdentity &identity) const;

    Known &known() const { return *known_.load(std::memory_order_acquire); }
    bool is_new_problem(const std::string &problem) const;

    const ConfigOptions options_;
    const Devices &devices_;
    const Log &log_;
    std::atomic<Known *> known_;
};

} // namespace opdock::core
