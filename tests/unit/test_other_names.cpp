// What other libraries call standard ops.
#include "signature/other_names.hpp"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include "made_host.hpp"
#include "signature/standard_ops.hpp"

using namespace opdock;
using namespace opdock::test;

TEST_CASE("every other name stands for standard ops, is none itself, and is there once, in order") {
    std::string_view last;
    for (const core::OtherName &one : core::other_names()) {
        CAPTURE(one.name);
        CHECK(last < one.name);
        last = one.name;
        CHECK(core::standard_signature(one.name).empty());
        std::istringstream ops{std::string(one.ops)};
        size_t count = 0;
        for (std::string op; ops >> op; ++count) {
            CAPTURE(op);
            CHECK_FALSE(core::standard_signature(op).empty());
        }
        CHECK(count > 0);
    }
}

TEST_CASE("an op under the name that another library has for it is named as opdock does") {
    CHECK(core::other_name_hint("mm") == "; opdock calls that 'matmul'.");
    CHECK(core::other_name_hint("generic_gemm") ==
          "; opdock has 'linear_fwd', 'linear_dgrad', 'linear_wgrad' or 'matmul' for that.");
    CHECK(core::other_name_hint("rmsnorm") == "");
    MadeHost host(core::RawEnvironment{{"PLUGIN_PER_OP", "rope_fwd=default"}});
    CHECK(host.logged("no plugin declares op 'rope_fwd'; opdock calls that 'fused_rope_forward'.") == 1);
    CHECK_THROWS_WITH(
        host->op("softmax"),
        doctest::Contains("no plugin declares op 'softmax'; opdock calls that 'scaled_softmax_forward'."));
}
