#include "rates.hpp"

#include <doctest/doctest.h>

#include "documents.hpp"

using namespace opdock::plugin_bench;

TEST_CASE("rates are bytes and operations by time, and fractions of what was measured") {
    nlohmann::json document = every_outcome();
    add_rates(document);
    const nlohmann::json &norm = document["shapes"][0]["implementations"][1];
    CHECK(norm["bytes_per_second"].get<double>() == doctest::Approx(5.12e9));
    CHECK(norm["of_copy"].get<double>() == doctest::Approx(0.512));
    CHECK(norm["roofline"] == norm["of_copy"]);
    CHECK_FALSE(norm.contains("flops_per_second"));
    CHECK_FALSE(document["shapes"][0]["implementations"][2].contains("of_copy"));
}

TEST_CASE("linear ops are held against the nearer of the two ceilings") {
    nlohmann::json document = every_outcome();
    add_rates(document);
    const nlohmann::json linear = document["shapes"][1]["implementations"][0];
    CHECK(linear["of_copy"].get<double>() == doctest::Approx(0.49152));
    CHECK(linear["of_matmul"].get<double>() == doctest::Approx(0.262144));
    CHECK(linear["roofline"] == linear["of_copy"]);
    document["ceilings"]["matmul"]["f32"] = nullptr;
    add_rates(document);
    CHECK(document["shapes"][1]["implementations"][0]["of_matmul"].is_null());
    CHECK(document["shapes"][1]["implementations"][0]["roofline"].is_null());
}
