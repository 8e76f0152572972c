#include "tune/deployment_tuning.hpp"

#include <algorithm>
#include <filesystem>

#include <spdlog/fmt/fmt.h>

#include "files/database.hpp"

namespace opdock::core {

const char *source_name(ConfigSource source) {
    switch (source) {
    case ConfigSource::pinned:
        return "pinned";
    case ConfigSource::database:
        return "database";
    case ConfigSource::heuristic_function:
        return "heuristic function";
    case ConfigSource::heuristic_file:
        return "heuristic of the tune file";
    case ConfigSource::first_allowed:
        return "first config that where allows";
    case ConfigSource::given:
        return "given";
    default:
        return "defaults";
    }
}

DeploymentTuning::DeploymentTuning(const ImplementationTuning &tuning, const std::string &file,
                                   const opdock_device_properties &device, bool ordered_architectures,
                                   TuneIdentity identity, const TuneDatabase &database, std::string *problem)
    : tuning_(tuning), file_(std::filesystem::path(file).filename().string()), device_(device),
      ordered_(ordered_architectures),
      has_where_(std::any_of(tuning.sections().begin(), tuning.sections().end(),
                             [](const ImplementationSection &section) { return section.has_where(); })),
      identity_(std::move(identity)) {
    try {
        for (TuneEntry &entry : database.read(identity_)) {
            if (auto config = parse_config(tuning_.implementation().knobs, entry.config)) {
                tuned_.insert_or_assign(entry.space + "|" + entry.dtypes + "|" + entry.key,
                                        Tuned{std::move(*config), entry.microseconds, entry.default_microseconds});
            }
        }
    } catch (const DatabaseError &error) {
        *problem = error.what();
    }
}

DeploymentTuning::Call DeploymentTuning::call_of(const opdock_problem &problem) const {
    Call call;
    call.dtypes = dtypes_of(*tuning_.implementation().form, problem);
    call.values = tuning_.variables().values(problem, call.dtypes, device_);
    return call;
}

const DeploymentTuning::Plan &DeploymentTuning::plan_for(const std::vector<uint32_t> &dtypes) const {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = plans_.try_emplace(dtypes);
    if (is_new) {
        Plan &plan = place->second;
        for (const ImplementationSection &section : tuning_.sections()) {
            if (!section.is_for(dtypes, device_, ordered_)) {
                continue;
            }
            if (!section.pinned.empty()) {
                plan.pinned.push_back(&section);
            }
            if (plan.space == nullptr && !section.space.empty()) {
                plan.space = &section;
            }
            if (plan.heuristics == nullptr && !section.heuristics.empty()) {
                plan.heuristics = &section;
            }
            if (plan.where == nullptr && section.has_where()) {
                plan.where = &section;
            }
        }
    }
    return place->second;
}

std::string DeploymentTuning::name_of(const ImplementationSection &section, const std::string &dtypes,
                                      const std::string &key) const {
    return section.space + "|" + dtypes + "|" + key;
}

namespace {

// An imported entry has no times.
std::string origin_of(double microseconds, double before) {
    const auto text = [](double value) {
        return value >= 1000 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
    };
    return microseconds == 0 ? "imported"
                             : fmt::format("{} us when it was tuned, {} us before", text(microseconds), text(before));
}

} // namespace

bool DeploymentTuning::allows(const Plan &plan, const ImplementationSection *from, const ChosenConfig &chosen,
                              std::span<const double> values, Excluded *excluded) const {
    const ImplementationSection *section = from != nullptr && from->has_where() ? from : plan.where;
    if (section == nullptr) {
        return true;
    }
    const std::string why = tuning_.exclusion(*section, chosen.config, values);
    if (!why.empty() && excluded != nullptr) {
        excluded->push_back(fmt::format("{}{}{}: {} {}", source_name(chosen.source), chosen.origin.empty() ? "" : ", ",
                                        chosen.origin, config_text(tuning_.implementation().knobs, chosen.config),
                                        why));
    }
    return why.empty();
}

bool DeploymentTuning::allows(const opdock_problem &problem, const ChosenConfig &chosen, Excluded *excluded) const {
    if (!has_where_) {
        return true;
    }
    const Call call = call_of(problem);
    return allows(plan_for(call.dtypes), nullptr, chosen, call.values, excluded);
}

std::optional<ChosenConfig> DeploymentTuning::look_up(const opdock_problem &problem, Excluded *excluded) const {
    if (tuning_.sections().empty()) {
        return {};
    }
    const Call call = call_of(problem);
    const Plan &plan = plan_for(call.dtypes);
    for (const ImplementationSection *section : plan.pinned) {
        const auto found = section->pinned.find(section->key.of(tuning_.variables(), call.values));
        if (found == section->pinned.end()) {
            continue;
        }
        ChosenConfig chosen{found->second.config, ConfigSource::pinned,
                            excluded != nullptr ? fmt::format("{}:{}", file_, found->second.line) : ""};
        if (allows(plan, section, chosen, call.values, excluded)) {
            return chosen;
        }
    }
    if (plan.space == nullptr) {
        return {};
    }
    const std::string name =
        name_of(*plan.space, tuple_text(call.dtypes), plan.space->key.of(tuning_.variables(), call.values));
    const std::lock_guard lock(mutex_);
    const auto found = tuned_.find(name);
    if (found == tuned_.end()) {
        return {};
    }
    const Tuned &tuned = found->second;
    ChosenConfig chosen{tuned.config, ConfigSource::database,
                        excluded != nullptr ? origin_of(tuned.microseconds, tuned.default_microseconds) : ""};
    return allows(plan, plan.space, chosen, call.values, excluded) ? std::optional(std::move(chosen)) : std::nullopt;
}

std::optional<ChosenConfig> DeploymentTuning::heuristic(const opdock_problem &problem, Excluded *excluded,
                                                        std::string *why) const {
    if (tuning_.sections().empty()) {
        return {};
    }
    const Call call = call_of(problem);
    const Plan &plan = plan_for(call.dtypes);
    const ImplementationSection *section = plan.heuristics;
    if (section == nullptr) {
        return {};
    }
    std::optional<TuneConfig> config = tuning_.heuristic(*section, call.values, why);
    if (!config) {
        *why = fmt::format("{}:{}: {}", file_, section->line, *why);
        return {};
    }
    ChosenConfig chosen{std::move(*config), ConfigSource::heuristic_file,
                        excluded != nullptr ? fmt::format("{}:{}", file_, section->line) : ""};
    return allows(plan, section, chosen, call.values, excluded) ? std::optional(std::move(chosen)) : std::nullopt;
}

std::optional<ChosenConfig> DeploymentTuning::in_place_of_defaults(const opdock_problem &problem,
                                                                   Excluded *excluded) const {
    if (!has_where_) {
        return {};
    }
    const Call call = call_of(problem);
    const Plan &plan = plan_for(call.dtypes);
    const ChosenConfig defaults{tuning_.defaults(), ConfigSource::defaults, {}};
    if (allows(plan, nullptr, defaults, call.values, excluded) || plan.space == nullptr) {
        return {};
    }
    std::optional<TuneConfig> first = tuning_.first_candidate(*plan.space, call.values, plan.where);
    if (!first) {
        return {};
    }
    return ChosenConfig{std::move(*first), ConfigSource::first_allowed,
                        excluded != nullptr ? fmt::format("{}:{}", file_, plan.space->line) : ""};
}

TuneTask DeploymentTuning::task(const opdock_problem &problem) const {
    const Call call = call_of(problem);
    const Plan &plan = plan_for(call.dtypes);
    TuneTask task{plan.space, tuple_text(call.dtypes), {}, {}, {}};
    if (task.section != nullptr) {
        task.key = task.section->key.of(tuning_.variables(), call.values);
        task.key_text = task.section->key.text(tuning_.variables());
        task.candidates = tuning_.candidates(*task.section, call.values, plan.where);
    }
    return task;
}

void DeploymentTuning::take(const TuneTask &task, const TuneConfig &config, double microseconds,
                            double default_microseconds) {
    const std::lock_guard lock(mutex_);
    tuned_.insert_or_assign(name_of(*task.section, task.dtypes, task.key),
                            Tuned{config, microseconds, default_microseconds});
}

bool DeploymentTuning::is_first_try(const TuneTask &task) {
    const std::lock_guard lock(mutex_);
    return tried_.insert(name_of(*task.section, task.dtypes, task.key)).second;
}

std::vector<TuneEntry> DeploymentTuning::adopt(const ImplementationTuning &given, std::vector<std::string> &problems,
                                               std::set<std::string> &without_configs) const {
    std::vector<TuneEntry> entries;
    const Signature &form = *tuning_.implementation().form;
    for (const ImplementationSection &section : given.sections()) {
        std::vector<std::vector<uint32_t>> tuples = section.dtypes;
        if (tuples.empty() && form.dtype_variables.empty()) {
            tuples.emplace_back();
        }
        for (const std::vector<uint32_t> &tuple : tuples) {
            if (section.pinned.empty() || !section.is_for(tuple, device_, ordered_)) {
                continue;
            }
            const ImplementationSection *space = plan_for(tuple).space;
            if (space == nullptr) {
                without_configs.insert(tuple_text(tuple));
                continue;
            }
            const std::string key_text = space->key.text(tuning_.variables());
            if (key_text != section.key.text(given.variables())) {
                problems.push_back(fmt::format("op '{}', '{}': the tune file of the plugin has another key ({}), so "
                                               "these entries would never be found",
                                               identity_.op, identity_.impl_id, key_text));
                continue;
            }
            for (const auto &[key, pinned] : section.pinned) {
                entries.push_back({space->space, tuple_text(tuple), key,
                                   config_text(tuning_.implementation().knobs, pinned.config), 0, 0});
            }
        }
    }
    return entries;
}

std::vector<TuneEntry> DeploymentTuning::entries() const {
    std::vector<TuneEntry> entries;
    const std::lock_guard lock(mutex_);
    for (const auto &[name, tuned] : tuned_) {
        const size_t first = name.find('|');
        const size_t second = name.find('|', first + 1);
        entries.push_back({name.substr(0, first), name.substr(first + 1, second - first - 1), name.substr(second + 1),
                           config_text(tuning_.implementation().knobs, tuned.config), tuned.microseconds,
                           tuned.default_microseconds});
    }
    return entries;
}

} // namespace opdock::core
