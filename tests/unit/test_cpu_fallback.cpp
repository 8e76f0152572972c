// The policy item fallback_to_cpu: calls that nothing on a device serves are served on copies in the CPU's memory.
#include "dispatch/cpu_fallback.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using core::RawEnvironment;

namespace {

// A device without implementations, and an implementation for the CPU that adds 1.
struct Machine {
    explicit Machine(RawEnvironment environment = {{"PLUGIN_FALLBACK_TO_CPU", "1"}}) : host(std::move(environment)) {
        host.module("provider", [this](opdock_registry *registry) { return kind.provide(registry); });
        on_cpu = &host.add("default.cpu", OPDOCK_KIND_DEFAULT, {}, 1);
    }

    FakeKind kind;
    MadeHost host;
    Made *on_cpu = nullptr;
};

} // namespace

TEST_CASE("what nothing on the device serves the CPU does, where the policy has it so") {
    Machine machine;
    FakeRows rows;
    machine.kind.current = 1;
    for (int i = 0; i < 3; ++i) {
        rows.out.assign(6, -1);
        CHECK(rows.added(machine.host.op()) == 1);
        CHECK(rows.out[5] == rows.in[5] + 1);
        CHECK(machine.kind.current == 1);
    }
    CHECK(machine.on_cpu->calls == 3);
    CHECK(machine.host->served_count("test.add", "default.cpu") == 3);
    CHECK(machine.host.logged(
              "Op 'test.add' of fake:0 runs on the CPU because of fallback_to_cpu (PLUGIN_FALLBACK_TO_CPU)") == 1);
}

TEST_CASE("copies between a device and the CPU are waited for, before the CPU reads them and before the call returns") {
    Machine machine;
    FakeRows rows;
    bool is_copying = true;
    machine.on_cpu->work = [&](const opdock_problem &, const opdock_call &call) -> opdock_status {
        is_copying = machine.kind.is_copying;
        *static_cast<float *>(call.data[1]) = 7;
        return OPDOCK_OK;
    };
    CHECK(rows.call(machine.host.op()) == OPDOCK_OK);
    CHECK(rows.out[0] == 7);
    CHECK(machine.kind.received.size() == 1);
    CHECK_FALSE(is_copying);
    CHECK_FALSE(machine.kind.is_copying);
}

TEST_CASE("what a device's implementations have to promise the CPU's have to as well") {
    const auto failure = [](RawEnvironment environment) {
        environment.emplace("PLUGIN_FALLBACK_TO_CPU", "1");
        Machine machine(std::move(environment));
        FakeRows rows;
        CHECK(rows.call(machine.host.op()) == OPDOCK_ALL_DROPPED);
        CHECK(machine.on_cpu->calls == 0);
        return std::string(opdock_last_error());
    };
    CHECK(contains(failure({{"PLUGIN_REQUIRE", "deterministic"}}),
                   "default.cpu: it does not promise deterministic, which PLUGIN_REQUIRE asks for (contract)"));
    const TemporaryDirectory folder;
    const std::string file = folder.write("policy.yaml", "devices: {fake: {require: deterministic}}\n").string();
    CHECK(contains(failure({{"PLUGIN_CONFIG", file}}),
                   file + ":1:18 requires contracts that are not required on the CPU; require them there too."));
}

TEST_CASE("the CPU serves nothing of a device unless the policy has it so, and never in strict mode or a capture") {
    FakeRows rows;
    Machine lenient(RawEnvironment{});
    CHECK(rows.call(lenient.host.op()) == OPDOCK_ALL_DROPPED);
    CHECK(contains(
        opdock_last_error(),
        "\nWith fallback_to_cpu (PLUGIN_FALLBACK_TO_CPU=1), default.cpu would serve the call on the CPU, on copies."));
    for (const RawEnvironment &useless : {RawEnvironment{{"PLUGIN_STRICT", "1"}},
                                          RawEnvironment{{"PLUGIN_PER_OP", "test.add=vendor"}}}) { // not on the CPU
        Machine machine(useless);
        CHECK(rows.call(machine.host.op()) == OPDOCK_ALL_DROPPED);
        CHECK_FALSE(contains(opdock_last_error(), "fallback_to_cpu"));
        CHECK(machine.on_cpu->calls == 0);
    }

    Machine strict(RawEnvironment{{"PLUGIN_FALLBACK_TO_CPU", "1"}, {"PLUGIN_STRICT", "1"}});
    CHECK(rows.call(strict.host.op()) == OPDOCK_ALL_DROPPED);
    CHECK(contains(opdock_last_error(), "The call does not run on the CPU either (fallback_to_cpu, "
                                        "PLUGIN_FALLBACK_TO_CPU): strict is set (PLUGIN_STRICT)."));

    Machine capturing;
    int stream = 0;
    capturing.kind.captured = &stream;
    CHECK(rows.call(capturing.host.op(), &stream) == OPDOCK_NOT_PREPARED);
    CHECK(strict.on_cpu->calls + capturing.on_cpu->calls + lenient.on_cpu->calls == 0);
}

TEST_CASE("the CPU also serves what all of the device's implementations decline, at once and later") {
    Machine machine;
    auto made = std::make_unique<Made>("vendor.fake", OPDOCK_KIND_VENDOR, "fake", 5.0F);
    made->device = "fake";
    Made &on_device = machine.host.add(std::move(made));
    FakeRows rows;
    CHECK(rows.added(machine.host.op()) == 5);
    on_device.status = OPDOCK_UNSUPPORTED;
    for (int i = 0; i < 3; ++i) {
        CHECK(rows.added(machine.host.op()) == 1);
    }
    on_device.status = OPDOCK_OK;
    CHECK(rows.added(machine.host.op()) == 5);
}

TEST_CASE("gaps between the elements of an output stay as they are") {
    Machine machine;
    const std::vector<float> in = {1, 2, 3, 4, 5, 6};
    struct Layout {
        std::array<int64_t, 2> strides;
        int64_t size;
        int64_t first = 0;
    };
    for (const auto &[strides, size, first] : {Layout{{4, 1}, 8}, {{3, 2}, 8}, {{1, 2}, 6}, {{-3, 1}, 6, 3}}) {
        const int64_t tried = strides[0];
        CAPTURE(tried);
        std::vector<float> out(static_cast<size_t>(size), -1);
        machine.on_cpu->work = [&](const opdock_problem &problem, const opdock_call &call) -> opdock_status {
            const auto *to = problem.tensors[1];
            for (int64_t i = 0; i < 6; ++i) {
                static_cast<float *>(call.data[1])[opdock_offset(to, i)] = static_cast<float *>(call.data[0])[i];
            }
            // The copy's gaps need not be written; the host discards them.
            return OPDOCK_OK;
        };
        CHECK(machine.host.op().try_call(
                  {Tensor::read_only(in.data(), f32, {2, 3}, fake_device(0))},
                  {Tensor(out.data() + first, f32, {2, 3}, fake_device(0), {strides[0], strides[1]})}) == OPDOCK_OK);
        std::vector<float> expected(static_cast<size_t>(size), -1);
        for (int64_t r = 0; r < 2; ++r) {
            for (int64_t c = 0; c < 3; ++c) {
                expected[static_cast<size_t>(first + r * strides[0] + c * strides[1])] =
                    in[static_cast<size_t>(r * 3 + c)];
            }
        }
        CHECK(out == expected);
    }
}

TEST_CASE("an output comes back in as few copies as its layout allows, an axis of one element having any stride") {
    const std::vector<float> in = {1, 2, 3, 4, 5, 6};
    struct Layout {
        std::vector<int64_t> shape, strides;
        std::vector<uint64_t> copies; // bytes of each
    };
    const std::vector<uint64_t> by_rows = {12, 12}, by_elements(6, 4);
    for (const Layout &layout : {
             Layout{{2, 3, 1}, {8, 1, 1}, by_rows},
             Layout{{2, 3, 1}, {8, 1, 5}, by_rows},
             Layout{{2, 1, 3}, {8, 7, 1}, by_rows},
             Layout{{1, 2, 3}, {99, 8, 1}, by_rows},
             Layout{{2, 3, 1}, {8, 2, 1}, by_elements},
             Layout{{2, 3}, {8, 1}, by_rows},
             Layout{{2, 3}, {1, 3}, by_elements},
             Layout{{2, 3}, {3, 1}, {24}},
             Layout{{2, 3}, {1, 2}, {24}},
             Layout{{2, 1, 3}, {3, 77, 1}, {24}},
         }) {
        CAPTURE(layout.shape[1]);
        CAPTURE(layout.strides[0]);
        CAPTURE(layout.strides[1]);
        Machine machine;
        machine.on_cpu->work = [&](const opdock_problem &problem, const opdock_call &call) -> opdock_status {
            for (int64_t i = 0; i < 6; ++i) {
                static_cast<float *>(call.data[1])[opdock_offset(problem.tensors[1], i)] =
                    static_cast<float *>(call.data[0])[i];
            }
            return OPDOCK_OK;
        };
        std::vector<float> out(200, -1);
        int64_t axes[2][3] = {};
        std::copy(layout.shape.begin(), layout.shape.end(), axes[0]);
        std::copy(layout.strides.begin(), layout.strides.end(), axes[1]);
        DLTensor y = {};
        y.data = out.data();
        y.device = fake_device(0);
        y.ndim = static_cast<int32_t>(layout.shape.size());
        y.dtype = f32;
        y.shape = axes[0];
        y.strides = axes[1];
        DLTensor x = y;
        x.data = const_cast<float *>(in.data());
        x.strides = nullptr;
        CHECK(machine.host.op().try_call({&x}, {&y}) == OPDOCK_OK);
        CHECK(machine.kind.received == layout.copies);
        std::vector<float> expected(200, -1);
        for (int64_t i = 0; i < 6; ++i) {
            expected.at(static_cast<size_t>(opdock_offset(&y, i))) = in[static_cast<size_t>(i)];
        }
        CHECK(out == expected);
    }
}

TEST_CASE("inputs that the op writes come back too") {
    Machine machine;
    auto made = std::make_unique<Made>("default.update", OPDOCK_KIND_DEFAULT);
    made->op = "test.update";
    made->work = [](const opdock_problem & /*problem*/, const opdock_call &call) -> opdock_status {
        static_cast<float *>(call.data[0])[2] += static_cast<float *>(call.data[1])[2];
        static_cast<float *>(call.data[2])[0] = 7;
        return OPDOCK_OK;
    };
    machine.host.add(std::move(made));
    std::vector<float> state = {1, 2, 3}, in = {10, 20, 30}, out(3, -1);
    Tensor s(state.data(), f32, {3}, fake_device(0)), x(in.data(), f32, {3}, fake_device(0)),
        y(out.data(), f32, {3}, fake_device(0));
    CHECK(machine.host.op("test.update").try_call({s, x}, {y}) == OPDOCK_OK);
    CHECK(state == std::vector<float>{1, 2, 33});
    CHECK(out[0] == 7);
}

TEST_CASE("when the CPU fails too, both reasons are told and nothing was written") {
    Machine machine;
    machine.on_cpu->status = OPDOCK_FAILED_CLEAN;
    FakeRows rows;
    CHECK(rows.call(machine.host.op()) == OPDOCK_ALL_FAILED);
    CHECK(contains(opdock_last_error(), "fake:0"));
    CHECK(contains(opdock_last_error(), "On the CPU (fallback_to_cpu, PLUGIN_FALLBACK_TO_CPU)"));
    CHECK(contains(opdock_last_error(), "default.cpu was told to"));
    CHECK(rows.out == std::vector<float>(6, -1));
}

TEST_CASE("an explanation names who would serve on the CPU, and whether the policy has it so") {
    for (const char *on : {"0", "1"}) {
        Machine machine(RawEnvironment{{"PLUGIN_FALLBACK_TO_CPU", on}});
        const nlohmann::json explained = machine.host->explain("test.add", "fake", nullptr, {});
        CHECK(explained["chain"].empty());
        CHECK(explained["on_cpu"]["chain"] == nlohmann::json::array({"default.cpu"}));
        CHECK(explained["on_cpu"]["follows"] == (*on == '1'));
        CHECK_FALSE(machine.host->explain("test.add", "cpu", nullptr, {}).contains("on_cpu"));
    }
    Machine machine;
    auto gone = std::make_unique<Made>("default.gone", OPDOCK_KIND_DEFAULT);
    gone->priority = 1;
    gone->adjust = [](opdock_impl &impl) {
        impl.available = [](const opdock_host_api *, void *, DLDevice) -> opdock_status { return OPDOCK_UNSUPPORTED; };
    };
    machine.host.add(std::move(gone));
    FakeRows rows;
    CHECK(rows.call(machine.host.op()) == OPDOCK_OK); // checks whether it is available
    CHECK(machine.host->explain("test.add", "fake", nullptr, {})["on_cpu"]["chain"] ==
          nlohmann::json::array({"default.cpu"}));
    HostWithFake served;
    served.add("default.fake", 1);
    served.host.add("default.cpu", OPDOCK_KIND_DEFAULT, {}, 1);
    const nlohmann::json explained = served.host->explain("test.add", "fake", nullptr, {});
    CHECK(explained["chain"] == nlohmann::json::array({"default.fake"}));
    CHECK_FALSE(explained.contains("on_cpu"));
}
