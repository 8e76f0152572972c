#include "tune/reading_order.hpp"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>

using opdock::core::reading_order;
using opdock::core::ReadingOrder;

namespace {

using Reads = std::vector<std::vector<size_t>>;

} // namespace

TEST_CASE("what is read comes before what reads it, else the order is kept") {
    CHECK(reading_order({{}, {}, {}}).order == std::vector<size_t>{0, 1, 2});
    CHECK(reading_order({{2}, {}, {1}}).order == std::vector<size_t>{1, 2, 0});
    CHECK(reading_order({}).order.empty());
}

TEST_CASE("circles are told, and what only reads them is ordered") {
    const ReadingOrder order = reading_order({{1}, {2}, {1}, {3}});
    CHECK(order.order == std::vector<size_t>{0});
    CHECK(order.circles == Reads{{1, 2}, {3}});
}

TEST_CASE("whatever is ordered reads nothing that comes later") {
    constexpr unsigned seed = 20261;
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 2000; ++round) {
        Reads reads(1 + random() % 12);
        for (size_t edges = random() % (2 * reads.size()); edges > 0; --edges) {
            reads[random() % reads.size()].push_back(random() % reads.size());
        }
        const ReadingOrder order = reading_order(reads);
        std::vector<size_t> place(reads.size(), reads.size()); // omitted reads come after all others
        for (size_t i = 0; i < order.order.size(); ++i) {
            place[order.order[i]] = i;
        }
        for (const size_t one : order.order) {
            for (const size_t read : reads[one]) {
                CHECK((place[read] < place[one] || place[read] == reads.size()));
            }
        }
        size_t left_out = 0;
        for (size_t i = 0; i < reads.size(); ++i) {
            const bool is_told = std::any_of(order.circles.begin(), order.circles.end(), [i](const auto &circle) {
                return std::find(circle.begin(), circle.end(), i) != circle.end();
            });
            CHECK(is_told == (place[i] == reads.size()));
            left_out += is_told ? 1 : 0;
        }
        CHECK(order.order.size() + left_out == reads.size());
    }
}

TEST_CASE("a chain of any length is ordered") {
    Reads reads(100'000);
    for (size_t i = 0; i + 1 < reads.size(); ++i) {
        reads[i] = {i + 1};
    }
    CHECK(reading_order(reads).order.front() == reads.size() - 1);
    reads.back() = {0};
    CHECK(reading_order(reads).circles.size() == 1);
}
