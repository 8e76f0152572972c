#include "measure.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace opdock::plugin_bisect;

namespace {

Trial trial(const std::vector<double> &scores) {
    Trial trial;
    for (const double score : scores) {
        trial.runs.emplace_back().score = score;
    }
    return trial;
}

Trial codes(const std::vector<int> &exit_codes) {
    Trial trial;
    for (const int code : exit_codes) {
        trial.runs.emplace_back().exit_code = code;
    }
    return trial;
}

Request scored(uint64_t of) {
    Request request;
    request.score = "x";
    request.of = of;
    return request;
}

Trial judged(const Judge &judge, Trial trial) {
    judge.judge(trial);
    return trial;
}

} // namespace

TEST_CASE("45 and 46 of 50 do not differ significantly, with a threshold between them and without one") {
    Request request = scored(50);
    Judge judge(request);
    Trial bad = trial({45}), good = trial({46});
    CHECK(judge.compare(bad, good) == Judge::Fault::not_significant);
    CHECK(*good.p == doctest::Approx(1));
    CHECK_FALSE(good.is_certain);
    request.at_least = 46;
    CHECK(judge.compare(bad, good) == Judge::Fault::not_significant);
}

TEST_CASE("the first runs have to be bad and good") {
    Request request = scored(50);
    request.at_least = 40;
    Judge judge(request);
    Trial low = trial({20}), high = trial({48}), lower = trial({10});
    CHECK(judge.compare(low, high) == Judge::Fault::none);
    CHECK(low.is_bad);
    CHECK_FALSE(high.is_bad);
    CHECK(judge.compare(high, low) == Judge::Fault::good_as_it_is);
    CHECK(judge.compare(low, lower) == Judge::Fault::not_in_ops);
}

TEST_CASE("exit codes: any failure is bad, and each run says it where there is one for each policy") {
    const Request request;
    Judge judge(request);
    Trial bad = codes({3}), good = codes({0});
    CHECK(judge.compare(bad, good) == Judge::Fault::none);
    CHECK_FALSE(good.p);
    CHECK(judged(judge, codes({1})).is_bad);
    CHECK_FALSE(judged(judge, codes({0})).is_bad);
    CHECK(judge.compare(good, bad) == Judge::Fault::good_as_it_is);
    Trial also_bad = codes({1});
    CHECK(judge.compare(bad, also_bad) == Judge::Fault::not_in_ops);
}

TEST_CASE("a command that fails now and then is bad where it fails more often than half as often") {
    Request request;
    request.repeats = 8;
    Judge judge(request);
    Trial bad = codes({1, 0, 1, 1, 0, 1, 0, 1}), good = codes({0, 0, 0, 0, 0, 0, 0, 0});
    REQUIRE(judge.compare(bad, good) == Judge::Fault::none);
    CHECK(judged(judge, codes({0, 1, 0, 1, 1, 0, 0, 1})).is_bad);
    CHECK_FALSE(judged(judge, codes({0, 0, 1, 0, 0, 0, 0, 0})).is_bad);
    CHECK_FALSE(judged(judge, codes({0, 0, 1, 0, 0, 0, 0, 1})).is_certain);
    Trial rarely = codes({1, 0, 0, 0, 0, 0, 0, 0});
    CHECK(judge.compare(rarely, good) == Judge::Fault::not_significant);
}

TEST_CASE("scores that spread are told apart by repeats, and one that lies between is not certain") {
    const Request request = scored(0);
    Judge judge(request);
    Trial bad = trial({2.0, 2.2, 1.8}), good = trial({1.0, 1.1, 0.9});
    REQUIRE(judge.compare(bad, good) == Judge::Fault::none);
    CHECK(judged(judge, trial({2.1, 1.9, 2.0})).is_bad);
    CHECK(judged(judge, trial({2.1, 1.9, 2.0})).is_certain);
    CHECK_FALSE(judged(judge, trial({1.0, 1.2, 0.8})).is_bad);
    CHECK_FALSE(judged(judge, trial({0.5, 3.0, 1.6})).is_certain);
    Trial same = trial({2.1, 2.0, 1.9});
    CHECK(judge.compare(bad, same) == Judge::Fault::not_significant);
}

TEST_CASE("a run without a score is bad") {
    const Request request = scored(50);
    Judge judge(request);
    Trial bad = codes({1}), good = trial({47});
    REQUIRE(judge.compare(bad, good) == Judge::Fault::none);
    CHECK_FALSE(good.p);
    CHECK(judged(judge, codes({1})).is_bad);
    CHECK_FALSE(judged(judge, trial({40})).is_bad);
    CHECK(judge.compare(good, bad) == Judge::Fault::not_in_ops);
}

TEST_CASE("a run is kept and read again as it was, but for being remembered") {
    Run run;
    run.number = 7;
    run.repeat = 2;
    run.exit_code = 139;
    run.timed_out = true;
    run.seconds = 1.5;
    run.out = "/x/7.out";
    run.err = "/x/7.err";
    run.served = {{"gelu", "vendor.acme"}};
    const Run again = run_from(to_json(run));
    CHECK(to_json(again) == to_json(run));
    CHECK(again.remembered);
    CHECK_FALSE(again.score);
    run.score = 0.5;
    CHECK(run_from(to_json(run)).score == 0.5);
}
