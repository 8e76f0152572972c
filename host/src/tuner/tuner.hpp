// Finding the config that is fastest for one call, by running it with each.
//
// A config may win only if what it computes agrees with what the config in force without tuning computes, and if it was
// faster than that one in interleaved runs at the end. What a call writes is written again and again, with garbage in
// between; in the end its outputs hold what the config in force computed, and inputs that it writes (`mut`, or the
// input that an output overlaps) hold what they held before.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dispatch/deployment.hpp"
#include "tune/deployment_tuning.hpp"
#include "tuner/repeated_call.hpp"

namespace opdock::core {

struct TuneProgress {
    size_t done; // of `total` steps; a step is one config timed once
    size_t total;
    double seconds; // since the start
    double budget;  // seconds
};

struct TuneOptions {
    enum class Strategy {
        exhaustive, // every config the same number of times
        halving,    // the slower half leaves after each round, the others are timed twice as often in the next
    };
    Strategy strategy = Strategy::halving;
    double budget = 10; // seconds; what was not timed by then does not win
    bool cold = false;  // caches are flushed before each run
    // Called after each step; false stops, with what is known by then.
    std::function<bool(const TuneProgress &)> progress;
};

struct TimedConfig {
    enum class Outcome {
        timed,
        refused,  // declined, or failed
        wrong,    // computes something else than the config in force
        left_out, // the time was up
    };
    TuneConfig config;
    Outcome outcome = Outcome::timed;
    std::string reason; // why it was not timed
    double median = 0;  // microseconds of one run
    double spread = 0;  // (75th - 25th percentile) / median
    size_t samples = 0;
};

struct TuneResult {
    std::string key;
    std::string key_text;
    std::string dtypes;
    TimedConfig before; // what is in force without tuning, and its source
    ConfigSource before_source = ConfigSource::defaults;
    TimedConfig best;               // equal to `before` where nothing was faster
    std::vector<TimedConfig> tried; // `before` first, those that were not timed last
    bool is_complete = true;        // neither budget nor progress ended it
    double seconds = 0;
};

// Throws Error: OPDOCK_UNSUPPORTED when there is nothing to try, the config in force does not run, or the call cannot
// be repeated (written tensors with gaps). The device is made current. Neither stores the result nor puts it in force.
TuneResult tune(CallHost &host, Deployment &deployment, const TunedCall &call, const TuneTask &task,
                const TuneOptions &options);

// Writes the result to the database and puts it in force in this process. Throws DatabaseError when it cannot be
// written; it is in force then all the same.
void keep(CallHost &host, Deployment &deployment, const TuneTask &task, const TuneResult &result);

} // namespace opdock::core
