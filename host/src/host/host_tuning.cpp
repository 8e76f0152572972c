// Lists the configs that a host's implementations use, and tries out others.
#include <algorithm>
#include <mutex>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "dispatch/measured_order.hpp"
#include "files/database.hpp"
#include "host/host.hpp"
#include "host/tuning_turn.hpp"
#include "load/plugin_call.hpp"
#include "signature/bind.hpp"
#include "signature/layout.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

using nlohmann::json;

namespace {

json config_json(const Implementation &implementation, const TuneConfig &config) {
    json object = json::object();
    for (size_t i = 0; i < config.size(); ++i) {
        const Knob &knob = implementation.knobs[i];
        object[knob.name] = knob.type == OPDOCK_KNOB_CHOICE ? json(value_text(knob, config[i])) : json(config[i]);
    }
    return object;
}

// The implementation with this id; the head of the chain if the id is empty.
const Implementation &find_implementation(const CatalogOp &op, const Chain &chain, const std::string &impl_id) {
    if (impl_id.empty()) {
        return *chain.links.front().implementation;
    }
    std::vector<std::string_view> known;
    for (const auto &implementation : op.implementations) {
        if (same_name(implementation->impl_id, impl_id)) {
            return *implementation;
        }
        known.push_back(implementation->impl_id);
    }
    throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("op '{}' has no implementation {}{}", op.name, quote(impl_id),
                                                     did_you_mean(impl_id, known)));
}

// An implementation that an order passes over, or that failed, may still be tuned. One that cannot
// take the call is not asked, and one that a vendor list or a contract excludes is not run.
void check_can_serve(const Decision &decision, const std::string &impl_id) {
    for (const Dropped &dropped : decision.dropped) {
        if (dropped.impl_id == impl_id && dropped.rule != Rule::order && dropped.rule != Rule::health) {
            const bool is_kept_out = dropped.rule == Rule::allow_vendors || dropped.rule == Rule::deny_vendors ||
                                     dropped.rule == Rule::contract;
            throw Error(OPDOCK_UNSUPPORTED,
                        fmt::format("'{}' {}: {}", impl_id, is_kept_out ? "is not run" : "cannot take the call",
                                    dropped.reason));
        }
    }
}

// Moves the lead to the front in the explanation of a call.
void put_measured_first(json &explained, const Lead &lead) {
    for (const char *list : {"chain", "kept"}) {
        json &all = explained.at(list);
        json one = std::move(all.at(lead.from));
        all.erase(lead.from);
        all.insert(all.begin() + static_cast<std::ptrdiff_t>(lead.to), std::move(one));
    }
    json &first = explained.at("kept").at(lead.to);
    // A previous leader may have no advantage left.
    const std::string gain = lead.gain < 1.005 ? "as fast" : fmt::format("{:.2f} times as fast", lead.gain);
    first["rule"] =
        fmt::format("measured {} as the next, '{}'; {}", gain, lead.next, first.at("rule").get<std::string>());
    explained["measured"] = {{"impl_id", first.at("impl_id")}, {"gain", lead.gain}, {"next", lead.next}};
}

} // namespace

json Host::explain_call(OpEntry &op, const opdock_args &args, const PolicyPtr &policy) {
    const CatalogOp &declared = catalog().declared(op.name);
    const Bound bound = bind(*declared.signature, args, Pointing::optional);
    devices_.check(bound.device);
    const std::string device = devices_.text(bound.device);
    const std::string dtypes = tuple_text(bound.dtypes);
    json explained = explain(op.name, device.c_str(), bound.dtypes.empty() ? nullptr : dtypes.c_str(), policy);
    const CallShape shape(*declared.signature, bound);
    PolicyStack stack = effective_policy();
    if (policy != nullptr) {
        stack.scopes.push_back(policy);
    }
    const Decision decision = decide(declared, stack, key_for(catalog(), bound.device, &bound.dtypes), bound.device);
    const std::optional<Lead> lead = measured_lead(*this, declared, decision, shape);
    if (lead && explained["chain"].size() == decision.chain.size()) { // none left it in between
        put_measured_first(explained, *lead);
    }
    json configs = json::array();
    for (const json &impl_id : explained["chain"]) {
        for (const auto &implementation : declared.implementations) {
            if (implementation->impl_id != impl_id.get<std::string>() || implementation->knobs.empty()) {
                continue;
            }
            Deployment &here = deployment_of(*implementation, bound.device);
            Attempt attempt(*this, here);
            attempt.fits = fits_form(*implementation->form, *declared.signature, bound);
            attempt.explains_config = true;
            const opdock_status status = attempt.prepare(shape, true);
            json one = {{"impl_id", implementation->impl_id}};
            if (status != OPDOCK_OK) {
                one["refused"] = fmt::format("{}: {}", status_text(status), attempt.reason);
            } else {
                one.update({{"config", config_json(*implementation, attempt.chosen.config)},
                            {"source", source_name(attempt.chosen.source)},
                            {"origin", attempt.chosen.origin},
                            {"excluded", attempt.excluded}});
                if (const DeploymentTuning *tuning = here.tuning()) {
                    const TuneTask task = tuning->task(attempt.problem);
                    const PluginTuning &plugin = configs_.of_plugin(catalog(), implementation->plugin);
                    one.update({{"dtypes", task.dtypes},
                                {"key", task.key},
                                {"bucketed", task.key_text},
                                {"candidates", task.candidates.size()},
                                {"tune_file", plugin.has_file() ? plugin.path() : ""}});
                }
            }
            configs.push_back(std::move(one));
        }
    }
    explained["configs"] = std::move(configs);
    return explained;
}

namespace {

const char *outcome_name(TimedConfig::Outcome outcome) {
    switch (outcome) {
    case TimedConfig::Outcome::refused:
        return "refused";
    case TimedConfig::Outcome::wrong:
        return "wrong";
    case TimedConfig::Outcome::left_out:
        return "left out";
    default:
        return "timed";
    }
}

json run_json(const Implementation &implementation, const TimedConfig &timed) {
    json run = {{"config", config_json(implementation, timed.config)}, {"outcome", outcome_name(timed.outcome)}};
    if (timed.outcome == TimedConfig::Outcome::timed) {
        run.update({{"microseconds", timed.median}, {"spread", timed.spread}, {"samples", timed.samples}});
    } else {
        run["reason"] = timed.reason;
    }
    return run;
}

// True if anything was timed besides the config in force; otherwise there is nothing worth keeping.
bool compares(const TuneResult &result) {
    return std::count_if(result.tried.begin(), result.tried.end(),
                         [](const TimedConfig &timed) { return timed.outcome == TimedConfig::Outcome::timed; }) > 1;
}

Error not_kept(const DatabaseError &error) {
    return {OPDOCK_FAILED, fmt::format("The result could not be stored: {}", error.what())};
}

} // namespace

void Host::check_tune_database() const {
    try {
        configs_.database().check();
    } catch (const DatabaseError &error) {
        throw not_kept(error);
    }
}

json Host::tune_call(OpEntry &op, const opdock_args &args, const std::string &impl_id, const TuneOptions &options,
                     bool again, bool dry_run) {
    refuse_op_calls();
    if (!dry_run) {
        refuse_when_frozen("change its configs");
    }
    const CatalogOp &declared = catalog().declared(op.name);
    const Bound bound = bind(*declared.signature, args);
    devices_.check(bound.device);
    const std::shared_ptr<const Chain> chain =
        chain_for(*target_under(op, effective_policy()).target, bound.device, bound.dtypes);
    const Implementation &implementation = find_implementation(declared, *chain, impl_id);
    check_can_serve(decide(declared, effective_policy(), key_for(catalog(), bound.device, &bound.dtypes), bound.device),
                    implementation.impl_id);
    Deployment &here = deployment_of(implementation, bound.device);
    if (implementation.knobs.empty()) {
        throw Error(OPDOCK_UNSUPPORTED,
                    fmt::format("'{}' has no knobs: there is nothing to tune", implementation.impl_id));
    }
    if (configs_.mode() == TuneMode::off) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{} is off", environment_.name(Variable::tune)));
    }
    const CallShape shape(*declared.signature, bound);
    std::vector<void *> data(bound.tensors.size());
    std::transform(bound.tensors.begin(), bound.tensors.end(), data.begin(), first_element);
    Attempt now(*this, here);
    now.fits = fits_form(*implementation.form, *declared.signature, bound);
    now.explains_config = true;
    const opdock_status status = now.choose(shape, true);
    if (status != OPDOCK_OK) {
        throw Error(OPDOCK_UNSUPPORTED,
                    fmt::format("'{}' returned {}: {}", implementation.impl_id, status_text(status), now.reason));
    }
    DeploymentTuning *tuning = here.tuning();
    if (tuning == nullptr) {
        throw Error(OPDOCK_UNSUPPORTED,
                    fmt::format("the provider of {} does not identify the device", devices_.text(bound.device)));
    }
    const TuneTask task = tuning->task(now.problem);
    const TuneIdentity &identity = tuning->identity();
    json result = {{"op", op.name},
                   {"impl_id", implementation.impl_id},
                   {"device", devices_.text(bound.device)},
                   {"model", identity.device},
                   {"architecture", identity.architecture},
                   {"driver", identity.driver},
                   {"dtypes", task.dtypes},
                   {"key", task.key},
                   {"bucketed", task.key_text},
                   {"database", configs_.database().path()}};
    const bool is_pinned = now.chosen.source == ConfigSource::pinned;
    if (is_pinned || (now.chosen.source == ConfigSource::database && !again)) {
        result.update({{"outcome", is_pinned ? "pinned" : "known"},
                       {"origin", now.chosen.origin},
                       {"best", {{"config", config_json(implementation, now.chosen.config)}}}});
        return result;
    }
    if (TuningTurn::is_taken(ledger())) {
        throw Error(OPDOCK_UNSUPPORTED, "this thread is tuning another call");
    }
    if (!dry_run) {
        try {
            configs_.database().write(tuning->identity(), {}); // before spending any time
        } catch (const DatabaseError &error) {
            throw not_kept(error);
        }
    }
    const std::lock_guard one_at_a_time(ledger().tuning);
    const TuningTurn turn(ledger());
    const TuneResult tuned =
        tune(*this, here, {shape, data.data(), bound.attributes.data(), args.stream}, task, options);
    json tried = json::array();
    for (const TimedConfig &timed : tuned.tried) {
        tried.push_back(run_json(implementation, timed));
    }
    json before = run_json(implementation, tuned.before);
    before["source"] = source_name(tuned.before_source);
    const bool is_kept = !dry_run && compares(tuned);
    std::string problem = !dry_run && !is_kept ? "only the config in force was timed; use a larger budget" : "";
    if (is_kept) {
        try {
            keep(*this, here, task, tuned);
        } catch (const DatabaseError &error) {
            problem = error.what();
        }
    }
    result.update({{"outcome", "tuned"},
                   {"before", std::move(before)},
                   {"best", run_json(implementation, tuned.best)},
                   {"gain", tuned.best.median > 0 ? tuned.before.median / tuned.best.median : 1},
                   {"tried", std::move(tried)},
                   {"complete", tuned.is_complete},
                   {"seconds", tuned.seconds},
                   {"kept", is_kept && problem.empty()},
                   {"problem", problem}});
    return result;
}

void Host::tune_first_call(Deployment &deployment, const TunedCall &call) {
    DeploymentTuning *tuning = deployment.tuning();
    if (is_frozen() || tuning == nullptr || TuningTurn::is_taken(ledger()) ||
        devices_.is_capturing(call.shape.device, call.stream)) {
        return;
    }
    const std::unique_lock turn(ledger().tuning, std::try_to_lock);
    if (!turn.owns_lock()) {
        return; // another call is being tuned, and this one does not wait
    }
    const TuningTurn mine(ledger());
    const std::string &impl_id = deployment.implementation().impl_id;
    const auto tell = [&](int32_t level, const std::string &line) {
        if (const auto more = deployment.tuning_lines().pass(this->now())) {
            log_.write(level, line + *more);
        }
    };
    try {
        Attempt now(*this, deployment);
        if (now.choose(call.shape, true) != OPDOCK_OK || now.chosen.source == ConfigSource::pinned ||
            now.chosen.source == ConfigSource::database) {
            return;
        }
        const TuneTask task = tuning->task(now.problem);
        if (task.candidates.empty() || !tuning->is_first_try(task)) {
            return;
        }
        TuneOptions options;
        options.budget = configs_.budget();
        const TuneResult tuned = tune(*this, deployment, call, task, options);
        log_.info(fmt::format("Op '{}': '{}' was tuned for {} {} in {:.2g} s: {}, {:.2f} times as fast as {}",
                              deployment.implementation().op, impl_id, task.dtypes, task.key, tuned.seconds,
                              config_text(deployment.implementation().knobs, tuned.best.config),
                              tuned.best.median > 0 ? tuned.before.median / tuned.best.median : 1.0,
                              source_name(tuned.before_source)));
        if (compares(tuned)) {
            keep(*this, deployment, task, tuned);
        }
    } catch (const Error &error) {
        // A config that could not be tried is only information; an error during a trial may have left effects behind.
        tell(error.status() == OPDOCK_UNSUPPORTED ? OPDOCK_LOG_INFO : OPDOCK_LOG_WARNING,
             fmt::format("'{}' is not tuned: {}", impl_id, error.what()));
    } catch (const DatabaseError &error) {
        tell(OPDOCK_LOG_WARNING,
             fmt::format("The config found for '{}' is used in this process only: {}", impl_id, error.what()));
    } catch (const std::exception &error) { // no memory for a copy of the call's outputs
        tell(OPDOCK_LOG_WARNING, fmt::format("'{}' is not tuned: {}", impl_id, error.what()));
    }
}

} // namespace opdock::core
