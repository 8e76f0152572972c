// Order of implementations under `measured`: by rows of the database, and by measurements of --across on a device
// whose clock the kernels advance.
#include "dispatch/measured_order.hpp"

#include <algorithm>
#include <random>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fake_device.hpp"
#include "files/database.hpp"
#include "made_host.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;

namespace {

constexpr DLDevice cpu = {kDLCPU, 0};

// Without a tune_version, nothing is stored for a program's own module.
void promise_version(opdock_impl &impl) {
    impl.tune_version = 1;
}

// Calls of test.add on rows of 3 and 4 (one bucket), of 8 and of 16. The vendor's implementation is the fastest in the
// first bucket, the default in the second; the third was not measured.
class Measured {
  public:
    Measured() {
        const std::unique_ptr<MadeHost> host = open({});
        keep(*host, "n=4 rows=2", {{"default.d", 3, "1", 30}, {"vendor.v", 1, "1", 10}, {"reference.r", 2, "1", 20}});
        keep(*host, "n=8 rows=2", {{"default.d", 1, "1", 10}, {"vendor.v", 2, "1", 20}, {"reference.r", 3, "1", 90}});
    }

    std::unique_ptr<MadeHost> open(core::RawEnvironment others) const {
        others.emplace("PLUGIN_TUNE_DB", (directory_.path() / "tune.sqlite").string());
        auto host = std::make_unique<MadeHost>(others);
        add(*host, "default.d", OPDOCK_KIND_DEFAULT, "", 1);
        add(*host, "vendor.v", OPDOCK_KIND_VENDOR, "v", 2);
        add(*host, "reference.r", OPDOCK_KIND_REFERENCE, "", 3);
        return host;
    }

    static void keep(MadeHost &host, const std::string &key, const std::vector<core::RaceStanding> &standings) {
        host->configs().keep(host->catalog(), host->catalog().declared("test.add"), cpu, "f32", key, standings);
    }

  private:
    static void add(MadeHost &host, const std::string &impl_id, uint32_t kind, const std::string &vendor, float bias) {
        auto made = std::make_unique<Made>(impl_id, kind, vendor, bias);
        made->adjust = [kind](opdock_impl &impl) {
            promise_version(impl);
            impl.flags = kind == OPDOCK_KIND_VENDOR ? 0 : OPDOCK_IMPL_DETERMINISTIC;
        };
        host.add(std::move(made));
    }

    TemporaryDirectory directory_;
};

struct AddCall {
    explicit AddCall(int64_t n, DLDevice device = cpu)
        : in(static_cast<size_t>(2 * n)), out(in.size()), x(in.data(), f32, {2, n}, device),
          y(out.data(), f32, {2, n}, device) {}
    AddCall(const AddCall &) = delete;
    AddCall &operator=(const AddCall &) = delete;

    json across(MadeHost &host, uint32_t more_flags = 0, void *stream = nullptr) {
        opdock_tune_options options = {};
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        options.flags = OPDOCK_TUNE_ACROSS | more_flags;
        options.budget = 3600; // of real time, which decides nothing here
        const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
        return json::parse(host.op().tune(Args(inputs, outputs, {}, stream), &options));
    }

    std::vector<float> in;
    std::vector<float> out;
    Tensor x;
    Tensor y;
};

// The bias that was added: 1 by the default, 2 by the vendor's, 3 by the reference. -1000 if no call was served.
float served(MadeHost &host, int64_t n, DLDevice device = cpu) {
    AddCall call(n, device);
    return host.op().try_call({call.x}, {call.y}) == OPDOCK_OK ? call.out[0] : -1000;
}

// The first implementation in the chain's order among those of rank 1.
std::string fastest(const json &compared) {
    for (const json &one : compared.at("implementations")) {
        if (one.value("rank", 0) == 1) {
            return one.at("impl_id").get<std::string>();
        }
    }
    return {};
}

// Implementations of test.add with run times set by the test, plus the noise of a busy machine, on the fake device's
// clock.
class Planted {
  public:
    using Microseconds = double (*)(double n);

    explicit Planted(core::RawEnvironment environment = {})
        : host_([&] {
              environment.emplace("PLUGIN_TUNE_DB", (directory_.path() / "tune.sqlite").string());
              return environment;
          }()) {}

    void add(const std::string &impl_id, uint32_t kind, float bias, Microseconds time) {
        Made &made = host_.add(impl_id, bias, promise_version, kind);
        made.work = [this, bias, time](const opdock_problem &problem, const opdock_call &call) {
            const DLTensor &input = *problem.tensors[0];
            const auto n = static_cast<double>(input.shape[1]);
            host_.fake.clock += time(n) * noise();
            for (int64_t i = 0; i < 2 * input.shape[1]; ++i) {
                static_cast<float *>(call.data[1])[i] = static_cast<const float *>(call.data[0])[i] + bias;
            }
            return OPDOCK_OK;
        };
    }

    json across(int64_t n, uint32_t more_flags = 0) {
        return AddCall(n, fake_device(0)).across(host_.host, more_flags, &host_.fake.clock);
    }
    MadeHost &host() { return host_.host; }

    Planted(const Planted &) = delete;
    Planted &operator=(const Planted &) = delete;

  private:
    // Up to 4 % on every run; one run in a hundred is interrupted.
    double noise() {
        const double usual = 1 + 0.04 * std::uniform_real_distribution<>()(random_);
        return std::uniform_int_distribution<>(0, 99)(random_) == 0 ? 20 * usual : usual;
    }

    TemporaryDirectory directory_;
    std::mt19937 random_{20261128};
    HostWithFake host_;
};

// steep() and flat() cross over between 256 and 512.
double steep(double n) {
    return 200 + 2 * n;
}
double flat(double n) {
    return 600 + n;
}

} // namespace

TEST_CASE("the fastest of a call's bucket goes first, and elsewhere the order is as it was") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    CHECK(served(*host, 3) == 2);
    CHECK(served(*host, 4) == 2);
    CHECK(served(*host, 8) == 1);
    CHECK(served(*host, 16) == 1);
    CHECK(served(*host, 3) == 2); // remembered
    const auto without = measured.open({});
    CHECK(served(*without, 3) == 1);
}

TEST_CASE("prepared calls choose likewise") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    AddCall small(3), large(8);
    CHECK(host->op().prepare({small.x}, {small.y}).impl() == "vendor.v");
    CHECK(host->op().prepare({large.x}, {large.y}).impl() == "default.d");
}

TEST_CASE("calls of two shapes that have different firsts do not fill the log") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    AddCall small(3), large(8);
    for (int i = 0; i < 1000; ++i) {
        CHECK(host->op().try_call({small.x}, {small.y}) == OPDOCK_OK);
        CHECK(host->op().try_call({large.x}, {large.y}) == OPDOCK_OK);
    }
    CHECK(small.out[0] == 2);
    CHECK(large.out[0] == 1);
    CHECK(host->logged("Op 'test.add' using 'vendor.v'") == 1);
    CHECK(host->logged("Op 'test.add' switched from 'vendor.v' to 'default.d'") == 1);
    CHECK(host->logged("switched") == 1);
}

TEST_CASE("what is not permitted does not serve, however fast it is") {
    const Measured measured;
    const auto denied = measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_DENY_VENDORS", "v"}});
    CHECK(served(*denied, 3) == 3); // the second in the bucket precedes the default
    const auto allowed = measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_ALLOW_VENDORS", "w"}});
    CHECK(served(*allowed, 3) == 3);
    const auto named = measured.open({{"PLUGIN_PER_OP", "test.add=measured|default|reference"}});
    CHECK(served(*named, 3) == 3);
    CHECK(served(*named, 8) == 1);
    const auto alone = measured.open({{"PLUGIN_PER_OP", "test.add=measured|default"}});
    CHECK(served(*alone, 3) == 1);
    const auto behind = measured.open({{"PLUGIN_PER_OP", "test.add=reference|measured|default|vendor"}});
    CHECK(served(*behind, 3) == 3); // implementations before the token stay there
    const auto contract = measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_REQUIRE", "deterministic"}});
    CHECK(served(*contract, 3) == 3); // the vendor's implementation does not promise it
}

TEST_CASE("one that was not timed keeps its place among the others") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    host->add("vendor.late", OPDOCK_KIND_VENDOR, "v", 9); // it did not exist when the others were timed
    AddCall call(3);
    const json explained = json::parse(host->op().explain({call.x}, {call.y}));
    CHECK(explained["chain"] == json{"vendor.v", "default.d", "vendor.late", "reference.r"});
}

TEST_CASE("a module that comes again without a tune_version does not inherit what was measured of the one before") {
    const TemporaryDirectory directory;
    MadeHost host({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_TUNE_DB", (directory.path() / "tune.sqlite").string()}});
    host.add("default.d", OPDOCK_KIND_DEFAULT, "", 1);
    Made made("vendor.jit", OPDOCK_KIND_VENDOR, "v", 2);
    const auto come = [&] {
        next_entry = [&](opdock_registry *registry) {
            declare(registry, test_ops[0]);
            register_made(registry, made);
            return OPDOCK_OK;
        };
        host->register_module("jit", "v", run_next_entry, nullptr, true);
    };
    come();
    // In force in this process, although the database cannot tell which build it is from.
    CHECK_THROWS_AS(Measured::keep(host, "n=4 rows=2", {{"default.d", 2, "1", 20}, {"vendor.jit", 1, "1", 10}}),
                    core::DatabaseError);
    CHECK(served(host, 4) == 2);
    host->unregister_module("jit");
    come();
    CHECK(served(host, 4) == 1);
}

TEST_CASE("PLUGIN_TUNE=off reads nothing of what was measured, and a frozen host uses nothing of it") {
    const Measured measured;
    CHECK(served(*measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_TUNE", "off"}}), 3) == 1);
    const auto frozen = measured.open({{"PLUGIN_PREFER", "measured"}});
    CHECK(served(*frozen, 3) == 2);
    (*frozen)->freeze(nullptr);
    CHECK(served(*frozen, 3) == 1);
    CHECK_THROWS_AS(AddCall(3).across(*frozen), Error);
}

TEST_CASE("an explanation of a call says who goes first, and by how much") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    AddCall small(3), large(16);
    const json explained = json::parse(host->op().explain({small.x}, {small.y}));
    CHECK(explained["chain"] == json{"vendor.v", "default.d", "reference.r"});
    CHECK(explained["kept"][0]["impl_id"] == "vendor.v");
    CHECK(explained["kept"][0]["rule"] ==
          "measured 2.00 times as fast as the next, 'reference.r'; 'vendor' in the order of PLUGIN_PREFER");
    CHECK(explained["measured"] == json{{"impl_id", "vendor.v"}, {"gain", 2.0}, {"next", "reference.r"}});
    const json other = json::parse(host->op().explain({large.x}, {large.y}));
    CHECK(other["chain"][0] == "default.d");
    CHECK_FALSE(other.contains("measured"));
}

TEST_CASE("--across finds the faster one of a planted pair in every bucket, and it serves from then on") {
    Planted planted(core::RawEnvironment{{"PLUGIN_PREFER", "measured"}});
    planted.add("default.flat", OPDOCK_KIND_DEFAULT, 1, flat);
    planted.add("vendor.steep", OPDOCK_KIND_VENDOR, 2, steep);
    for (int64_t n = 1; n <= 4096; n *= 2) {
        CAPTURE(n);
        CHECK(served(planted.host(), n, fake_device(0)) == 1); // the first in the order
        const json found = planted.across(n);
        CHECK(found["outcome"] == "compared");
        CHECK(found["key"] == "n=" + std::to_string(n) + " rows=2");
        CHECK(found["kept"]);
        const bool is_flat = n > 400;
        CHECK(fastest(found) == (is_flat ? "default.flat" : "vendor.steep"));
        CHECK(served(planted.host(), n, fake_device(0)) == (is_flat ? 1 : 2));
    }
}

TEST_CASE("measured again and again, the same one is the fastest") {
    Planted planted;
    planted.add("default.flat", OPDOCK_KIND_DEFAULT, 1, flat);
    planted.add("vendor.steep", OPDOCK_KIND_VENDOR, 2, steep);
    for (const int64_t n : {16, 256, 512}) { // 2.7, 1.2 and 1.1 times as fast
        CAPTURE(n);
        int others = 0;
        for (int i = 0; i < 100; ++i) {
            others += fastest(planted.across(n, OPDOCK_TUNE_DRY_RUN)) != (n > 400 ? "default.flat" : "vendor.steep");
        }
        CHECK(others <= 1);
    }
}

TEST_CASE("one that is faster by less than what is noise does not pass the first of the order") {
    Planted planted;
    planted.add("default.first", OPDOCK_KIND_DEFAULT, 1, [](double) { return 1000.0; });
    planted.add("vendor.second", OPDOCK_KIND_VENDOR, 2, [](double) { return 995.0; });
    int others = 0;
    for (int i = 0; i < 100; ++i) {
        others += fastest(planted.across(4, OPDOCK_TUNE_DRY_RUN)) != "default.first";
    }
    CHECK(others <= 1);
}

TEST_CASE("two that are nearly as fast do not take turns in being first") {
    Planted planted;
    planted.add("default.first", OPDOCK_KIND_DEFAULT, 1, [](double) { return 1000.0; });
    planted.add("vendor.second", OPDOCK_KIND_VENDOR, 2, [](double) { return 980.0; });
    int changes = 0;
    std::string before = "default.first";
    for (int i = 0; i < 100; ++i) {
        const std::string now = fastest(planted.across(4));
        changes += now != before;
        before = now;
    }
    CHECK(changes == 1);
    CHECK(before == "vendor.second");
}

TEST_CASE("one that is far behind is timed twice, and one that fails not at all") {
    Planted planted;
    planted.add("default.d", OPDOCK_KIND_DEFAULT, 1, [](double) { return 10.0; });
    planted.add("vendor.far", OPDOCK_KIND_VENDOR, 2, [](double) { return 1000.0; });
    planted.add("vendor.near", OPDOCK_KIND_VENDOR, 3, [](double) { return 12.0; });
    const json found = planted.across(4, OPDOCK_TUNE_DRY_RUN);
    REQUIRE(found["implementations"].size() == 3);
    for (const json &one : found["implementations"]) {
        const bool is_far = one["impl_id"] == "vendor.far";
        CHECK(one["samples"] == (is_far ? 2 : 15));
        CHECK(one["rank"] == (is_far ? 3 : one["impl_id"] == "vendor.near" ? 2 : 1));
    }
    CHECK_FALSE(found["kept"]);
}

TEST_CASE("what a call writes of its inputs is put back before each implementation's runs, and in the end") {
    HostWithFake with;
    for (const bool is_vendors : {false, true}) {
        auto made =
            std::make_unique<Made>(is_vendors ? "vendor.v" : "default.d",
                                   is_vendors ? OPDOCK_KIND_VENDOR : OPDOCK_KIND_DEFAULT, is_vendors ? "acme" : "");
        made->op = "test.update";
        made->device = with.fake.device;
        made->work = [&with](const opdock_problem &problem, const opdock_call &call) {
            with.fake.clock += 400; // so that one run is a whole sample
            for (int64_t i = 0; i < problem.tensors[0]->shape[0]; ++i) {
                auto *const state = static_cast<float *>(call.data[0]);
                CHECK(state[i] == 1);
                state[i] += static_cast<const float *>(call.data[1])[i];
                static_cast<float *>(call.data[2])[i] = state[i];
            }
            return OPDOCK_OK;
        };
        with.host.add(std::move(made));
    }
    std::vector<float> state(16, 1), input(16, 2), output(16, -1);
    const Tensor s(state.data(), f32, {16}, fake_device(0));
    const Tensor x(input.data(), f32, {16}, fake_device(0));
    const Tensor y(output.data(), f32, {16}, fake_device(0));
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    options.flags = OPDOCK_TUNE_ACROSS | OPDOCK_TUNE_DRY_RUN;
    options.budget = 3600;
    const std::array<TensorArg, 2> inputs = {s, x};
    const std::array<TensorArg, 1> outputs = {y};
    const json found =
        json::parse(with.host.op("test.update").tune(Args(inputs, outputs, {}, &with.fake.clock), &options));
    for (const json &one : found["implementations"]) {
        CHECK(one["outcome"] == "timed");
    }
    CHECK(state == std::vector<float>(16, 1));
}

TEST_CASE("there is nothing to compare where fewer than two run, and an impl_id has no meaning") {
    MadeHost host;
    host.add("default.d", OPDOCK_KIND_DEFAULT);
    host.add("vendor.v", OPDOCK_KIND_VENDOR, "v").status = OPDOCK_UNSUPPORTED;
    AddCall call(4);
    try {
        call.across(host, OPDOCK_TUNE_DRY_RUN);
        FAIL("it compares");
    } catch (const Error &error) {
        CHECK(error.status() == OPDOCK_UNSUPPORTED);
        CHECK(contains(error.what(), "fewer than two implementations run this call"));
        CHECK(contains(error.what(), "'vendor.v': UNSUPPORTED: vendor.v was told to"));
    }
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    options.flags = OPDOCK_TUNE_ACROSS;
    options.impl_id = "default.d";
    CHECK_THROWS_WITH_AS(host.op().tune({call.x}, {call.y}, {}, &options),
                         "opdock_tune_options: impl_id is set, but OPDOCK_TUNE_ACROSS times all implementations",
                         Error);
}
