#include "tune/standings.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <spdlog/fmt/fmt.h>

#include "text/spelling.hpp"

namespace opdock::core {
namespace {

// By chance, one that is no slower loses 12 of 15 rounds once in 57 times, and 5 of 5 once in 32 times.
constexpr double needed_gain = 0.02;
constexpr size_t few_rounds = 10;
constexpr std::string_view rank_is = "rank=";
constexpr std::string_view race_is = " race=";

double median_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

bool is_clearly_slower(const std::vector<double> &one, const std::vector<double> &other) {
    const size_t rounds = std::min(one.size(), other.size());
    size_t lost = 0;
    for (size_t round = 0; round < rounds; ++round) {
        lost += one[round] > other[round] ? 1 : 0;
    }
    const size_t needed = rounds < few_rounds ? rounds : rounds - rounds / 5;
    return lost >= needed && (1 - needed_gain) * median_of(one) > median_of(other);
}

const RaceStanding *find(std::span<const RaceStanding> standings, std::string_view race, const std::string &impl_id) {
    const auto found = std::find_if(standings.begin(), standings.end(), [&](const RaceStanding &one) {
        return one.race == race && same_name(one.impl_id, impl_id);
    });
    return found == standings.end() ? nullptr : &*found;
}

} // namespace

std::string standing_text(const RaceStanding &standing) {
    return fmt::format("{}{}{}{}", rank_is, standing.rank, race_is, standing.race);
}

std::optional<RaceStanding> standing_of(const std::string &impl_id, const TuneEntry &entry) {
    const std::string_view text = entry.config;
    if (entry.space != standings_space || !text.starts_with(rank_is) || !(entry.microseconds > 0)) {
        return {};
    }
    RaceStanding standing = {impl_id, 0, {}, entry.microseconds};
    const auto [end, error] = std::from_chars(text.data() + rank_is.size(), text.data() + text.size(), standing.rank);
    const std::string_view rest = text.substr(static_cast<size_t>(end - text.data()));
    if (error != std::errc() || standing.rank == 0 || !rest.starts_with(race_is)) {
        return {};
    }
    standing.race = rest.substr(race_is.size());
    return standing;
}

std::vector<size_t> ranks_of(const std::vector<std::vector<double>> &samples, std::optional<size_t> leader) {
    std::vector<size_t> by_time(samples.size());
    std::iota(by_time.begin(), by_time.end(), size_t{0});
    std::stable_sort(by_time.begin(), by_time.end(),
                     [&](size_t one, size_t other) { return median_of(samples[one]) < median_of(samples[other]); });
    std::vector<size_t> ranks(samples.size(), 1);
    size_t rank = 1;
    size_t fastest = by_time.empty() ? 0 : by_time.front(); // in this rank
    for (const size_t one : by_time) {
        if (is_clearly_slower(samples[one], samples[fastest])) {
            ++rank;
            fastest = one;
        }
        ranks[one] = rank;
    }
    if (leader && ranks[*leader] == 1 && std::count(ranks.begin(), ranks.end(), size_t{1}) > 1) {
        for (size_t &one : ranks) {
            ++one;
        }
        ranks[*leader] = 1;
    }
    return ranks;
}

std::string leader_of(std::span<const RaceStanding> standings) {
    std::string race;
    for (const RaceStanding &one : standings) {
        race = std::max(race, one.race);
    }
    const auto leads = [&](const RaceStanding &one) { return one.race == race && one.rank == 1; };
    const auto leader = std::find_if(standings.begin(), standings.end(), leads);
    return std::count_if(standings.begin(), standings.end(), leads) == 1 ? leader->impl_id : "";
}

std::optional<Lead> lead_of(std::span<const std::string> order, std::span<const RaceStanding> standings) {
    std::string race; // the newest one that any of them was in
    for (const RaceStanding &one : standings) {
        if (std::any_of(order.begin(), order.end(),
                        [&](const std::string &id) { return same_name(id, one.impl_id); })) {
            race = std::max(race, one.race);
        }
    }
    const RaceStanding *first = nullptr;
    size_t from = 0;
    for (size_t i = 0; i < order.size(); ++i) {
        const RaceStanding *one = find(standings, race, order[i]);
        if (one != nullptr && (first == nullptr || one->rank < first->rank)) {
            first = one;
            from = i;
        }
    }
    size_t to = 0;
    bool is_alone = true; // alone in its rank
    const RaceStanding *next = nullptr;
    for (size_t i = 0; i < order.size() && first != nullptr; ++i) {
        const RaceStanding *one = find(standings, race, order[i]);
        if (one == nullptr) {
            to = i < from ? i + 1 : to;
        } else if (one->rank == first->rank) {
            is_alone = is_alone && one == first;
        } else if (next == nullptr || one->microseconds < next->microseconds) {
            next = one;
        }
    }
    if (next == nullptr || (to == from && !is_alone)) {
        return {};
    }
    return Lead{from, to, next->microseconds / first->microseconds, next->impl_id};
}

} // namespace opdock::core
