// Implementations of one op on one shape, timed side by side: in each round every one of them runs a batch, so that
// what slows the machine down for a while slows all of them down.
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
    std::vector<double> samples = {}; // microseconds of one run, of each round
    size_t batch = 1;                 // runs of a sample
};

struct RaceOptions {
    size_t rounds;
    double seconds; // for all, but for the first three rounds
    // Asked before each batch, with how many of how many were run and the seconds since the start; false stops.
    std::function<bool(uint64_t done, uint64_t total, double seconds)> go_on;
};

// Fills in what became of each. One whose single run takes longer than its share of the time is timed by that run.
void race(const Host &host, const std::string &op, const op_call::PlacedCall &call, DLDevice device, Rotation &rotation,
          const RaceOptions &options, std::vector<Timing> &timings);

// How many runs make a batch that the clock can measure and that leaves time for all rounds of all contenders.
size_t batch_of(double microseconds, const RaceOptions &options, size_t contenders);

} // namespace opdock::plugin_bench
