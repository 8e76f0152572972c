// Names of standard ops in other libraries.
#include "signature/other_names.hpp"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

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
    CHECK(core::other_name_hint("") == "");
    MadeHost host(core::RawEnvironment{{"PLUGIN_PER_OP", "rope_fwd=default"}});
    CHECK(host.logged("no plugin declares op 'rope_fwd'; opdock calls that 'fused_rope_fwd'.") == 1);
    CHECK_THROWS_WITH(host->op("softmax"),
                      doctest::Contains("no plugin declares op 'softmax'; opdock calls that 'scaled_softmax_fwd'."));
}

TEST_CASE("a name is known as its library writes it: with a prefix, a suffix, or as a class") {
    for (const char *const name : {"liger_rms_norm", "LigerRMSNorm", "LigerRMSNormFunction", "RMSNorm",
                                   "rms_norm_kernel", "te_rmsnorm_fwd", "nvte_rmsnorm_fwd", "triton_rms_norm_kernel"}) {
        CAPTURE(std::string(name));
        CHECK(core::ops_called(name) == "rmsnorm_fwd");
    }
    CHECK(core::ops_called("fused_adam") == "multi_tensor_adam");
    CHECK(core::ops_called("FusedAdam") == "multi_tensor_adam");
    CHECK(core::ops_called("te_gemm") == "linear_fwd linear_dgrad linear_wgrad matmul");
    CHECK(core::ops_called("aten::mm") == "matmul");
    CHECK(core::ops_called("LigerCrossEntropyLoss") == "cross_entropy_fwd");
    CHECK(core::ops_called("liger_geglu") == "gelu_and_mul"); // a function of two tensors
    CHECK(core::ops_called("tex_dgelu") == "gelu_bwd");
    for (const char *const name : {"gelu", "GELU", "acme.rms_norm", "liger_", "_kernel", "te_te_", "unheard_of"}) {
        CAPTURE(std::string(name));
        CHECK(core::ops_called(name) == "");
    }
}

namespace {

// Adds a plugin that uses Transformer Engine's name for the op.
void add_dgelu(MadeHost &host) {
    host.module("te", [](opdock_registry *registry) {
        declare(registry, "dgelu(grad: T[...], input: T[...]) -> (grad_input ~ grad: T[...])");
        static Made made("vendor.te", OPDOCK_KIND_VENDOR, "testvendor", 1);
        made.op = "dgelu";
        register_made(registry, made);
        return OPDOCK_OK;
    });
}

} // namespace

TEST_CASE("a name of Transformer Engine's is another name of the op, for plugins and for programs") {
    CHECK(core::standard_name("dgelu") == "gelu_bwd");
    CHECK(core::standard_name("scaled_softmax_forward") == "scaled_softmax_fwd");
    CHECK(core::standard_name("fused_rope_backward") == "fused_rope_bwd");
    CHECK(core::standard_name("gelu_bwd") == "gelu_bwd");
    CHECK(core::standard_name("acme.dgelu") == "acme.dgelu");
    MadeHost host;
    add_dgelu(host);
    CHECK(host->find_op("dgelu") == &host->op("gelu_bwd"));
    float grad[] = {1, 2}, input[] = {3, 4}, output[] = {0, 0};
    host.op("dgelu")({Tensor(grad, f32, {2}), Tensor(input, f32, {2})}, {Tensor(output, f32, {2})});
    CHECK(output[1] == 3);
    CHECK(host->served_count("dgelu", "vendor.te") == 1);
    CHECK(host->explain("dgelu", nullptr, nullptr, nullptr)["op"] == "gelu_bwd");
    CHECK_NOTHROW(host->reset_health("dgelu", nullptr));
}

TEST_CASE("policies may call an op by either name, and not by both") {
    MadeHost host(core::RawEnvironment{{"PLUGIN_PER_OP", "dgelu=vendor"}, {"PLUGIN_REQUIRE", "dgelu=deterministic"}});
    add_dgelu(host);
    CHECK(host->explain("gelu_bwd", nullptr, nullptr, nullptr)["order"] == "vendor");
    CHECK(host->explain("gelu_bwd", nullptr, nullptr, nullptr)["dropped"][0]["rule"] == "contract");
    CHECK_THROWS_WITH(MadeHost(core::RawEnvironment{{"PLUGIN_PER_OP", "dgelu=vendor;gelu_bwd=default"}}),
                      doctest::Contains("op 'gelu_bwd' is given twice"));
}
