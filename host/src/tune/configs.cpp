#include "tune/configs.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "files/database.hpp"

namespace opdock::core {
namespace {

// A FlagGems file names the ops of all of FlagGems, but a plugin may implement only two of them.
constexpr size_t most_lines = 8;

void log_problems(const Log &log, const PluginTuning &tuning) {
    const std::vector<std::string> warnings = tuning.warnings();
    for (size_t i = 0; i < std::min(warnings.size(), most_lines); ++i) {
        log.warning(warnings[i]);
    }
    if (warnings.size() > most_lines) {
        log.warning(fmt::format("{}: {} more entries are ignored; `plugin-ls --check` shows all", tuning.path(),
                                warnings.size() - most_lines));
    }
}

} // namespace

struct Configs::Known {
    std::mutex reading;                                                 // guards plugins and former
    std::map<std::string, std::unique_ptr<const PluginTuning>> plugins; // by id
    std::vector<std::unique_ptr<const PluginTuning>> former;            // for modules that are gone

    std::mutex standing; // guards standings
    std::map<TuneIdentity, Standings> standings;

    std::mutex telling;         // guards told
    std::set<std::string> told; // problems of the database, which concern all implementations

    const Known *of_parent = nullptr; // abandoned; pointed to so that it is not reported as a leak
};

Configs::Configs(ConfigOptions options, const Devices &devices, const Log &log)
    : options_(std::move(options)), devices_(devices), log_(log), known_(new Known) {}

Configs::~Configs() {
    delete known_.load();
}

const PluginTuning &Configs::of_plugin(const Catalog &catalog, const std::string &plugin) const {
    Known &all = known();
    std::unique_lock reading(all.reading);
    const auto place = all.plugins.try_emplace(plugin).first;
    if (place->second != nullptr) {
        return *place->second;
    }
    std::vector<const Implementation *> implementations;
    for (const auto &[name, op] : catalog.ops) {
        for (const auto &implementation : op->implementations) {
            if (implementation->plugin == plugin) {
                implementations.push_back(implementation.get());
            }
        }
    }
    const PluginRecord *record = catalog.find_plugin(plugin);
    place->second =
        std::make_unique<const PluginTuning>(record != nullptr && mode() != TuneMode::off ? record->tune : "",
                                             record != nullptr && record->names_tune, implementations);
    const PluginTuning &made = *place->second;
    reading.unlock(); // before the program's log function is called
    log_problems(log_, made);
    return made;
}

bool Configs::is_new_problem(const std::string &problem) const {
    Known &all = known();
    const std::lock_guard telling(all.telling);
    return all.told.insert(problem).second;
}

std::optional<TuneIdentity> Configs::identity_of(const Catalog &catalog, const Implementation &implementation,
                                                 DLDevice device) const {
    const opdock_device_properties *properties = devices_.properties(device);
    if (properties == nullptr) {
        return {};
    }
    const PluginRecord *record = catalog.find_plugin(implementation.plugin);
    std::string version;
    if (implementation.tune_version != 0) {
        version = fmt::format("{} tune_version {}", implementation.plugin, implementation.tune_version);
    } else if (record != nullptr && !record->build_id.empty()) {
        version = fmt::format("{} build {}", implementation.plugin, record->build_id);
    }
    return TuneIdentity{implementation.op, implementation.impl_id,   std::move(version),
                        properties->name,  properties->architecture, properties->driver};
}

Configs::Standings Configs::read_standings(const TuneIdentity &identity) const {
    Standings standings;
    try {
        for (const TuneEntry &entry : database().read(identity)) {
            if (std::optional<RaceStanding> one = standing_of(identity.impl_id, entry)) {
                standings.insert_or_assign({entry.dtypes, entry.key}, std::move(*one));
            }
        }
    } catch (const DatabaseError &error) {
        if (is_new_problem(error.what())) {
            log_.warning(fmt::format("Measurements are not used: {}", error.what()));
        }
    }
    return standings;
}

std::vector<RaceStanding> Configs::standings(const Catalog &catalog, const CatalogOp &op, DLDevice device,
                                             const std::string &dtypes, const std::string &key) const {
    std::vector<RaceStanding> all;
    if (mode() == TuneMode::off) {
        return all;
    }
    Known &known = this->known();
    for (const auto &implementation : op.implementations) {
        const std::optional<TuneIdentity> identity = identity_of(catalog, *implementation, device);
        if (!identity) {
            continue;
        }
        std::unique_lock lock(known.standing);
        auto found = known.standings.find(*identity);
        if (found == known.standings.end()) {
            lock.unlock(); // before the program's log function is called
            Standings read = read_standings(*identity);
            lock.lock();
            found = known.standings.try_emplace(*identity, std::move(read)).first;
        }
        if (const auto one = found->second.find({dtypes, key}); one != found->second.end()) {
            all.push_back(one->second);
        }
    }
    return all;
}

void Configs::keep(const Catalog &catalog, const CatalogOp &op, DLDevice device, const std::string &dtypes,
                   const std::string &key, const std::vector<RaceStanding> &standings) const {
    (void)this->standings(catalog, op, device, dtypes, key); // reads all entries of the database first
    std::vector<std::pair<TuneIdentity, TuneEntry>> entries;
    Known &all = known();
    std::unique_lock lock(all.standing);
    for (const RaceStanding &one : standings) {
        for (const auto &implementation : op.implementations) {
            const std::optional<TuneIdentity> identity = identity_of(catalog, *implementation, device);
            if (identity && implementation->impl_id == one.impl_id) {
                all.standings[*identity].insert_or_assign({dtypes, key}, one);
                entries.emplace_back(*identity, TuneEntry{std::string(standings_space), dtypes, key, standing_text(one),
                                                          one.microseconds, standings.front().microseconds});
            }
        }
    }
    lock.unlock();
    std::string problem; // a problem with one entry does not affect the others
    for (const auto &[identity, entry] : entries) {
        try {
            database().write(identity, {entry});
        } catch (const DatabaseError &error) {
            problem = error.what();
        }
    }
    if (!problem.empty()) {
        throw DatabaseError(problem);
    }
}

std::unique_ptr<DeploymentTuning> Configs::of(const Catalog &catalog, const Implementation &implementation,
                                              DLDevice device) const {
    if (mode() == TuneMode::off || implementation.knobs.empty()) {
        return nullptr;
    }
    const opdock_device_properties *properties = devices_.properties(device);
    const DeviceProvider *provider = find_provider(devices_.providers(), device.device_type);
    const PluginTuning &plugin = of_plugin(catalog, implementation.plugin);
    const ImplementationTuning *tuning = plugin.of(implementation);
    if (properties == nullptr || provider == nullptr || tuning == nullptr) {
        return nullptr;
    }
    std::string problem;
    auto made = std::make_unique<DeploymentTuning>(*tuning, plugin.path(), *properties,
                                                   (provider->table.flags & OPDOCK_DEVICE_ORDERED_ARCHITECTURES) != 0,
                                                   *identity_of(catalog, implementation, device), database(), &problem);
    if (!problem.empty() && is_new_problem(problem)) {
        log_.warning(fmt::format("Tuning results are not used: {}", problem));
    }
    return made;
}

void Configs::forget(const std::string &plugin) {
    Known &all = known();
    {
        const std::lock_guard lock(all.standing);
        all.standings.clear(); // the database has them for the same build; another build must not inherit them
    }
    const std::lock_guard reading(all.reading);
    if (const auto tuning = all.plugins.find(plugin); tuning != all.plugins.end()) {
        all.former.push_back(std::move(tuning->second));
        all.plugins.erase(tuning);
    }
}

void Configs::start_over_in_child() {
    auto *fresh = new Known;
    fresh->of_parent = &known();
    known_.store(fresh, std::memory_order_release);
}

} // namespace opdock::core
