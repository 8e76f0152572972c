#include "search.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <doctest/doctest.h>

using namespace opdock::plugin_bisect;

namespace {

constexpr size_t first_runs = 2; // as it is, and with everything replaced

bool has(const Members &active, size_t member) {
    return std::find(active.begin(), active.end(), member) != active.end();
}

bool has_all(const Members &active, const Members &members) {
    return std::all_of(members.begin(), members.end(), [&](size_t member) { return has(active, member); });
}

struct Searched {
    Found found;
    size_t runs = 0;
};

Searched search(size_t suspects, const Search::Test &test, bool first_only = false) {
    std::set<Members> asked;
    Search search(suspects, [&](const Members &active) {
        CHECK(std::is_sorted(active.begin(), active.end()));
        CHECK(asked.insert(active).second); // no run is made twice
        return test(active);
    });
    Searched searched;
    searched.found = search.run(first_only);
    searched.runs = first_runs + search.tests();
    CHECK(search.tests() == asked.size());
    return searched;
}

// Bad when one of `culprits` is active.
Searched search_any(size_t suspects, const Members &culprits, bool first_only = false) {
    return search(
        suspects,
        [&](const Members &active) {
            return std::any_of(culprits.begin(), culprits.end(), [&](size_t one) { return has(active, one); });
        },
        first_only);
}

std::set<Members> members_of(const Found &found) {
    std::set<Members> all;
    for (const Culprit &culprit : found.culprits) {
        all.insert(culprit.members);
    }
    return all;
}

Members some_of(size_t suspects, size_t count, std::mt19937 &random) {
    Members all(suspects);
    std::iota(all.begin(), all.end(), size_t{0});
    std::shuffle(all.begin(), all.end(), random);
    all.resize(count);
    std::sort(all.begin(), all.end());
    return all;
}

} // namespace

TEST_CASE("one culprit of 64 is named within 8 runs at every place, and two more tell that it is the only one") {
    for (size_t place = 0; place < 64; ++place) {
        CAPTURE(place);
        const Searched first = search_any(64, {place}, true);
        CHECK(members_of(first.found) == std::set<Members>{{place}});
        CHECK(first.runs <= 8);
        CHECK_FALSE(first.found.rest_is_good);

        const Searched all = search_any(64, {place});
        CHECK(members_of(all.found) == std::set<Members>{{place}});
        CHECK(first_runs + all.found.culprits[0].tests <= 8);
        CHECK(all.runs <= 10);
        CHECK(all.found.rest_is_good);
    }
}

TEST_CASE("two culprits of 64 are found within 20 runs wherever they are") {
    for (size_t one = 0; one < 64; ++one) {
        for (size_t other = one + 1; other < 64; ++other) {
            CAPTURE(one);
            CAPTURE(other);
            const Searched all = search_any(64, {one, other});
            CHECK(members_of(all.found) == std::set<Members>{{one}, {other}});
            CHECK(all.runs <= 20);
            CHECK(all.found.rest_is_good);
        }
    }
}

TEST_CASE("three culprits cost eight runs each at most, among any number of suspects up to 64") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 500; ++round) {
        const size_t suspects = 3 + random() % 62;
        const Members culprits = some_of(suspects, 3, random);
        CAPTURE(suspects);
        CAPTURE(culprits[0]);
        CAPTURE(culprits[1]);
        CAPTURE(culprits[2]);
        const Searched all = search_any(suspects, culprits);
        CHECK(members_of(all.found) == std::set<Members>{{culprits[0]}, {culprits[1]}, {culprits[2]}});
        CHECK(all.runs <= first_runs + 3 * 8);
    }
}

TEST_CASE("suspects that are bad only together are one culprit of several members") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 500; ++round) {
        const size_t suspects = 4 + random() % 61;
        const Members together = some_of(suspects, 2 + random() % 3, random);
        CAPTURE(suspects);
        CAPTURE(together.size());
        const Searched all = search(suspects, [&](const Members &active) { return has_all(active, together); });
        CHECK(members_of(all.found) == std::set<Members>{together});
        CHECK(all.found.rest_is_good);
        CHECK(all.runs <= first_runs + together.size() * 7 + 1);
    }
}

TEST_CASE("a culprit by itself is told from a pair that is bad only together") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 500; ++round) {
        Members chosen = some_of(40, 3, random);
        std::shuffle(chosen.begin(), chosen.end(), random);
        const size_t alone = chosen[0];
        Members pair = {chosen[1], chosen[2]};
        std::sort(pair.begin(), pair.end());
        CAPTURE(alone);
        CAPTURE(pair[0]);
        CAPTURE(pair[1]);
        const Searched all =
            search(40, [&](const Members &active) { return has(active, alone) || has_all(active, pair); });
        CHECK(members_of(all.found) == std::set<Members>{{alone}, pair});
    }
}

TEST_CASE("a test that contradicts itself ends the search all the same") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 200; ++round) {
        const Searched all = search(12, [&](const Members & /*active*/) { return random() % 2 == 0; });
        CHECK_FALSE(all.found.culprits.empty());
        CHECK(all.found.rest_is_good);
    }
}

TEST_CASE("one suspect alone is the culprit without a test, and without suspects nothing is found") {
    const Searched one = search_any(1, {0});
    CHECK(members_of(one.found) == std::set<Members>{{0}});
    CHECK(one.runs == first_runs);
    CHECK(search_any(0, {}).found.culprits.empty());
}

TEST_CASE("a search says how many tests are left at most, and a culprit is told as soon as it is named") {
    size_t most = 0;
    std::vector<Members> told;
    Search search(
        64,
        [&](const Members &active) {
            most = std::max(most, search.most_left());
            CHECK(search.most_left() >= 1);
            return has(active, 5);
        },
        [&](const Culprit &culprit) { told.push_back(culprit.members); });
    search.run(false);
    CHECK(most == 8); // and two more to be sure
    CHECK(told == std::vector<Members>{{5}});
}
