#include "report.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "op-call/tests/signatures.hpp"

using namespace opdock::plugin_run;
using nlohmann::json;
using opdock::op_call::MadeUp;
using opdock::op_call::make_up;

namespace {

const opdock::cli::Page plain(false);

// A served call of rmsnorm_fwd, with or without --output.
struct Call {
    explicit Call(std::vector<Named> outputs, uint32_t dtype = OPDOCK_F32) {
        request.op = "rmsnorm_fwd";
        request.device = "cpu";
        request.inputs = {{"input", "random:f32[2,2]"}, {"weight", "ones:f32[2]"}};
        request.outputs = std::move(outputs);
        arguments = match(request, signature);
        for (const auto &sources : arguments.inputs) {
            tensors.inputs.emplace_back().push_back(make_up(std::get<MadeUp>(sources[0]), 1));
        }
        tensors.outputs.resize(2);
        tensors.outputs[0].push_back(make_up({MadeUp::Kind::ones, dtype, {2, 2}}, 0));
        tensors.outputs[1].push_back(make_up({MadeUp::Kind::zeros, OPDOCK_F32, {2}}, 0));
        outcome = {{{"vendor.acme", 1}}, 12.5, {}};
    }

    std::vector<Result> results() const { return results_of(signature, arguments, tensors); }

    Request request;
    Signature signature = rmsnorm();
    Arguments arguments;
    CallTensors tensors;
    Outcome outcome;
};

} // namespace

TEST_CASE("the report names what served, the time, the seed and every tensor") {
    const Call call(std::vector<Named>{{"output", "dir/y.npy"}});
    CHECK(
        render_text(call.request, call.signature, call.arguments, call.tensors, call.outcome, call.results(), plain) ==
        R"(rmsnorm_fwd on cpu
  served by  vendor.acme
  time       12.5 us, a first call: resolving and preparing included
  seed       0
  in   input   f32[2,2]  random
  in   weight  f32[2]    ones
  out  output  f32[2,2]  min 1  max 1  mean 1  first 1 1 1 1
      written to dir/y.npy
)");
}

TEST_CASE("repeated calls show their minimum and median") {
    Call call({});
    call.outcome.microseconds = {4, 1, 3, 2};
    const std::string text =
        render_text(call.request, call.signature, call.arguments, call.tensors, call.outcome, call.results(), plain);
    CHECK(text.find("min 1 us, median 2.5 us of 4 calls, after a first of 12.5 us") != std::string::npos);
}

TEST_CASE("calls that fell back name both implementations") {
    Call call({});
    call.outcome.served = {{"default.cpu", 3}, {"vendor.acme", 1}};
    const std::string text =
        render_text(call.request, call.signature, call.arguments, call.tensors, call.outcome, call.results(), plain);
    CHECK(text.find("served by  default.cpu (3 calls), vendor.acme (1 call)\n") != std::string::npos);
}

TEST_CASE("without --output every tensor that was made is shown, with it those that were named") {
    CHECK(Call({}).results().size() == 2);
    const Call one(std::vector<Named>{{"rsigma", ""}});
    const std::vector<Result> results = one.results();
    REQUIRE(results.size() == 1);
    CHECK(results[0].name == "rsigma");
    CHECK_FALSE(results[0].file);
}

TEST_CASE("bf16 for a .npy file is refused with a pointer to .safetensors") {
    const Call call({{"output", "y.npy"}}, OPDOCK_BF16);
    CHECK_THROWS_WITH_AS(call.results(),
                         "--output output=y.npy: .npy has no bf16; write to a .safetensors file instead",
                         opdock::cli::UsageError);
    CHECK(Call({{"output", "y.safetensors"}}, OPDOCK_BF16).results().size() == 1);
}

TEST_CASE("the same report is JSON") {
    Call call(std::vector<Named>{{"output", "y.safetensors:a"}});
    call.outcome.microseconds = {2, 1, 3};
    const json report =
        render_json(call.request, call.signature, call.arguments, call.tensors, call.outcome, call.results());
    CHECK(report["schema"] == "opdock.plugin-run/1");
    CHECK(report["served"] == json::parse(R"([{"impl_id": "vendor.acme", "calls": 1}])"));
    CHECK(report["seed"] == 0);
    CHECK(report["microseconds"] == json::parse(R"({"first": 12.5, "repeat": 3, "min": 1.0, "median": 2.0})"));
    CHECK(report["inputs"][0] ==
          json::parse(R"({"name": "input", "source": "random", "dtype": "f32", "shape": [2, 2]})"));
    CHECK(report["outputs"] == json::parse(R"([{"name": "output", "dtype": "f32", "shape": [2, 2], "min": 1.0,
        "max": 1.0, "mean": 1.0, "not_finite": 0, "first": [1.0, 1.0, 1.0, 1.0], "from_program": null, "from_shadow": null,
        "file": "y.safetensors:a"}])"));
}
