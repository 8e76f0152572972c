#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fake_host.hpp"

using opdock::half_t;

TEST_CASE("inputs and outputs are found by their place in the signature, lists included") {
    const FakeHost host;
    const FakeTensor a(OPDOCK_F32, {2});
    const FakeTensor b(OPDOCK_F32, {3});
    const FakeTensor y(OPDOCK_F16, {4});
    float data_a[2], data_b[3];
    half_t data_y[4];
    FakeCall made(host);
    made.input_list({a.c(), b.c()}, {data_a, data_b}).input(b, data_b).output(y, data_y).absent_output();
    const opdock::Call call = made.view();

    CHECK(call.inputs_of(0).size() == 2);
    CHECK(call.inputs_of(0)[1] == b.c());
    CHECK(call.input(1) == b.c());
    CHECK(call.output(0) == y.c());
    CHECK(call.input<const float>(0, 1).data() == data_b);
    CHECK(call.input<const float>(1).data() == data_b);
    CHECK(call.output<half_t>(0).data() == data_y);
    CHECK(call.output<half_t>(0).size(0) == 4);
}

TEST_CASE("an absent parameter is null, false, and not there") {
    const FakeHost host;
    const FakeTensor x(OPDOCK_F32, {1});
    float data = 0;
    FakeCall made(host);
    made.input(x, &data).absent_input().absent_output();
    const opdock::Call call = made.view();

    CHECK(call.has_input(0));
    CHECK_FALSE(call.has_input(1));
    CHECK_FALSE(call.has_output(0));
    CHECK(call.input(1) == nullptr);
    CHECK_FALSE(static_cast<bool>(call.output<float>(0)));
}

TEST_CASE("an empty list is not there and has no tensors") {
    const FakeHost host;
    FakeCall made(host);
    made.input_list({}, {});
    CHECK_FALSE(made.view().has_input(0));
    CHECK(made.view().inputs_of(0).empty());
}

TEST_CASE("attributes are read as what they are") {
    const FakeHost host;
    const std::int64_t list[] = {4, 5, 6};
    opdock_value text = {};
    text.type = OPDOCK_VALUE_STRING;
    text.count = 4;
    text.as.s = "none";
    opdock_value ints = {};
    ints.type = OPDOCK_VALUE_INTS;
    ints.count = 3;
    ints.as.ints = list;
    FakeCall made(host);
    made.attribute(1e-6)
        .attribute(OPDOCK_VALUE_INT, -100)
        .attribute(OPDOCK_VALUE_BOOL, 1)
        .attribute(text)
        .attribute(OPDOCK_VALUE_DTYPE, OPDOCK_BF16)
        .attribute(ints);
    const opdock::Call call = made.view();

    CHECK(call.get_float(0) == 1e-6);
    CHECK(call.get_int(1) == -100);
    CHECK(call.get_bool(2));
    CHECK(call.get_string(3) == "none");
    CHECK(opdock_dtype_pack(call.get_dtype(4)) == OPDOCK_BF16);
    CHECK(std::vector<std::int64_t>(call.get_ints(5).begin(), call.get_ints(5).end()) ==
          std::vector<std::int64_t>{4, 5, 6});
}

TEST_CASE("reading what is not there, or as what it is not, throws a sentence that names both") {
    const FakeHost host;
    const FakeTensor x(OPDOCK_BF16, {1});
    std::uint16_t data = 0;
    FakeCall made(host);
    made.input(x, &data).attribute(OPDOCK_VALUE_INT, 3).knob(1);
    const opdock::Call call = made.view();

    CHECK_THROWS_WITH((void)call.input(1), "the implementation reads input 1, but the call has 1");
    CHECK_THROWS_WITH((void)call.output<float>(0), "the implementation reads output 0, but the call has 0");
    CHECK_THROWS_WITH((void)call.get_float(0), "the implementation reads attribute 0 as float, but it is int");
    CHECK_THROWS_WITH((void)call.get_int(1), "the implementation reads attribute 1, but the call has 1");
    CHECK_THROWS_WITH((void)call.knob(1), "the implementation reads knob 1, but the call has 1");
    CHECK_THROWS_WITH((void)call.input<const float>(0), "the implementation reads input 0 as f32, but it is bf16");
    CHECK_THROWS_WITH((void)call.input<const double>(0), "the implementation reads input 0 as f64, but it is bf16");
    CHECK_THROWS_WITH((void)call.input<const opdock::bfloat16_t>(0, 1),
                      "the implementation reads tensor of the list 1, but the call has 1");
}

TEST_CASE("bytes fit every dtype of one byte, so that masks, bools and fp8 can be read") {
    for (const std::uint32_t packed : {OPDOCK_U8, OPDOCK_BOOL, OPDOCK_E4M3, OPDOCK_E5M2})
        CHECK(opdock::holds<std::uint8_t>(dtype(packed)));
    CHECK_FALSE(opdock::holds<std::uint8_t>(dtype(OPDOCK_F16)));
    CHECK_FALSE(opdock::holds<float>(dtype(OPDOCK_I32)));
    CHECK_FALSE(opdock::holds<half_t>(dtype(OPDOCK_BF16)));
}

TEST_CASE("the floating types are visited as themselves, and other dtypes are declined") {
    const auto size_and_name = [](auto tag) {
        using T = typename decltype(tag)::type;
        return std::string(std::is_same_v<T, float> ? "float" : std::is_same_v<T, half_t> ? "half_t" : "bfloat16_t");
    };
    CHECK(opdock::visit_floating(dtype(OPDOCK_F32), size_and_name) == "float");
    CHECK(opdock::visit_floating(dtype(OPDOCK_F16), size_and_name) == "half_t");
    CHECK(opdock::visit_floating(dtype(OPDOCK_BF16), size_and_name) == "bfloat16_t");
    try {
        opdock::visit_floating(dtype(OPDOCK_E4M3), size_and_name);
        FAIL("e4m3 was visited");
    } catch (const opdock::Failure &failure) {
        CHECK(failure.code() == OPDOCK_UNSUPPORTED);
        CHECK(std::string(failure.what()) == "expected f32, f16 or bf16, found e4m3");
    }
}

TEST_CASE("stream, workspace, device and user data are passed on") {
    const FakeHost host;
    int stream = 0, workspace = 0, user_data = 7, state = 8, plan = 9;
    FakeCall made(host);
    made.call().stream = &stream;
    made.call().workspace = &workspace;
    made.call().workspace_size = 512;
    made.problem()->device = {kDLCUDA, 3};
    made.problem()->user_data = &user_data;
    made.problem()->device_state = &state;
    made.problem()->plan = &plan;
    made.knob(5).knob(6);
    const opdock::Call call = made.view();

    CHECK(call.stream() == &stream);
    CHECK(call.workspace() == &workspace);
    CHECK(call.workspace_size() == 512);
    CHECK(call.device().device_id == 3);
    CHECK(*call.user_data<int>() == 7);
    CHECK(*call.device_state<int>() == 8);
    CHECK(*call.plan<int>() == 9);
    CHECK(call.knob(1) == 6);
}

TEST_CASE("a line reaches the host's log") {
    const FakeHost host;
    FakeCall made(host);
    made.view().log(OPDOCK_LOG_WARNING, "slow path");
    CHECK(host.logged == std::vector<std::pair<int, std::string>>{{OPDOCK_LOG_WARNING, "slow path"}});
}
