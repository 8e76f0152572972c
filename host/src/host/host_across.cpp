// Host::tune_across: times the implementations of an op against each other, and stores the result for `measured`.
#include <algorithm>
#include <chrono>
#include <mutex>

#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include "dispatch/measured_order.hpp"
#include "files/database.hpp"
#include "host/host.hpp"
#include "host/tuning_turn.hpp"
#include "signature/bind.hpp"
#include "signature/layout.hpp"
#include "text/error.hpp"
#include "tuner/across.hpp"

namespace opdock::core {

using nlohmann::json;

namespace {

// The time as a text of fixed length: later times compare greater.
std::string race_of_now() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return fmt::format("{:016x}", std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

json implementations_json(const AcrossResult &result) {
    json all = json::array();
    for (const TimedImplementation &timed : result.implementations) {
        json one = {{"impl_id", timed.implementation->impl_id},
                    {"outcome", timed.refused.empty() ? "timed" : "refused"},
                    {"config", config_text(timed.implementation->knobs, timed.config)}};
        if (timed.refused.empty()) {
            one.update({{"microseconds", timed.median},
                        {"spread", timed.spread},
                        {"samples", timed.samples.size()},
                        {"rank", timed.rank}});
        } else {
            one["reason"] = timed.refused;
        }
        all.push_back(std::move(one));
    }
    return all;
}

std::vector<RaceStanding> standings_of(const AcrossResult &result) {
    const std::string race = race_of_now();
    std::vector<RaceStanding> standings;
    for (const TimedImplementation &timed : result.implementations) {
        if (timed.rank != 0) {
            standings.push_back({timed.implementation->impl_id, timed.rank, race, timed.median});
        }
    }
    return standings;
}

} // namespace

json Host::tune_across(OpEntry &op, const opdock_args &args, const TuneOptions &options, bool dry_run) {
    refuse_op_calls();
    if (!dry_run) {
        refuse_when_frozen("change which implementation serves");
    }
    if (configs_.mode() == TuneMode::off) {
        throw Error(OPDOCK_UNSUPPORTED, fmt::format("{} is off", environment_.name(Variable::tune)));
    }
    const CatalogOp &declared = catalog().declared(op.name);
    const Bound bound = bind(*declared.signature, args);
    devices_.check(bound.device);
    const std::shared_ptr<const Chain> chain =
        chain_for(*target_under(op, effective_policy()).target, bound.device, bound.dtypes);
    const CallShape shape(*declared.signature, bound);
    const std::optional<CallBucket> bucket = bucket_of(*this, shape);
    if (!bucket) {
        throw Error(OPDOCK_UNSUPPORTED,
                    fmt::format("the provider of {} does not identify the device", devices_.text(bound.device)));
    }
    if (TuningTurn::is_taken(ledger())) {
        throw Error(OPDOCK_UNSUPPORTED, "this thread is tuning another call");
    }
    if (!dry_run) {
        check_tune_database(); // before spending any time
    }
    std::vector<void *> data(bound.tensors.size());
    std::transform(bound.tensors.begin(), bound.tensors.end(), data.begin(), first_element);
    const std::string leader =
        leader_of(configs_.standings(catalog(), declared, bound.device, bucket->dtypes, bucket->key));
    const AcrossResult result = [&] {
        const std::lock_guard one_at_a_time(ledger().tuning);
        const TuningTurn turn(ledger());
        return time_across(*this, *chain, {shape, data.data(), bound.attributes.data(), args.stream}, options, leader);
    }();
    std::string problem;
    if (!dry_run) {
        try {
            configs_.keep(catalog(), declared, bound.device, bucket->dtypes, bucket->key, standings_of(result));
        } catch (const DatabaseError &error) {
            problem = error.what();
        }
        Ledger &book = ledger();
        const std::lock_guard lock(book.mutex);
        publish(book); // the order for remembered calls has changed
    }
    const opdock_device_properties *properties = devices_.properties(bound.device);
    return {{"op", op.name},
            {"device", devices_.text(bound.device)},
            {"model", properties->name},
            {"architecture", properties->architecture},
            {"driver", properties->driver},
            {"dtypes", bucket->dtypes},
            {"key", bucket->key},
            {"bucketed", bucket->text},
            {"database", configs_.database().path()},
            {"outcome", "compared"},
            {"implementations", implementations_json(result)},
            {"complete", result.is_complete},
            {"seconds", result.seconds},
            {"kept", !dry_run && problem.empty()},
            {"problem", problem}};
}

} // namespace opdock::core
