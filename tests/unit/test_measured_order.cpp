// Who serves calls under `measured`, by rows of the database.
#include "dispatch/measured_order.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "made_host.hpp"
#include "temporary_directory.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;

namespace {

constexpr DLDevice cpu = {kDLCPU, 0};

// Calls of test.add on rows of 3 (bucket n=4), of 8 and of 16. The vendor's is the fastest in the first bucket, the
// default in the second; the third was not measured.
class Measured {
  public:
    Measured() {
        const std::unique_ptr<MadeHost> host = open({});
        keep(*host, "n=4 rows=2", {{"default.d", 3, "1", 30}, {"vendor.v", 1, "1", 10}, {"reference.r", 2, "1", 20}});
        keep(*host, "n=8 rows=2", {{"default.d", 1, "1", 10}, {"vendor.v", 2, "1", 20}, {"reference.r", 3, "1", 90}});
    }

    std::unique_ptr<MadeHost> open(core::RawEnvironment others) const {
        others.emplace("XDG_CACHE_HOME", directory_.path().string());
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
        made->adjust = [](opdock_impl &impl) {
            impl.struct_size = OPDOCK_STRUCT_SIZE(opdock_impl, tune_version);
            impl.tune_version = 1;
        };
        host.add(std::move(made));
    }

    TemporaryDirectory directory_;
};

struct Call {
    explicit Call(int64_t n)
        : in(static_cast<size_t>(2 * n)), out(in.size()), x(in.data(), f32, {2, n}), y(out.data(), f32, {2, n}) {}

    std::vector<float> in;
    std::vector<float> out;
    Tensor x;
    Tensor y;
};

// By the bias that it adds: 1 the default, 2 the vendor's, 3 the reference. -1000: nobody.
float served(MadeHost &host, int64_t n) {
    Call call(n);
    return host.op().try_call({call.x}, {call.y}) == OPDOCK_OK ? call.out[0] : -1000;
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
    Call small(3), large(8);
    CHECK((*host).op().prepare({small.x}, {small.y}).impl() == "vendor.v");
    CHECK((*host).op().prepare({large.x}, {large.y}).impl() == "default.d");
}

TEST_CASE("what is not permitted does not serve, however fast it is") {
    const Measured measured;
    const auto denied = measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_DENY_VENDORS", "testvendor"}});
    CHECK(served(*denied, 3) == -1000); // all of them come with that module
    const auto named = measured.open({{"PLUGIN_PER_OP", "test.add=measured|default|reference"}});
    CHECK(served(*named, 3) == 3); // the second of the bucket, before the default
    CHECK(served(*named, 8) == 1);
    const auto alone = measured.open({{"PLUGIN_PER_OP", "test.add=measured|default"}});
    CHECK(served(*alone, 3) == 1);
    const auto behind = measured.open({{"PLUGIN_PER_OP", "test.add=reference|measured|default|vendor"}});
    CHECK(served(*behind, 3) == 3); // what stands before the token stays there
    const auto contract = measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_REQUIRE", "deterministic"}});
    CHECK(served(*contract, 3) == -1000);
}

TEST_CASE("PLUGIN_TUNE=off reads nothing of what was measured") {
    const Measured measured;
    CHECK(served(*measured.open({{"PLUGIN_PREFER", "measured"}, {"PLUGIN_TUNE", "off"}}), 3) == 1);
}

TEST_CASE("an explanation of a call says who goes first, and by how much") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    Call small(3), large(16);
    const json explained = json::parse((*host).op().explain({small.x}, {small.y}));
    CHECK(explained["chain"] == json{"vendor.v", "default.d", "reference.r"});
    CHECK(explained["kept"][0]["impl_id"] == "vendor.v");
    CHECK(explained["kept"][0]["rule"] ==
          "measured 2.00 times as fast as 'reference.r'; 'vendor' in the order of PLUGIN_PREFER");
    CHECK(explained["measured"] == json{{"impl_id", "vendor.v"}, {"gain", 2.0}, {"next", "reference.r"}});
    const json other = json::parse((*host).op().explain({large.x}, {large.y}));
    CHECK(other["chain"][0] == "default.d");
    CHECK_FALSE(other.contains("measured"));
}

TEST_CASE("what a run of plugin-tune finds is in force at once, also for calls that were made before") {
    const Measured measured;
    const auto host = measured.open({{"PLUGIN_PREFER", "measured"}});
    CHECK(served(*host, 16) == 1);
    Call call(16);
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    options.flags = OPDOCK_TUNE_ACROSS;
    options.budget = 0.001;
    const json found = json::parse((*host).op().tune(Args({call.x}, {call.y}), &options));
    CHECK(found["outcome"] == "compared");
    CHECK(found["key"] == "n=16 rows=2");
    CHECK(found["dtypes"] == "f32");
    CHECK(found["kept"]);
    REQUIRE(found["implementations"].size() == 3);
    std::string first;
    for (const json &one : found["implementations"]) {
        CHECK(one["outcome"] == "timed");
        CHECK(one["samples"] >= 5);
        first = first.empty() && one["rank"] == 1 ? one["impl_id"].get<std::string>() : first;
    }
    const float expected = first == "default.d" ? 1 : first == "vendor.v" ? 2 : 3;
    CHECK(served(*host, 16) == expected);
    const auto later = measured.open({{"PLUGIN_PREFER", "measured"}});
    CHECK(served(*later, 16) == expected);
}
