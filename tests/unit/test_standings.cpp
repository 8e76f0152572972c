#include "tune/standings.hpp"

#include <algorithm>

#include <doctest/doctest.h>

using namespace opdock::core;

namespace {

using Ranks = std::vector<size_t>;

RaceStanding standing(const std::string &impl_id, size_t rank, double microseconds, const std::string &race = "1") {
    return {impl_id, rank, race, microseconds};
}

const std::vector<std::string> three = {"a", "b", "c"};

} // namespace

TEST_CASE("one that is slower in most rounds and by its median ranks behind") {
    CHECK(ranks_of({{2, 2, 2, 2, 2}, {1, 1, 1, 1, 1}}) == Ranks{2, 1});
    CHECK(ranks_of({{1, 1, 1, 1, 1}, {3, 3, 3, 3, 3}, {2, 2, 2, 2, 2}}) == Ranks{1, 3, 2});
    CHECK(ranks_of({{1, 1, 1, 1, 1}, {9, 9}}) == Ranks{1, 2}); // the latter left early
    CHECK(ranks_of({}).empty());
    CHECK(ranks_of({{1}}) == Ranks{1});
}

TEST_CASE("what chance may explain is as fast") {
    CHECK(ranks_of({{1, 1, 1, 1, 1}, {1.01, 1.01, 1.01, 1.01, 1.01}}) == Ranks{1, 1}); // slower by less than 2 %
    CHECK(ranks_of({{1, 2, 1, 2, 1}, {2, 1, 2, 1, 2}}) == Ranks{1, 1});                // slower in three rounds of five
    CHECK(ranks_of({{1, 1, 1, 1, 9}, {2, 2, 2, 2, 2}}) == Ranks{1, 1});                // slower in four of five
    const std::vector<double> two(15, 2);
    std::vector<double> one(15, 1);
    std::fill_n(one.begin(), 3, 9);
    CHECK(ranks_of({one, two}) == Ranks{1, 2}); // slower in 12 of 15
    std::fill_n(one.begin(), 4, 9);
    CHECK(ranks_of({one, two}) == Ranks{1, 1});
    // Each is as fast as the one before, but the last is not as fast as the first, and only that counts.
    CHECK(ranks_of({{1, 1, 1, 1, 1}, {1.015, 1.015, 1.015, 1.015, 1.015}, {1.03, 1.03, 1.03, 1.03, 1.03}}) ==
          Ranks{1, 1, 2});
}

TEST_CASE("who led before leads on until another one is clearly faster") {
    const std::vector<double> fast(5, 1), near(5, 1.01), slow(5, 2);
    CHECK(ranks_of({fast, near, slow}, 1) == Ranks{2, 1, 3});
    CHECK(ranks_of({fast, near, slow}, 0) == Ranks{1, 2, 3});
    CHECK(ranks_of({fast, near, slow}, 2) == Ranks{1, 1, 2});
    CHECK(ranks_of({fast, slow}, 0) == Ranks{1, 2});

    CHECK(leader_of({}).empty());
    CHECK(leader_of(std::vector{standing("a", 2, 20), standing("b", 1, 10)}) == "b");
    CHECK(leader_of(std::vector{standing("a", 1, 20), standing("b", 1, 10)}).empty());
    CHECK(leader_of(std::vector{standing("a", 1, 20, "2"), standing("b", 1, 10, "1")}) == "a"); // the newest one leads
}

TEST_CASE("the fastest of what is permitted goes first, with its gain over the next") {
    const std::vector<RaceStanding> all = {standing("a", 3, 30), standing("b", 2, 20), standing("c", 1, 10)};
    const std::optional<Lead> lead = lead_of(three, all);
    REQUIRE(lead);
    CHECK(lead->from == 2);
    CHECK(lead->to == 0);
    CHECK(lead->next == "b");
    CHECK(lead->gain == 2);
    const std::vector<std::string> without_c = {"a", "b"};
    const std::optional<Lead> second = lead_of(without_c, all);
    REQUIRE(second);
    CHECK(second->from == 1);
    CHECK(second->next == "a");
}

TEST_CASE("one that is first anyway and clearly the fastest is told, and stays") {
    const std::optional<Lead> lead =
        lead_of(three, std::vector{standing("a", 1, 10), standing("b", 3, 30), standing("c", 2, 13)});
    REQUIRE(lead);
    CHECK(lead->from == 0);
    CHECK(lead->to == 0);
    CHECK(lead->next == "c");
    CHECK(lead->gain == 1.3);
}

TEST_CASE("of equally fast ones the order decides") {
    CHECK_FALSE(lead_of(three, std::vector{standing("a", 1, 10.1), standing("b", 1, 10), standing("c", 2, 20)}));
    CHECK_FALSE(lead_of(three, std::vector{standing("a", 1, 10.1), standing("b", 1, 10.2), standing("c", 1, 10)}));
    const std::optional<Lead> lead =
        lead_of(three, std::vector{standing("a", 2, 20), standing("b", 1, 10.1), standing("c", 1, 10)});
    REQUIRE(lead);
    CHECK(lead->from == 1);
    CHECK(lead->next == "a"); // not the one that is as fast
}

TEST_CASE("nobody passes one that was not timed with it") {
    CHECK_FALSE(lead_of(three, std::vector{standing("c", 1, 10)}));
    CHECK_FALSE(lead_of(three, {}));
    CHECK_FALSE(lead_of({}, std::vector{standing("c", 1, 10)}));
    // It moves forward only past implementations that were timed with it.
    const std::optional<Lead> lead = lead_of(three, std::vector{standing("b", 2, 20), standing("c", 1, 10)});
    REQUIRE(lead);
    CHECK(lead->from == 2);
    CHECK(lead->to == 1);
    // Results of an older measurement are not compared.
    const std::vector<RaceStanding> of_two = {standing("a", 2, 20, "2"), standing("b", 1, 10, "2"),
                                              standing("c", 1, 5, "1")};
    REQUIRE(lead_of(three, of_two));
    CHECK(lead_of(three, of_two)->from == 1);
}

TEST_CASE("a standing is kept as an entry of the database and read again") {
    const RaceStanding kept = standing("vendor.acme", 2, 1.5, "0000019ace5a3f10");
    CHECK(standing_text(kept) == "rank=2 race=0000019ace5a3f10");
    const auto read = [](const std::string &space, const std::string &text, double microseconds) {
        return standing_of("vendor.acme", {space, "f32", "n=4", text, microseconds, 0});
    };
    const std::optional<RaceStanding> again = read("across", standing_text(kept), 1.5);
    REQUIRE(again);
    CHECK(again->rank == 2);
    CHECK(again->race == kept.race);
    CHECK(again->microseconds == 1.5);
    CHECK_FALSE(read("digest", standing_text(kept), 1.5));
    CHECK_FALSE(read("across", "block=2", 1.5));
    CHECK_FALSE(read("across", "rank=x race=1", 1.5));
    CHECK_FALSE(read("across", "rank=0 race=1", 1.5));
    CHECK_FALSE(read("across", "rank=1", 1.5));
    CHECK_FALSE(read("across", standing_text(kept), 0));
}
