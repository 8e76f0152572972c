#include "host/counters.hpp"

#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace opdock::core;

namespace {

const std::vector<CountedImplementation> two = {
    {"gelu", "default.cpu", "cpu", "", {7, 0, 0, 1, 2, 3, 4, 5}},
    {"gelu", "vendor.acme", "acme", "acme", {5, 3, 1, 0, 0, 0, 0, 0}},
};

} // namespace

TEST_CASE("counters as OpenMetrics have a family for each outcome, and labels") {
    CHECK(open_metrics(two) ==
          R"(# TYPE opdock_served counter
# HELP opdock_served Calls that an implementation served.
opdock_served_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor=""} 7
opdock_served_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme"} 5
# TYPE opdock_declined counter
# HELP opdock_declined Calls that an implementation declined.
opdock_declined_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor=""} 0
opdock_declined_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme"} 3
# TYPE opdock_failed counter
# HELP opdock_failed Calls in which an implementation failed.
opdock_failed_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor=""} 0
opdock_failed_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme"} 1
# TYPE opdock_fallbacks counter
# HELP opdock_fallbacks Calls that an implementation served in place of another, by reason.
opdock_fallbacks_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor="",reason="declined"} 1
opdock_fallbacks_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor="",reason="failed"} 2
opdock_fallbacks_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor="",reason="running"} 3
opdock_fallbacks_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor="",reason="all_dropped"} 4
opdock_fallbacks_total{op="gelu",implementation="default.cpu",plugin="cpu",vendor="",reason="all_failed"} 5
opdock_fallbacks_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme",reason="declined"} 0
opdock_fallbacks_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme",reason="failed"} 0
opdock_fallbacks_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme",reason="running"} 0
opdock_fallbacks_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme",reason="all_dropped"} 0
opdock_fallbacks_total{op="gelu",implementation="vendor.acme",plugin="acme",vendor="acme",reason="all_failed"} 0
# EOF
)");
}

TEST_CASE("values of labels are escaped") {
    const std::vector<CountedImplementation> odd = {{"a\\b", "c\"d", "e\nf", "", {1}}};
    CHECK(open_metrics(odd).find(R"({op="a\\b",implementation="c\"d",plugin="e\nf",vendor=""} 1)") !=
          std::string::npos);
}

TEST_CASE("calls with shadows are a family of their own, where there are any") {
    CHECK(open_metrics(two).find("shadows") == std::string::npos);
    const std::vector<CountedImplementation> shadowed = {{"gelu", "a", "b", "", {1}, {3, 2, 1}}};
    CHECK(open_metrics(shadowed).find(R"(# TYPE opdock_shadows counter
# HELP opdock_shadows Calls that were to be compared with a shadow, by result.
opdock_shadows_total{op="gelu",implementation="a",plugin="b",vendor="",result="agreed"} 3
opdock_shadows_total{op="gelu",implementation="a",plugin="b",vendor="",result="disagreed"} 2
opdock_shadows_total{op="gelu",implementation="a",plugin="b",vendor="",result="left_out"} 1
)") != std::string::npos);
}

TEST_CASE("counters as JSON have every key") {
    CHECK(counters_json(two).at(0) ==
          nlohmann::json::parse(
              R"({"op": "gelu", "impl_id": "default.cpu", "plugin": "cpu", "vendor": "", "served": 7, "declined": 0,
                  "failed": 0, "fallbacks": {"declined": 1, "failed": 2, "running": 3, "all_dropped": 4,
                  "all_failed": 5}, "shadows": {"agreed": 0, "disagreed": 0, "left_out": 0}})"));
    CHECK(counters_json({}) == nlohmann::json::array());
}

TEST_CASE("the table for people has those that were called") {
    std::vector<CountedImplementation> some = two;
    some.push_back({"gelu", "vendor.idle", "idle", "idle", {}});
    CHECK(counters_table(some) ==
          "  op    implementation  served  declined  failed  served in place of another\n"
          "  gelu  default.cpu     7       0         0       1 (declined), 2 (failed), 3 (running), 4 (all_dropped), "
          "5 (all_failed)\n"
          "  gelu  vendor.acme     5       3         1\n");
    CHECK(counters_table({}).empty());
    CHECK(nothing_counted(std::vector(some.begin() + 2, some.end())));
    CHECK_FALSE(nothing_counted(some));
}

TEST_CASE("OpenMetrics has latencies as histograms, whose buckets hold those below, too") {
    Latency latency;
    latency.op = "gelu";
    latency.impl_id = "vendor.acme";
    latency.device = "fake:0";
    latency.counts[latency_bucket(200)] = 2;
    latency.counts[latency_bucket(1'000)] = 3;
    latency.counts.back() = 1;
    latency.sum = 1'500'000'000;
    const std::string labels = R"({op="gelu",implementation="vendor.acme",device="fake:0",clock="host")";
    const std::string text = open_metrics({}, std::span(&latency, 1));
    const auto has = [&](const std::string &end, const std::string &value) {
        return text.find("\nopdock_call_seconds_" + end + "} " + value + "\n") != std::string::npos;
    };
    CHECK(has("bucket" + labels + ",le=\"2.56e-07\"", "2"));
    CHECK(has("bucket" + labels + ",le=\"5.12e-07\"", "2"));
    CHECK(has("bucket" + labels + ",le=\"1.024e-06\"", "5"));
    CHECK(has("bucket" + labels + ",le=\"+Inf\"", "6"));
    CHECK(has("count" + labels, "6"));
    CHECK(has("sum" + labels, "1.5"));
    CHECK(text.find("# TYPE opdock_call_seconds histogram\n") != std::string::npos);
    CHECK(text.ends_with("# EOF\n"));
}
