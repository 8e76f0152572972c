#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "bind.hpp"
#include "call_arguments.hpp"
#include "standard_signatures.hpp"

using namespace opdock;
using namespace opdock::core;
using opdock::test::CallArguments;
using opdock::test::dtype_value;
using opdock::test::error_of;
using opdock::test::value;

namespace {

std::string bind_error(std::string_view signature, CallArguments &call, Pointing pointing = Pointing::required) {
    const Signature parsed = parse_signature(signature);
    return error_of([&] { bind(parsed, call.args(), pointing); });
}

CallArguments rmsnorm(std::vector<int64_t> leading = {4}, int64_t n = 8) {
    CallArguments call;
    std::vector<int64_t> shape = leading;
    shape.push_back(n);
    call.in(OPDOCK_BF16, shape).in(OPDOCK_F32, {n}).out(OPDOCK_BF16, shape).out(OPDOCK_F32, leading);
    return call;
}

std::string rmsnorm_error(CallArguments call) {
    return bind_error(OPDOCK_OP_RMSNORM_FWD, call);
}

} // namespace

TEST_CASE("a valid call is bound: tensors, defaults, dtypes and device") {
    const Signature signature = parse_signature(OPDOCK_OP_RMSNORM_FWD);
    CallArguments call = rmsnorm();
    const opdock_args &args = call.args();
    const Bound bound = bind(signature, args);
    CHECK(bound.tensors ==
          std::vector<const DLTensor *>{args.inputs[0], args.inputs[1], args.outputs[0], args.outputs[1]});
    CHECK(bound.first == std::vector<uint32_t>{0, 1, 2, 3, 4});
    REQUIRE(bound.attributes.size() == 2);
    CHECK(bound.attributes[0].type == OPDOCK_VALUE_FLOAT);
    CHECK(bound.attributes[0].as.f == 1e-5);
    CHECK(bound.attributes[1].type == OPDOCK_VALUE_BOOL);
    CHECK(bound.attributes[1].as.i == 0);
    CHECK(bound.dtypes == std::vector<uint32_t>{OPDOCK_BF16, OPDOCK_F32});
    CHECK(bound.device.device_type == kDLCPU);
    CHECK_FALSE(bound.writes_inputs);
}

TEST_CASE("a dim that disagrees is named with where it was bound") {
    CallArguments call = rmsnorm();
    call.input(1).shape = {5};
    CHECK(rmsnorm_error(std::move(call)) ==
          "op 'rmsnorm_fwd': input 'weight' of shape [5]: dim 0 is 5, expected n = 8 as in input 'input'");
}
