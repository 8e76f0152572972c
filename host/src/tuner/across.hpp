// Timing the implementations of an op against each other on one call.
#pragma once

#include <string>
#include <vector>

#include "dispatch/chain.hpp"
#include "tune/implementation_tuning.hpp"
#include "tuner/tuner.hpp"

namespace opdock::core {

struct TimedImplementation {
    const Implementation *implementation;
    std::string refused;         // why it was not timed; empty: it was
    TuneConfig config;           // the one in force; empty without knobs
    std::vector<double> samples; // microseconds of one run, of the same rounds as the others'
    size_t rank = 0;             // as ranks_of() has it; 0: it was not timed
    double median = 0;
    double spread = 0;
};

struct AcrossResult {
    std::vector<TimedImplementation> implementations; // in the order of the chain
    bool is_complete = true;                          // neither budget nor progress ended it
    double seconds = 0;
};

// Each in turn, in rounds; one that is several times as slow as the fastest leaves early. The device is made current.
// Inputs that the call writes hold in the end what they held before. `leader` is who led before, or empty. Throws
// Error(OPDOCK_UNSUPPORTED) where fewer than two run, or the call cannot be repeated.
AcrossResult time_across(CallHost &host, const Chain &chain, const TunedCall &call, const TuneOptions &options,
                         const std::string &leader);

} // namespace opdock::core
