#include "cli/suggest.hpp"

#include <doctest/doctest.h>

using namespace opdock::cli;

static const std::vector<std::string> ops = {"gelu_bwd", "gelu", "rmsnorm_bwd", "rmsnorm_bwd_add", "rmsnorm_fwd"};

TEST_CASE("names are the same whatever the case of their letters") {
    CHECK(opdock::cli::same_name("vendor.ACME", "Vendor.acme"));
    CHECK_FALSE(opdock::cli::same_name("vendor.acme", "vendor.acm"));
}

TEST_CASE("a transposed letter finds the op that was meant") {
    CHECK(near_misses("rmsnrom_fwd", ops).front() == "rmsnorm_fwd");
}

TEST_CASE("case is no mistake") {
    CHECK(near_misses("GELU", ops).front() == "gelu");
}

TEST_CASE("the first part of a name finds the names that contain it, shortest first") {
    CHECK(near_misses("rmsnorm", ops) == std::vector<std::string>{"rmsnorm_bwd", "rmsnorm_fwd", "rmsnorm_bwd_add"});
}

TEST_CASE("something else entirely finds nothing") {
    CHECK(near_misses("convolution", ops).empty());
    CHECK(did_you_mean("convolution", ops).empty());
}

TEST_CASE("near misses read as a question") {
    CHECK(did_you_mean("geluu", ops) == "; did you mean 'gelu'?");
    CHECK(did_you_mean("gelu_", {"gelu", "gelu2"}) == "; did you mean 'gelu' or 'gelu2'?");
    CHECK(did_you_mean("rmsnorm", ops) == "; did you mean 'rmsnorm_bwd', 'rmsnorm_fwd' or 'rmsnorm_bwd_add'?");
}
