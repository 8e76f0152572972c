#include "compare.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "documents.hpp"
#include "report.hpp"

using namespace opdock::plugin_bench;
using nlohmann::json;

static std::string verdict(double ratio, double spread_before, double spread_now) {
    return verdict_of({10, spread_before, 15}, {10 * ratio, spread_now, 15});
}

TEST_CASE("a change counts only beyond what both measurements spread, and beyond 2 %") {
    CHECK(verdict(1.2, 0.05, 0.1) == "slower");
    CHECK(verdict(1.2, 0.25, 0.1) == "same");
    CHECK(verdict(1.2, 0.1, 0.25) == "same");
    CHECK(verdict(0.8, 0.1, 0.1) == "faster");
    CHECK(verdict(0.8, 0.3, 0.1) == "same");
    CHECK(verdict(1.015, 0, 0) == "same");
    CHECK(verdict(0.985, 0, 0) == "same");
}

TEST_CASE("what was timed once or twice spreads by nobody knows how much") {
    CHECK(std::string(verdict_of({10, 0, 1}, {20, 0.01, 15})) == "unsure");
    CHECK(std::string(verdict_of({10, 0.01, 15}, {20, 0, 2})) == "unsure");
}

TEST_CASE("rows are matched by call and implementation, and what is new or gone is said") {
    const json before = every_outcome();
    json now = before;
    now["shapes"][0]["implementations"][0]["microseconds"] = 1.0;
    now["shapes"][1]["inputs"][0]["source"] = "f32[65,64]";
    now["ceilings"]["copy"]["bytes_per_second"] = 8e9;
    const json comparison = compare(before, now);
    CHECK(comparison["copy_ratio"].get<double>() == doctest::Approx(0.8));
    const json &rows = comparison["rows"];
    REQUIRE(rows.size() == 4);
    CHECK(rows[0]["label"] == "norm input=f32[4,8] eps=1e-6");
    CHECK(rows[0]["verdict"] == "slower");
    CHECK(rows[0]["ratio"].get<double>() == doctest::Approx(2));
    CHECK(rows[1]["verdict"] == "same");
    CHECK(rows[2]["verdict"] == "new");
    CHECK(rows[2]["before"].is_null());
    CHECK(rows[3]["verdict"] == "gone");
    CHECK(rows[3]["now"].is_null());
}

TEST_CASE("a document of other calls has nothing to compare with") {
    const json before = every_outcome();
    CHECK(compares_anything(compare(before, before)));
    json now = before;
    for (json &shape : now["shapes"]) {
        shape["op"] = "another";
    }
    CHECK_FALSE(compares_anything(compare(before, now)));
}

TEST_CASE("--fail-above concerns what is slower beyond its spread and by more than that") {
    const json before = every_outcome();
    json now = before;
    now["shapes"][0]["implementations"][0]["microseconds"] = 0.6; // 1.2 times as long
    CHECK(is_too_slow(compare(before, now), 1.1));
    CHECK_FALSE(is_too_slow(compare(before, now), 1.3));
    CHECK_FALSE(is_too_slow(compare(before, now), 0));
    now["shapes"][0]["implementations"][0]["spread"] = 0.5;
    CHECK_FALSE(is_too_slow(compare(before, now), 1.1));
}

TEST_CASE("the comparison in words") {
    const json before = every_outcome();
    json now = before;
    now["shapes"][0]["implementations"][0]["microseconds"] = 1.0;
    now["model"] = "Another CPU";
    CHECK(render_comparison(compare(before, now), now, "before.json", opdock::cli::Page(false)) == R"(
SINCE before.json
  That file was measured on another model: Some CPU
  The copy rate is 1.00 times the earlier one.
  norm input=f32[4,8] eps=1e-6
      reference.cpp: 500 ns to 1 us, 2.00x slower, spread 4 %
      default.cpu: 50 ns to 50 ns, as fast, spread 2 %: no change beyond it
  linear_fwd input=f32[64,64] weight=f32[64,64]
      default.cpu: 10 us to 10 us, as fast, spread 2 %: no change beyond it
)");
}

TEST_CASE("a comparison is no wider than its page, and a speed is painted whole") {
    json before = every_outcome();
    before["shapes"][0]["implementations"][0]["impl_id"] = "vendor.acme.of.a.long.name";
    before["shapes"][0]["implementations"][0]["samples"] = 1;
    before["shapes"][0]["inputs"].push_back({{"name", "residual"}, {"source", "random:bf16[16,1024,16384]:0..100"}});
    json now = before;
    now["shapes"][0]["implementations"][0]["microseconds"] = 1.0;
    const json rows = compare(before, now);
    CHECK(render_comparison(rows, now, "before.json", opdock::cli::Page(false, 60)) == R"(
SINCE before.json
  The copy rate is 1.00 times the earlier one.
  norm input=f32[4,8]
    residual=random:bf16[16,1024,16384]:0..100 eps=1e-6
      vendor.acme.of.a.long.name: 500 ns to 1 us,
      2.00x slower, spread 4 %: too few rounds to tell
      default.cpu: 50 ns to 50 ns, as fast, spread 2 %: no
      change beyond it
  linear_fwd input=f32[64,64] weight=f32[64,64]
      default.cpu: 10 us to 10 us, as fast, spread 2 %: no
      change beyond it
)");
    json slower = every_outcome();
    slower["shapes"][0]["implementations"][0]["microseconds"] = 1.0;
    CHECK(render_comparison(compare(every_outcome(), slower), slower, "before.json", opdock::cli::Page(true, 50))
              .find("reference.cpp: 500 ns to 1 us, \x1b[31m2.00x slower\x1b[0m,\n      spread 4 %\n") !=
          std::string::npos);
}

TEST_CASE("a file that is no such document is refused") {
    CHECK_THROWS_AS(read_document("/nonexistent.json"), opdock::cli::Failure);
    CHECK_THROWS_WITH_AS(read_document("/dev/null"), doctest::Contains("expected the output of 'plugin-bench --json'"),
                         opdock::cli::Failure);
}
