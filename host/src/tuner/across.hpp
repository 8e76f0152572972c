// Times the implementations of an op against each other on one call.
#pragma once

#include <string>
#include <vector>

#include "dispatch/chain.hpp"
#include "tune/implementation_tuning.hpp"
#include "tuner/tuner.hpp"

namespace opdock::core {

struct TimedImplementation {
    const Implementation *implementation;
    std::string refused;         // why it was not timed; empty if it was
    TuneConfig config;           // the config in force; empty without knobs
    std::vector<double> samples; // microseconds of one run, from the same rounds as the others'
    size_t rank = 0;             // as returned by ranks_of(); 0: not timed
    double median = 0;
    double spread = 0;
};

struct AcrossResult {
    std::vector<TimedImplementation> implementations; // in the order of the chain
    bool is_complete = true;                          // not ended by budget or progress
    double seconds = 0;
};

// Times them in turn, in rounds; one that is several times as slow as the fastest leaves early. Makes the
// device current. Inputs that the call writes are restored at the end. `leader`: the previous leader, or
// empty. Throws Error(OPDOCK_UNSUPPORTED) if fewer than two run, or if the call cannot be repeated.
AcrossResult time_across(CallHost &host, const Chain &chain, const TunedCall &call, const TuneOptions &options,
                         const std::string &leader);

} // namespace opdock::core
