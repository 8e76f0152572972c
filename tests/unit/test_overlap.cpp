#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "call_arguments.hpp"
#include "signature/bind.hpp"
#include "signature/overlap.hpp"
#include "signature/self_overlap.hpp"

using namespace opdock;
using namespace opdock::core;
using opdock::core::parse_signature;
using opdock::test::CallArguments;
using opdock::test::error_of;
using opdock::test::MadeTensor;

namespace {

struct Layout {
    std::vector<int64_t> shape;
    std::vector<int64_t> strides;
};

// The offset of each index, in elements from the first.
std::vector<int64_t> places(const Layout &layout) {
    std::vector<int64_t> all = {0};
    for (size_t axis = 0; axis < layout.shape.size(); ++axis) {
        std::vector<int64_t> longer;
        for (const int64_t place : all) {
            for (int64_t i = 0; i < layout.shape[axis]; ++i) {
                longer.push_back(place + i * layout.strides[axis]);
            }
        }
        all = std::move(longer);
    }
    return all;
}

bool meets_itself(const Layout &layout) {
    const std::vector<int64_t> all = places(layout);
    return std::set<int64_t>(all.begin(), all.end()).size() != all.size();
}

class RandomLayouts {
  public:
    explicit RandomLayouts(uint32_t seed) : random_(seed) {}

    Layout next(int64_t most_axes, int64_t longest, int64_t widest) {
        Layout layout;
        for (int64_t axes = number(1, most_axes); axes > 0; --axes) {
            layout.shape.push_back(number(1, longest));
            layout.strides.push_back(number(-widest, widest));
        }
        return layout;
    }
    int64_t number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  private:
    std::mt19937 random_;
};

std::string error_of_writing(const Layout &layout) {
    static const Signature signature = parse_signature("f(x: T[...]) -> (y: T[...])");
    CallArguments call;
    call.in(OPDOCK_F32, layout.shape).out(OPDOCK_F32, layout.shape, layout.strides);
    call.output(0).address = uint64_t{1} << 62; // far from the input, whatever the input's strides
    return error_of([&] { bind(signature, call.args()); });
}

std::string text_of(const Layout &layout) {
    std::string text;
    for (size_t axis = 0; axis < layout.shape.size(); ++axis) {
        text += " " + std::to_string(layout.shape[axis]) + ":" + std::to_string(layout.strides[axis]);
    }
    return text;
}

} // namespace

TEST_CASE("an output is taken exactly when no two of its indices name one element, whatever its rank") {
    const uint32_t seed = 20261123;
    CAPTURE(seed);
    RandomLayouts random(seed);
    int taken = 0, of_rank_three_or_more = 0;
    for (int i = 0; i < 60000; ++i) {
        const Layout layout = i % 2 == 0 ? random.next(4, 4, 40) : random.next(6, 3, 200);
        CAPTURE(text_of(layout));
        const bool good = error_of_writing(layout) == "no error";
        if (good == meets_itself(layout)) {
            REQUIRE(good != meets_itself(layout)); // a single check, rather than 60,000
        }
        taken += good ? 1 : 0;
        of_rank_three_or_more += good && layout.shape.size() >= 3 ? 1 : 0;
    }
    CHECK(taken > 10000);
    CHECK(of_rank_three_or_more > 5000);
}

TEST_CASE("three axes that meet only together are noticed") {
    CHECK(error_of_writing({{2, 2, 2}, {1, 2, 3}}).find("several indices for one element") != std::string::npos);
    CHECK(error_of_writing({{2, 2, 2}, {1, -2, 3}}) != "no error");
    CHECK(error_of_writing({{3, 2, 2}, {5, 1, 11}}) != "no error"); // 2 * 5 + 1 == 11
    CHECK(error_of_writing({{2, 2, 2}, {1, 2, 4}}) == "no error");
    CHECK(error_of_writing({{1 << 20, 2, 2}, {3, 1, (3 << 19) + 1}}) != "no error"); // 2^19 * 3 + 1
}

TEST_CASE("views of large dense tensors are judged without a search") {
    const auto judged = [](std::vector<Axis> of, uint64_t steps) {
        Axes axes;
        for (const Axis &axis : of) {
            axes.all[axes.count++] = axis;
        }
        return self_overlap(axes, steps);
    };
    const uint64_t k = 1024;
    CHECK(judged({{k, 1}, {k, k}, {k, k * k}}, 0) == SelfOverlap::none);                    // permuted
    CHECK(judged({{k / 2, 2}, {k / 3, 3 * k}, {k, k * k}}, 0) == SelfOverlap::none);        // every second, every third
    CHECK(judged({{8, 1}, {k, 16}, {k, 32 * k}, {4, 64 * k * k}}, 0) == SelfOverlap::none); // padded
    CHECK(judged({{k, k + 1}, {k, k * k}}, 0) == SelfOverlap::none);                        // diagonals
    CHECK(judged({{k, 1}, {k, k - 1}, {k, k * k}}, 1) == SelfOverlap::some);
    CHECK(judged({}, 0) == SelfOverlap::none);
    CHECK(judged({{2, 2}, {7, 33}, {7, 29}}, 5) == SelfOverlap::none); // few numbers can be reached
}

TEST_CASE("an output whose strides take too long to judge is refused, and the message says that") {
    // Eight irregular strides: many sums come close to 0, but none is 0.
    const Layout tangled{{30, 30, 30, 30, 30, 30, 30, 30},
                         {1000000007000, 1000033000081, 1000213000049, 1000303000127, 1000403000231, 1000507000343,
                          1000609000459, 1000721000587}};
    const std::string error = error_of_writing(tangled);
    CHECK(error.find("may have several indices for one element, which takes too long to rule out") !=
          std::string::npos);
}

TEST_CASE("tensors that are said not to overlap share no byte") {
    const uint32_t seed = 20261124;
    CAPTURE(seed);
    RandomLayouts random(seed);
    const Signature signature = parse_signature("f(x: f32[...], y: bf16[...]) -> ()");
    int apart = 0;
    for (int i = 0; i < 30000; ++i) {
        const Layout read = random.next(3, 4, 12);
        const Layout written = random.next(3, 4, 12);
        const int64_t distance = random.number(-60, 60);
        MadeTensor made_read{read.shape, read.strides, OPDOCK_F32, 1 << 20};
        MadeTensor made_written{written.shape, written.strides, OPDOCK_BF16,
                                static_cast<uint64_t>((1 << 20) + distance)};
        Extent a{made_read.get(), {0, 0}, false, 0, 0};
        Extent b{made_written.get(), {1, 0}, false, 0, 0};
        measure(signature, a);
        measure(signature, b);
        if (overlap(a, b)) {
            continue;
        }
        ++apart;
        std::set<int64_t> bytes;
        for (const int64_t place : places(read)) {
            for (int64_t byte = 0; byte < 4; ++byte) {
                bytes.insert(4 * place + byte);
            }
        }
        for (const int64_t place : places(written)) {
            for (int64_t byte = 0; byte < 2; ++byte) {
                const int64_t at = distance + 2 * place + byte;
                if (bytes.contains(at)) {
                    CAPTURE(text_of(read));
                    CAPTURE(text_of(written));
                    CAPTURE(distance);
                    REQUIRE_FALSE(bytes.contains(at));
                }
            }
        }
    }
    CHECK(apart > 1000);
}
