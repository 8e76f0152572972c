// Times the implementations of one op on one shape side by side: in each round every implementation runs one batch, so
// that a temporary slowdown of the machine affects all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "op-call/placed_call.hpp"
#include "rotation.hpp"

namespace opdock::plugin_bench {

struct Timing {
    enum class Outcome { timed, declined, failed, skipped };

    std::string impl_id;
    std::string kind;
    Outcome outcome = Outcome::timed;
    std::string reason = {};          // why it was not timed
    std::vector<double> samples = {}; // microseconds of one run, one sample per round
    size_t batch = 1;                 // runs per sample
};

struct RaceOptions {
    size_t rounds;
    double seconds; // for all rounds, except the first three
    // Called before each batch with the batches run, their total and the seconds since the start; false stops.
    std::function<bool(uint64_t done, uint64_t total, double seconds)> go_on;
};

// Fills in the outcome of each. If a single run exceeds an implementation's share of the time, that run is the result.
void race(const Host &host, const std::string &op, const op_call::PlacedCall &call, DLDevice device, Rotation &rotation,
          const RaceOptions &options, std::vector<Timing> &timings);

// The number of runs in a batch: enough for the clock, few enough to leave time for all rounds of all contenders.
size_t batch_of(double microseconds, const RaceOptions &options, size_t contenders);

} // namespace opdock::plugin_bench
