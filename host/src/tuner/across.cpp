#include "tuner/across.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include <spdlog/fmt/fmt.h>

#include "dispatch/attempt.hpp"
#include "dispatch/call_host.hpp"
#include "load/plugin_call.hpp"
#include "text/error.hpp"
#include "tune/standings.hpp"
#include "tuner/repeated_call.hpp"

namespace opdock::core {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_rounds = 15;
constexpr size_t least_rounds = 5; // even if budget or progress ends it: fewer would decide nothing
// An implementation so many times as slow as the fastest in both of the first two rounds is not timed further.
constexpr double far_behind = 4;

struct Contestant {
    TimedImplementation timed;
    std::unique_ptr<Attempt> attempt;
    size_t runs = 1;
    bool has_left = false; // far behind

    bool is_in() const { return timed.refused.empty(); }
};

class Race {
  public:
    Race(CallHost &host, const TunedCall &call, const TuneOptions &options)
        : host_(host), call_(call), options_(options), repeated_(host, call, options.cold) {}

    AcrossResult run(const Chain &chain, const std::string &leader) {
        AcrossResult result;
        for (const Link &link : chain.links) {
            if (count_in() >= 2 && seconds() >= options_.budget) {
                Contestant &left_out = all_.emplace_back();
                left_out.timed.implementation = link.implementation;
                left_out.timed.refused = "the time was up";
                result.is_complete = false;
            } else {
                all_.push_back(admit(link));
            }
        }
        result.is_complete &= time_all();
        rank(leader);
        check_enough();
        for (Contestant &one : all_) {
            result.implementations.push_back(std::move(one.timed));
        }
        repeated_.synchronize();
        result.seconds = seconds();
        return result;
    }

  private:
    double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
    size_t count_in() const {
        return static_cast<size_t>(
            std::count_if(all_.begin(), all_.end(), [](const Contestant &one) { return one.is_in(); }));
    }

    // Prepares it for timing with the config in force and runs it.
    Contestant admit(const Link &link) {
        Contestant one;
        one.timed.implementation = link.implementation;
        Attempt now(host_, *link.deployment);
        if (const opdock_status status = now.choose(call_.shape, true); status != OPDOCK_OK) {
            one.timed.refused = fmt::format("{}: {}", status_text(status), now.reason);
            return one;
        }
        one.timed.config = now.chosen.config;
        RepeatedCall::Ready ready =
            repeated_.prepare(*link.deployment, one.timed.config.empty() ? nullptr : &one.timed.config);
        one.timed.refused = std::move(ready.refused);
        one.attempt = std::move(ready.attempt);
        try {
            if (one.is_in()) {
                one.timed.refused = repeated_.learn(*one.attempt);
            }
            if (one.is_in()) {
                one.runs = repeated_.runs_of(*one.attempt);
            }
        } catch (const Error &error) { // it failed on the second run
            one.timed.refused = error.what();
        }
        return one;
    }

    // Times it once; one that fails now is out.
    void time_once(Contestant &one) {
        try {
            one.timed.samples.push_back(repeated_.sample(*one.attempt, one.runs));
        } catch (const Error &error) {
            one.timed.refused = error.what();
            one.timed.samples.clear();
        }
    }

    // Returns false if budget or progress ended it.
    bool time_all() {
        const size_t total = most_rounds * count_in();
        size_t done = 0;
        bool stopped = false; // by the progress callback
        for (size_t round = 0; round < most_rounds && count_in() > 1; ++round) {
            for (Contestant &one : all_) {
                if (one.is_in() && !one.has_left) {
                    time_once(one);
                }
                done += one.is_in() ? 1 : 0;
            }
            stopped = stopped || (options_.progress && !options_.progress({done, total, seconds(), options_.budget}));
            if (round + 1 == 2) {
                leave_behind();
            }
            if (round + 1 >= least_rounds && round + 1 < most_rounds && (stopped || seconds() > options_.budget)) {
                return false;
            }
        }
        return true;
    }

    void leave_behind() {
        double fastest = 0; // by its slower round
        for (const Contestant &one : all_) {
            if (one.is_in()) {
                const double slower = *std::max_element(one.timed.samples.begin(), one.timed.samples.end());
                fastest = fastest == 0 ? slower : std::min(fastest, slower);
            }
        }
        for (Contestant &one : all_) {
            one.has_left = one.is_in() &&
                           *std::min_element(one.timed.samples.begin(), one.timed.samples.end()) > far_behind * fastest;
        }
    }

    void rank(const std::string &leader) {
        std::vector<std::vector<double>> samples;
        std::vector<TimedImplementation *> ranked;
        std::optional<size_t> place_of_leader;
        for (Contestant &one : all_) {
            if (one.is_in() && !one.timed.samples.empty()) {
                if (one.timed.implementation->impl_id == leader) {
                    place_of_leader = ranked.size();
                }
                samples.push_back(one.timed.samples);
                ranked.push_back(&one.timed);
            }
        }
        const std::vector<size_t> ranks = ranks_of(samples, place_of_leader);
        for (size_t i = 0; i < ranked.size(); ++i) {
            std::vector<double> &sorted = samples[i];
            std::sort(sorted.begin(), sorted.end());
            TimedImplementation &timed = *ranked[i];
            timed.rank = ranks[i];
            timed.median = sorted[sorted.size() / 2];
            timed.spread =
                timed.median > 0 ? (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / timed.median : 0;
        }
    }

    void check_enough() const {
        if (count_in() >= 2) {
            return;
        }
        std::string why = "fewer than two implementations run this call, so there is nothing to compare";
        for (const Contestant &one : all_) {
            why += one.is_in() ? "" : fmt::format("\n  '{}': {}", one.timed.implementation->impl_id, one.timed.refused);
        }
        throw Error(OPDOCK_UNSUPPORTED, why);
    }

    CallHost &host_;
    const TunedCall &call_;
    const TuneOptions &options_;
    RepeatedCall repeated_;
    const Clock::time_point began_ = Clock::now();
    std::vector<Contestant> all_;
};

} // namespace

AcrossResult time_across(CallHost &host, const Chain &chain, const TunedCall &call, const TuneOptions &options,
                         const std::string &leader) {
    if (host.devices().is_capturing(call.shape.device, call.stream)) {
        throw Error(OPDOCK_UNSUPPORTED, "the stream is being captured");
    }
    return Race(host, call, options).run(chain, leader);
}

} // namespace opdock::core
