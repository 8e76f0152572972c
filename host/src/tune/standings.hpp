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

// The space of such entries in the database; those of configs have a digest of the candidates.
inline constexpr std::string_view standings_space = "across";

struct RaceStanding {
    std::string impl_id;
    size_t rank = 1;         // 1: the fastest, and all that are not significantly slower
    std::string race;        // id of the measurement; only equal ones compare, later ids are greater
    double microseconds = 0; // microseconds of one run
};

// "rank=2 race=0000018c251e2a00"
std::string standing_text(const RaceStanding &standing);
// The inverse; nothing for an entry of another kind.
std::optional<RaceStanding> standing_of(const std::string &impl_id, const TuneEntry &entry);

// Ranks by interleaved samples: sample i of all was taken in round i. One ranks behind another if its median is 2 %
// larger and it was slower in four of five rounds, or in all rounds if there were fewer than ten. Those not clearly
// slower than the fastest of their rank share it. None may be without samples. `leader`, an index in `samples`, keeps
// the first rank to itself: a previous leader leads until another one is clearly faster.
std::vector<size_t> ranks_of(const std::vector<std::vector<double>> &samples, std::optional<size_t> leader = {});
// The implementation that alone had the first rank in the newest of these measurements; empty if there is none.
std::string leader_of(std::span<const RaceStanding> standings);

struct Lead {
    size_t from;      // its index in the given order
    size_t to;        // its new index; equal to `from` if it is there already and clearly the fastest
    double gain;      // time of the next, divided by its own
    std::string next; // the fastest of those that rank behind it
};

// The implementation that moves forward in `order`, a policy's order of what it permits. The fastest one
// passes those timed with it, but never one that was not timed. Nothing if the given order stays in force.
std::optional<Lead> lead_of(std::span<const std::string> order, std::span<const RaceStanding> standings);

} // namespace opdock::core
