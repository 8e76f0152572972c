// Finds the fastest config for one call, by running the call with each.
//
// A config may win only if its results agree with those of the config in force without tuning, and if
// it was faster than that one in interleaved runs at the end. The call's outputs are written again and
// again, with garbage in between; in the end they hold the results of the config in force, and inputs
// that the call writes (`mut`, or an input that an output overlaps) are restored.
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
    size_t done; // of `total` steps; one step times one config once
    size_t total;
    double seconds; // since the start
    double budget;  // seconds
};

struct TuneOptions {
    enum class Strategy {
        exhaustive, // times every config equally often
        halving,    // drops the slower half after each round and times the others twice as often in the next
    };
    Strategy strategy = Strategy::halving;
    double budget = 10; // seconds; a config not timed by then does not win
    bool cold = false;  // flush caches before each run
    // Called after each step; false stops with the results so far.
    std::function<bool(const TuneProgress &)> progress;
};

struct TimedConfig {
    enum class Outcome {
        timed,
        refused,  // declined or failed
        wrong,    // results differ from those of the config in force
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
    TimedConfig before; // the config in force without tuning, and its source below
    ConfigSource before_source = ConfigSource::defaults;
    TimedConfig best;               // equal to `before` if nothing was faster
    std::vector<TimedConfig> tried; // `before` first, configs that were not timed last
    bool is_complete = true;        // not ended by budget or progress
    double seconds = 0;
};

// Throws Error: OPDOCK_UNSUPPORTED if there is nothing to try, if the config in force does not run, or if the call
// cannot be repeated (written tensors with gaps). Makes the device current. Neither stores nor applies the result.
TuneResult tune(CallHost &host, Deployment &deployment, const TunedCall &call, const TuneTask &task,
                const TuneOptions &options);

// Writes the result to the database and applies it in this process. Throws DatabaseError if it cannot
// be written; it is applied all the same.
void keep(CallHost &host, Deployment &deployment, const TuneTask &task, const TuneResult &result);

} // namespace opdock::core
