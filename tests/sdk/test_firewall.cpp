#include <doctest/doctest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_host.hpp"

using namespace opdock;

namespace {

using Messages = std::vector<std::string>;

Status succeeds(const Call &) {
    return {};
}
Status declines(const Call &) {
    return unsupported("n must be even, is " + std::to_string(3));
}
Status throws_error(const Call &) {
    throw std::runtime_error("cublas said 13");
}
Status throws_bad_alloc(const Call &) {
    throw std::bad_alloc();
}
Status throws_failure(const Call &) {
    throw Failure(OPDOCK_FAILED_CLEAN, "nothing written");
}
Status throws_int(const Call &) {
    throw 42; // NOLINT(bugprone-std-exception-baseclass): as others may do
}
Status calls_another_op(const Call &call) {
    return call.call_op("matmul", {});
}
Status reads_the_wrong_dtype(const Call &call) {
    call.input<const float>(0);
    return {};
}

opdock_status run(const FakeHost &host, opdock_kernel kernel) {
    return FakeCall(host).run(kernel);
}

} // namespace

TEST_CASE("a kernel that succeeds returns OK and leaves no message") {
    const FakeHost host;
    CHECK(run(host, kernel<&succeeds>) == OPDOCK_OK);
    CHECK(host.failures.empty());
}

TEST_CASE("a status arrives with its sentence") {
    const FakeHost host;
    CHECK(run(host, kernel<&declines>) == OPDOCK_UNSUPPORTED);
    CHECK(host.failures == Messages{"n must be even, is 3"});
}

TEST_CASE("each way to fail has its status") {
    CHECK(unsupported("").code() == OPDOCK_UNSUPPORTED);
    CHECK(invalid_argument("").code() == OPDOCK_INVALID_ARGUMENT);
    CHECK(out_of_memory("").code() == OPDOCK_OUT_OF_MEMORY);
    CHECK(failed("").code() == OPDOCK_FAILED);
    CHECK(failed_clean("").code() == OPDOCK_FAILED_CLEAN);
    CHECK(Status().ok());
    CHECK_FALSE(failed("why").ok());
    CHECK(std::string(failed("why").message()) == "why");
}

TEST_CASE("a kernel that throws has failed, with the exception's sentence") {
    const FakeHost host;
    CHECK(run(host, kernel<&throws_error>) == OPDOCK_FAILED);
    CHECK(host.failures == Messages{"cublas said 13"});
}

TEST_CASE("bad_alloc is out of memory") {
    const FakeHost host;
    CHECK(run(host, kernel<&throws_bad_alloc>) == OPDOCK_OUT_OF_MEMORY);
    CHECK(host.failures == Messages{"out of host memory (std::bad_alloc)"});
}

TEST_CASE("a thrown Failure keeps its status") {
    const FakeHost host;
    CHECK(run(host, kernel<&throws_failure>) == OPDOCK_FAILED_CLEAN);
    CHECK(host.failures == Messages{"nothing written"});
}

TEST_CASE("what is not an exception does not get out either") {
    const FakeHost host;
    CHECK(run(host, kernel<&throws_int>) == OPDOCK_FAILED);
    CHECK(host.failures == Messages{"threw something that is not a std::exception"});
}

TEST_CASE("a mistake in the kernel's indices is a failure that says what was read") {
    const FakeHost host;
    CHECK(run(host, kernel<&reads_the_wrong_dtype>) == OPDOCK_FAILED);
    CHECK(host.failures == Messages{"the implementation reads input 0, but the call has 0"});
}

TEST_CASE("the message of an op called from a kernel is not overwritten") {
    FakeHost host;
    host.call_op_result = OPDOCK_FAILED;
    CHECK(run(host, kernel<&calls_another_op>) == OPDOCK_FAILED);
    CHECK(host.called_ops == Messages{"matmul"});
    CHECK(host.failures.empty());
}

namespace {

Status only_device_zero(DLDevice device) {
    return device.device_id == 0 ? Status() : unsupported("only device 0 has the unit");
}
// User data that `available` and device_state may need for a device.
struct Machine {
    std::string model;
    int asked = 0;
};
Status only_the_machines_model(const Device &device) {
    Machine &machine = *device.user_data<Machine>();
    ++machine.asked;
    device.log(OPDOCK_LOG_DEBUG, "device " + std::to_string(device.c().device_id));
    return device.properties()->name == machine.model ? Status() : unsupported(device.properties()->name);
}
Status nobody(const Problem &) {
    throw std::runtime_error("no");
}
Status twice_the_first_dim(const Problem &problem, std::int64_t *knobs) {
    knobs[0] = 2 * problem.input(0)->shape[0];
    return {};
}
std::uint64_t four_per_element(const Problem &problem) {
    return 4 * static_cast<std::uint64_t>(problem.input(0)->shape[0]);
}

} // namespace

TEST_CASE("the other callbacks have the same firewall") {
    const FakeHost host;
    const FakeTensor x(OPDOCK_F32, {6});
    FakeCall call(host);
    call.input(x, nullptr);
    std::int64_t knob = 0;
    std::uint64_t bytes = 0;

    CHECK(available<&only_device_zero>(host.c(), nullptr, {kDLCPU, 0}) == OPDOCK_OK);
    CHECK(available<&only_device_zero>(host.c(), nullptr, {kDLCPU, 1}) == OPDOCK_UNSUPPORTED);
    CHECK(supports<&nobody>(call.problem()) == OPDOCK_FAILED);
    CHECK(heuristic<&twice_the_first_dim>(call.problem(), &knob) == OPDOCK_OK);
    CHECK(workspace_size<&four_per_element>(call.problem(), &bytes) == OPDOCK_OK);
    CHECK(knob == 12);
    CHECK(bytes == 24);
    CHECK(host.failures == Messages{"only device 0 has the unit", "no"});
}

TEST_CASE("available finds its implementation's user_data, the device's properties and the log") {
    FakeHost host;
    (void)std::snprintf(host.properties.name, sizeof host.properties.name, "Nova N1");
    Machine machine = {"Nova N1"};
    const auto function = available<&only_the_machines_model>;
    CHECK(function(host.c(), &machine, {kDLCPU, 3}) == OPDOCK_OK);
    machine.model = "Nova N2";
    CHECK(function(host.c(), &machine, {kDLCPU, 0}) == OPDOCK_UNSUPPORTED);
    CHECK(machine.asked == 2);
    CHECK(host.failures == Messages{"Nova N1"});
    REQUIRE(host.logged.size() == 2);
    CHECK(host.logged[0].second == "device 3");
}

namespace {

struct Counted {
    explicit Counted(int given) : value(given) { ++alive; }
    ~Counted() { --alive; }
    Counted(const Counted &) = delete;
    Counted &operator=(const Counted &) = delete;
    int value;
    static int alive;
};
int Counted::alive = 0;

Status make_plan(const Problem &problem, std::unique_ptr<Counted> &made) {
    made = std::make_unique<Counted>(static_cast<int>(problem.get_int(0)));
    return made->value < 0 ? unsupported("negative") : Status();
}
Status make_state(DLDevice device, std::unique_ptr<Counted> &made) {
    made = std::make_unique<Counted>(device.device_id);
    return {};
}
Status make_state_of_machine(const Device &device, std::unique_ptr<Counted> &made) {
    const DLDevice plain = device;
    made = std::make_unique<Counted>(device.user_data<Machine>()->asked + plain.device_id);
    return {};
}
Status use_plan_and_state(const Call &call) {
    return call.plan<Counted>()->value == 5 && call.device_state<Counted>()->value == 2 ? Status() : failed("others");
}

} // namespace

TEST_CASE("a plan and a device state are made, reach the kernel and are destroyed") {
    const FakeHost host;
    FakeCall call(host);
    call.attribute(OPDOCK_VALUE_INT, 5);
    void *made_plan = nullptr;
    void *made_state = nullptr;
    REQUIRE(plan<&make_plan>.create(call.problem(), &made_plan) == OPDOCK_OK);
    REQUIRE(device_state<&make_state>.init(host.c(), nullptr, {kDLCPU, 2}, &made_state) == OPDOCK_OK);
    CHECK(Counted::alive == 2);

    call.problem()->plan = made_plan;
    call.problem()->device_state = made_state;
    CHECK(call.run(kernel<&use_plan_and_state>) == OPDOCK_OK);

    plan<&make_plan>.destroy(host.c(), nullptr, {kDLCPU, 0}, made_plan);
    device_state<&make_state>.fini(host.c(), nullptr, {kDLCPU, 2}, made_state);
    CHECK(Counted::alive == 0);
}

TEST_CASE("a device state is made with the user_data of its implementation") {
    const FakeHost host;
    Machine machine = {"", 40};
    void *made = nullptr;
    REQUIRE(device_state<&make_state_of_machine>.init(host.c(), &machine, {kDLCPU, 2}, &made) == OPDOCK_OK);
    CHECK(static_cast<Counted *>(made)->value == 42);
    device_state<&make_state_of_machine>.fini(host.c(), &machine, {kDLCPU, 2}, made);
    CHECK(Counted::alive == 0);
}

TEST_CASE("a plan that is declined is not handed out and not leaked") {
    const FakeHost host;
    FakeCall call(host);
    call.attribute(OPDOCK_VALUE_INT, -1);
    void *made = nullptr;
    CHECK(plan<&make_plan>.create(call.problem(), &made) == OPDOCK_UNSUPPORTED);
    CHECK(made == nullptr);
    CHECK(Counted::alive == 0);
}
