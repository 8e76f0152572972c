// How implementations of an op stood against each other when they were timed on calls of one bucket.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tune/tune_database.hpp"

namespace opdock::core {

// Names such entries of the database, where those of configs have a digest of what can be chosen.
inline constexpr std::string_view standings_space = "across";

struct RaceStanding {
    std::string impl_id;
    size_t rank = 1;         // 1: the fastest, and all that chance does not tell from it
    std::string race;        // which measurement; those of different ones are not compared
    double microseconds = 0; // of one run
};

// "rank=2 race=0000018c251e2a00"
std::string standing_text(const RaceStanding &standing);
// The same back; nothing for a text that is none.
std::optional<RaceStanding> standing_of(const std::string &impl_id, const TuneEntry &entry);

// A rank for each, by interleaved samples: sample i of all was taken in round i. One ranks behind another when its
// median is larger by 2 % and it was slower in four of five rounds; those that chance does not tell from the fastest of
// their rank share it. None may be without samples.
std::vector<size_t> ranks_of(const std::vector<std::vector<double>> &samples);

struct Lead {
    size_t place; // of the one that goes first, in the order that it was given
    double gain;  // the time of the next, by its own
    std::string next;
};

// Who of `order`, which is what a policy permits in its own order, goes first. Nothing where that is the first anyway
// and not clearly so, and where one that would be passed was not timed with it.
std::optional<Lead> lead_of(std::span<const std::string> order, std::span<const RaceStanding> standings);

} // namespace opdock::core
