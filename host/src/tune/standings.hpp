// Results of measurements that compare the implementations of an op on calls of one bucket.
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
    std::string race;        // which measurement; those of different ones are not compared, later ones are greater
    double microseconds = 0; // of one run
};

// "rank=2 race=0000018c251e2a00"
std::string standing_text(const RaceStanding &standing);
// The same back; nothing for an entry that is none.
std::optional<RaceStanding> standing_of(const std::string &impl_id, const TuneEntry &entry);

// A rank for each, by interleaved samples: sample i of all was taken in round i. One ranks behind another when its
// median is larger by 2 %, and it was slower in four of five rounds, of fewer than ten in all; those that chance does
// not tell from the fastest of their rank share it. None may be without samples. `leader`, a place in `samples`, shares
// the first rank with none: who led before goes on to lead until another one is clearly faster.
std::vector<size_t> ranks_of(const std::vector<std::vector<double>> &samples, std::optional<size_t> leader = {});
// Who alone had the first rank in the newest measurement of these; empty where nobody had.
std::string leader_of(std::span<const RaceStanding> standings);

struct Lead {
    size_t from;      // the place, in the order that was given, of the one that goes forward
    size_t to;        // and the place that it goes to; the same where it is there already and clearly the fastest
    double gain;      // the time of the next, by its own
    std::string next; // the fastest of those that rank behind it
};

// Who of `order`, which is what a policy permits in its own order, goes forward. The fastest passes those that were
// timed with it, up to the last one that was not. Nothing where the order decides.
std::optional<Lead> lead_of(std::span<const std::string> order, std::span<const RaceStanding> standings);

} // namespace opdock::core
