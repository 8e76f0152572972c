#include "tuner/across.hpp"

#include <algorithm>
#include <memory>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "tune/standings.hpp"
#include "tuner/repeated_call.hpp"

namespace opdock::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_rounds = 15;
constexpr size_t least_rounds = 5; // whatever the budget: fewer would decide nothing

struct Contestant {
    std::unique_ptr<RepeatedCall> call;
    std::unique_ptr<Attempt> attempt;
    size_t runs = 1;
    TimedImplementation timed;

    bool is_in() const { return timed.refused.empty(); }
};

// Ready to be timed with the config in force, after it ran.
Contestant admit(CallHost &host, const Link &link, const TunedCall &call, bool cold) {
    Contestant one;
    one.timed.implementation = link.implementation;
    Attempt now(host, *link.deployment);
    if (const opdock_status status = now.choose(call.shape, true); status != OPDOCK_OK) {
        one.timed.refused = fmt::format("{}: {}", status_text(status), now.reason);
        return one;
    }
    one.timed.config = now.chosen.config;
    one.call = std::make_unique<RepeatedCall>(host, *link.deployment, call, cold);
    RepeatedCall::Ready ready = one.call->prepare(one.timed.config.empty() ? nullptr : &one.timed.config);
    one.timed.refused = std::move(ready.refused);
    one.attempt = std::move(ready.attempt);
    if (one.is_in()) {
        one.timed.refused = one.call->learn(*one.attempt);
    }
    if (one.is_in()) {
        one.runs = one.call->runs_of(*one.attempt);
    }
    return one;
}

size_t count_in(const std::vector<Contestant> &all) {
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [](const Contestant &one) { return one.is_in(); }));
}

// One that fails now is out.
void time_once(Contestant &one) {
    try {
        one.timed.samples.push_back(one.call->sample(*one.attempt, one.runs));
    } catch (const Error &error) {
        one.timed.refused = error.what();
        one.timed.samples.clear();
    }
}

void rank(std::vector<Contestant> &all) {
    std::vector<std::vector<double>> samples;
    std::vector<Contestant *> ranked;
    for (Contestant &one : all) {
        if (one.is_in() && !one.timed.samples.empty()) {
            samples.push_back(one.timed.samples);
            ranked.push_back(&one);
        }
    }
    const std::vector<size_t> ranks = ranks_of(samples);
    for (size_t i = 0; i < ranked.size(); ++i) {
        std::vector<double> &sorted = samples[i];
        std::sort(sorted.begin(), sorted.end());
        TimedImplementation &timed = ranked[i]->timed;
        timed.rank = ranks[i];
        timed.median = sorted[sorted.size() / 2];
        timed.spread =
            timed.median > 0 ? (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / timed.median : 0;
    }
}

} // namespace

AcrossResult time_across(CallHost &host, const Chain &chain, const TunedCall &call, const TuneOptions &options) {
    const Clock::time_point began = Clock::now();
    const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - began).count(); };
    std::vector<Contestant> all;
    for (const Link &link : chain.links) {
        all.push_back(admit(host, link, call, options.cold));
    }
    AcrossResult result;
    const size_t total = most_rounds * count_in(all);
    size_t done = 0;
    for (size_t round = 0; round < most_rounds && count_in(all) > 1; ++round) {
        for (Contestant &one : all) {
            if (one.is_in()) {
                time_once(one);
                ++done;
            }
        }
        const bool goes_on = !options.progress || options.progress({done, total, seconds(), options.budget});
        if (!goes_on || (seconds() > options.budget && round + 1 >= least_rounds)) {
            result.is_complete = round + 1 == most_rounds;
            break;
        }
    }
    rank(all);
    std::string why;
    for (Contestant &one : all) {
        why += one.is_in() ? "" : fmt::format("\n  '{}': {}", one.timed.implementation->impl_id, one.timed.refused);
    }
    if (count_in(all) < 2) {
        throw Error(OPDOCK_UNSUPPORTED, "fewer than two implementations run this call, so that there is nothing to "
                                        "compare" +
                                            why);
    }
    for (Contestant &one : all) {
        result.implementations.push_back(std::move(one.timed));
    }
    result.seconds = seconds();
    return result;
}

} // namespace opdock::core
