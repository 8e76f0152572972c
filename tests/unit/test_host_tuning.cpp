// Selection, search and storage of configs, through a host and a plugin with knobs (tests/fixtures/tunable.c).
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_device.hpp"
#include "host/check.hpp"
#include "made_host.hpp"
#include "observe/agreement.hpp"
#include "paths.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;

namespace {

// Configs for fixture.work: the default (speed 0) first, then one that declines, one that fails, and a fast wrong one.
constexpr const char *work_configs = R"(schema: opdock.tune/1
ops:
  fixture.work:
    configs:
      - {speed: 1}
      - {mode: 1}
      - {mode: 2}
      - {speed: 5, mode: 3}
      - {speed: 5}
)";

struct Installed {
    explicit Installed(const std::string &tune_file, const std::string &fixture = "tunable") {
        std::filesystem::copy_file(fixtures_folder().string() + "/lib" + fixture + ".so", plugin());
        if (!tune_file.empty()) {
            directory.write("tunable.tune.yaml", tune_file);
        }
    }
    std::string plugin() const { return (directory.path() / "libtunable.so").string(); }
    core::RawEnvironment environment(core::RawEnvironment others = {}) const {
        others.emplace("XDG_CACHE_HOME", (directory.path() / "cache").string());
        return others;
    }
    MadeHost host(core::RawEnvironment others = {}) const {
        return MadeHost(environment(std::move(others)), "/nonexistent", {plugin()});
    }

    TemporaryDirectory directory;
};

// Also has the devices of `fake`, which must outlive it.
class HostWithFakeKind : public MadeHost {
  public:
    HostWithFakeKind(const Installed &installed, FakeKind &fake, core::RawEnvironment others = {})
        : MadeHost(installed.environment(std::move(others)), "/nonexistent", {installed.plugin()}) {
        module("fake-device", [&fake](opdock_registry *registry) { return fake.provide(registry); });
    }
};

// The knob values that a call of fixture.knobs received.
std::vector<int64_t> knobs(MadeHost &host, int64_t n, int64_t rows = 1, DLDataType dtype = f32,
                           DLDevice device = {kDLCPU, 0}) {
    std::vector<float> input(static_cast<size_t>(n * rows));
    std::vector<int64_t> values(3, -1);
    const Tensor x(input.data(), dtype, {rows, n}, device);
    const Tensor y(values.data(), i64, {3}, device);
    const opdock_status status = host.op("fixture.knobs").try_call({x}, {y});
    CHECK_MESSAGE(status == OPDOCK_OK, last_error());
    return values;
}

struct Work {
    explicit Work(int64_t n = 4096, DLDevice device = {kDLCPU, 0})
        : in(static_cast<size_t>(n), 1.5F), out(static_cast<size_t>(n), -1), x(in.data(), f32, {n}, device),
          y(out.data(), f32, {n}, device) {}
    // On the fake device, timed by its clock, so that the faster config wins on a busy machine too.
    explicit Work(FakeKind &fake, int64_t n = 4096) : Work(n, fake_device(0)) { stream = &fake.clock; }
    Work(const Work &) = delete;
    Work &operator=(const Work &) = delete;

    json tune(MadeHost &host, opdock_tune_options options = {}) {
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
        return json::parse(host.op("fixture.work").tune(Args(inputs, outputs, {}, stream), &options));
    }
    // The config of the first implementation in the chain, and the reason for it.
    json why(MadeHost &host) {
        const json explained = json::parse(host.op("fixture.work").explain({x}, {y}));
        CHECK(explained.at("configs").size() ==
              explained.at("chain").size()); // those of the other device are not queried
        return explained.at("configs").at(0);
    }

    std::vector<float> in;
    std::vector<float> out;
    Tensor x;
    Tensor y;
    void *stream = nullptr;
};

using Values = std::vector<int64_t>;

} // namespace

TEST_CASE("a config is pinned, known, the function's, the file's or the default, in that order") {
    const Installed installed(R"(schema: opdock.tune/1
ops:
  fixture.knobs:
    key: {n: exact}
    configs: [{block: 1}, {block: 2}]
    heuristics: {block: 'n < 7 ? n : n == 7 ? 500 : 5000', vector: '1 + causal'}
    pinned:
      - {key: {n: 3}, config: {block: 33, stream: true}}
)");
    MadeHost host = installed.host();
    CHECK(knobs(host, 3) == Values{33, 1, 1});
    CHECK(knobs(host, 7) == Values{7, 1, 0}); // proposed by the function
    CHECK(knobs(host, 5) == Values{5, 1, 0}); // the file's expression
    CHECK(host.logged("outside its range") == 0);
    CHECK(knobs(host, 8) == Values{64, 1, 0}); // the expression's value is out of range
    CHECK(host.logged("the expression of knob 'block' is 5000, outside its range 1 to 1024") == 1);

    CHECK(host->import_tuning(R"(schema: opdock.tune/1
ops:
  fixture.knobs:
    - dtypes: [f32, f16]
      key: {n: exact}
      pinned: [{key: {n: 7}, config: {block: 9}}, {key: {n: 3}, config: {block: 9}}]
)",
                              "results.yaml") == 4);
    MadeHost later = installed.host();
    CHECK(knobs(later, 7) == Values{9, 1, 0});  // the database precedes the function
    CHECK(knobs(later, 3) == Values{33, 1, 1}); // the vendor's pin precedes the database
    CHECK(knobs(later, 6) == Values{6, 1, 0});

    MadeHost off = installed.host({{"PLUGIN_TUNE", "off"}});
    CHECK(knobs(off, 3) == Values{64, 1, 0});
    CHECK(knobs(off, 7) == Values{7, 1, 0});
}

TEST_CASE("a heuristic that gives no config writes few lines, whatever the shapes are") {
    static core::Deployment::Clock::time_point now;
    now = {};
    MadeHost::clock = [] { return now; };
    const Installed installed(R"(schema: opdock.tune/1
ops: {fixture.knobs: {configs: [{block: 1}], heuristics: {block: '5000'}}}
)");
    MadeHost host = installed.host();
    MadeHost::clock = core::Deployment::Clock::now;
    for (int64_t rows = 1; rows <= 500; ++rows) {
        CHECK(knobs(host, 8, rows) == Values{64, 1, 0});
    }
    CHECK(host.logged("the expression of knob 'block' is 5000") == 1);
    now += std::chrono::seconds(1);
    for (int64_t rows = 501; rows <= 1000; ++rows) {
        CHECK(knobs(host, 8, rows) == Values{64, 1, 0});
    }
    CHECK(host.logged("the expression of knob 'block' is 5000") == 2);
    CHECK(host.logged("are used (and 499 more times since the last such line)") == 1);
}

TEST_CASE("without a tune file the function and the defaults serve") {
    const Installed installed("");
    MadeHost host = installed.host();
    CHECK(knobs(host, 3) == Values{64, 1, 0});
    CHECK(knobs(host, 7) == Values{7, 1, 0});
    Work work;
    CHECK_THROWS_WITH(work.tune(host), doctest::Contains("no tune file has configs of 'vendor.tunable'"));
}

TEST_CASE("sections are for dtypes, and the first that has configs counts") {
    const Installed installed(R"(schema: opdock.tune/1
ops:
  fixture.knobs:
    - {dtypes: f16, heuristics: {block: 16}}
    - {heuristics: {block: 32}}
    - {heuristics: {block: 48}}
)");
    MadeHost host = installed.host();
    CHECK(knobs(host, 1, 1, f16)[0] == 16);
    CHECK(knobs(host, 1, 1, f32)[0] == 32);
    const Installed other(R"(schema: opdock.tune/1
ops:
  fixture.work:
    - {heuristics: {speed: 1}}
    - {configs: [{speed: 1}]}
    - {configs: [{speed: 2}, {speed: 3}]}
)");
    MadeHost with_configs = other.host();
    CHECK(Work().why(with_configs).at("candidates") == 1);
}

TEST_CASE("tuning finds the fastest that is right, keeps it, and is quick the second time") {
    const Installed installed(work_configs);
    FakeKind fake;
    fake.slowness = 20;
    {
        HostWithFakeKind host(installed, fake);
        Work work(fake);
        CHECK(work.why(host).at("source") == "defaults");
        CHECK(work.why(host).at("candidates") == 5);
        CHECK(work.why(host).at("key") == "n=4096");
        fake.current = 1;
        const json result = work.tune(host);
        CHECK(fake.current == 1);
        CHECK(result["outcome"] == "tuned");
        CHECK(result["best"]["config"] == json({{"speed", 5}, {"mode", 0}}));
        CHECK(result["before"]["config"] == json({{"speed", 0}, {"mode", 0}}));
        CHECK(result["before"]["source"] == "defaults");
        CHECK(result["gain"].get<double>() == doctest::Approx(32));
        CHECK(result["kept"] == true);
        CHECK(result["complete"] == true);
        size_t wrong = 0;
        size_t refused = 0;
        for (const json &run : result["tried"]) {
            wrong += run["outcome"] == "wrong" ? 1 : 0;
            refused += run["outcome"] == "refused" ? 1 : 0;
        }
        CHECK(result["tried"].size() == 6);
        CHECK(wrong == 1);
        CHECK(refused == 2);
        CHECK(work.out == std::vector<float>(4096, 3)); // computed by the config in force
        CHECK(work.why(host)["source"] == "database");  // in this process too
    }
    HostWithFakeKind again(installed, fake);
    Work work(fake, 3000); // in the same bucket
    CHECK(work.why(again)["source"] == "database");
    CHECK(work.why(again)["origin"] == "40 us when it was tuned, 1280 us before");
    CHECK(work.why(again)["config"]["speed"] == 5);
    CHECK(work.tune(again)["outcome"] == "known");
    Work other(fake, 5000);
    CHECK(other.why(again)["source"] == "defaults");

    opdock_tune_options options = {};
    options.flags = OPDOCK_TUNE_AGAIN | OPDOCK_TUNE_DRY_RUN | OPDOCK_TUNE_COLD;
    options.strategy = OPDOCK_TUNE_EXHAUSTIVE;
    const json repeated = work.tune(again, options);
    CHECK(repeated["outcome"] == "tuned");
    CHECK(repeated["kept"] == false);
    CHECK(repeated["best"]["config"]["speed"] == 5);
    // Two halves, each twice the size of the cache, which the device does not report.
    CHECK(fake.allocated == std::vector<uint64_t>{uint64_t{256} << 20});
}

TEST_CASE("times of less than a thousand microseconds are told with three digits, longer ones whole") {
    const Installed installed(work_configs);
    FakeKind fake;
    fake.slowness = 15.625; // 1000 us for the default config
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    CHECK(work.tune(host)["kept"] == true);
    CHECK(work.why(host)["origin"] == "31.2 us when it was tuned, 1000 us before");
}

TEST_CASE("a config serves only calls that where allows it for, whatever their key") {
    const Installed installed(std::string(work_configs) + "    where: speed < 5 || n >= 4000\n");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    CHECK(work.tune(host)["best"]["config"]["speed"] == 5);
    CHECK(work.why(host)["source"] == "database");
    Work smaller(fake, 3000); // in the same bucket
    CHECK(smaller.why(host)["source"] == "defaults");
    CHECK(smaller.tune(host)["best"]["config"]["speed"] == 1);
}

namespace {

// The config of fixture.knobs for a call, the reason for it, and what `where` excluded.
json knobs_why(MadeHost &host, int64_t n) {
    std::vector<float> input(static_cast<size_t>(n));
    std::vector<int64_t> values(3);
    return json::parse(
               host.op("fixture.knobs").explain({Tensor(input.data(), f32, {1, n})}, {Tensor(values.data(), i64, {3})}))
        .at("configs")
        .at(0);
}

} // namespace

TEST_CASE("a pinned config serves only calls that where allows it for, whatever their key") {
    const Installed installed(R"(schema: opdock.tune/1
ops:
  fixture.knobs:
    key: {n: log2}
    where: 'stream == (n % block == 0)'
    pinned: [{key: {n: 128}, config: {block: 32, stream: true}}]
)");
    MadeHost host = installed.host();
    CHECK(knobs(host, 128) == Values{32, 1, 1});
    CHECK(knobs(host, 96) == Values{32, 1, 1});
    CHECK(knobs(host, 100) == Values{64, 1, 0}); // in the same bucket, but not a multiple of 32
    const json why = knobs_why(host, 100);
    CHECK(why.at("source") == "defaults");
    CHECK(why.at("excluded") ==
          json({"pinned, tunable.tune.yaml:6: block=32 vector=1 stream=1 is excluded by where 'stream == (n % block == "
                "0)'"}));
    CHECK(knobs_why(host, 128).at("excluded").empty());
}

TEST_CASE("what is excluded is passed over for the next source") {
    const Installed installed(R"(schema: opdock.tune/1
ops:
  fixture.knobs:
    - key: {n: exact}
      pinned: [{key: {n: 3}, config: {block: 33}}, {key: {n: 4}, config: {block: 33}}]
    - key: {n: exact}
      configs: [{block: 1}, {block: 2}]
      where: block * vector <= max(n, 4)
      pinned: [{key: {n: 3}, config: {block: 3}}]
    - heuristics: {block: 'n == 5 ? 6 : n == 9 ? 10 : n'}
)");
    {
        MadeHost host = installed.host();
        // Pinned by a section without a `where`, as plugin-tune export writes it, and by the next one.
        CHECK(knobs(host, 3) == Values{3, 1, 0});
        CHECK(knobs(host, 4) == Values{4, 1, 0}); // the file's expression
        CHECK(knobs(host, 5) == Values{1, 1, 0}); // neither the expression nor the default 64: the first config allowed
        CHECK(knobs(host, 7) == Values{7, 1, 0}); // proposed by the function
        CHECK(host.logged("outside its range") == 0);
        const json why = knobs_why(host, 5);
        CHECK(why.at("source") == "first config that where allows");
        CHECK(why.at("origin") == "tunable.tune.yaml:6");
        CHECK(why.at("excluded") == json({"heuristic of the tune file, tunable.tune.yaml:10: block=6 vector=1 stream=0 "
                                          "is excluded by where 'block * vector <= max(n, 4)'",
                                          "defaults: block=64 vector=1 stream=0 is excluded by where 'block * vector "
                                          "<= max(n, 4)'"}));
        CHECK(host->import_tuning(R"(schema: opdock.tune/1
ops: {fixture.knobs: {dtypes: f32, key: {n: exact}, pinned: [{key: {n: 6}, config: {block: 7}}, {key: {n: 9}, config: {block: 8}}]}}
)",
                                  "results.yaml") == 2);
    }
    MadeHost later = installed.host();
    CHECK(knobs(later, 6) == Values{6, 1, 0}); // not the database
    CHECK(knobs(later, 9) == Values{8, 1, 0}); // the database
    CHECK(knobs_why(later, 6).at("excluded").at(0).get<std::string>().starts_with("database, imported: block=7 "));
    MadeHost off = installed.host({{"PLUGIN_TUNE", "off"}});
    CHECK(knobs(off, 5) == Values{64, 1, 0});
}

TEST_CASE("the function's opinion is held to where, and where nothing is allowed the defaults serve") {
    const Installed installed("schema: opdock.tune/1\nops:\n"
                              "  fixture.knobs: {configs: [{block: 1}, {vector: 2}], where: 'block != n && n != 9'}\n");
    MadeHost host = installed.host();
    CHECK(knobs(host, 7) == Values{64, 1, 0});
    CHECK(knobs_why(host, 7).at("excluded").at(0).get<std::string>().starts_with("heuristic function: block=7 "));
    CHECK(knobs(host, 64) == Values{1, 1, 0});
    CHECK(knobs(host, 9) == Values{64, 1, 0});
}

TEST_CASE("a where that cannot be read allows nothing that the file says") {
    const Installed installed("schema: opdock.tune/1\nops:\n"
                              "  fixture.knobs: {key: {n: exact}, where: blok < 9, configs: [{block: 1}],\n"
                              "    heuristics: {block: 2}, pinned: [{key: {n: 3}, config: {block: 3}}]}\n");
    MadeHost host = installed.host();
    CHECK(knobs(host, 3) == Values{64, 1, 0});
    CHECK(host.logged("unknown name 'blok'") == 1);
    CHECK(knobs_why(host, 3).at("excluded").at(0) ==
          "pinned, tunable.tune.yaml:4: block=3 vector=1 stream=0 is excluded because where cannot be read");
}

TEST_CASE("on the CPU too, where the time is the machine's") {
    const Installed installed(work_configs);
    MadeHost host = installed.host();
    Work work;
    const json result = work.tune(host);
    CHECK(result["outcome"] == "tuned");
    CHECK(result["complete"] == true);
    CHECK(result["tried"].size() == 6);
    CHECK(result["before"]["microseconds"].get<double>() > 0);
    CHECK(work.out == std::vector<float>(4096, 3));
    CHECK(work.why(host)["source"] == "database");
}

TEST_CASE("what the vendor pinned is not tuned") {
    const Installed installed(std::string(work_configs) + "    pinned: [{key: {n: 4096}, config: {speed: 2}}]\n");
    MadeHost host = installed.host();
    Work work;
    const json result = work.tune(host);
    CHECK(result["outcome"] == "pinned");
    CHECK(result["origin"] == "tunable.tune.yaml:10");
    CHECK(result["best"]["config"]["speed"] == 2);
}

TEST_CASE("stopping or a short budget keeps what is known by then") {
    const Installed installed(work_configs);
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    opdock_tune_options options = {};
    uint64_t calls = 0;
    options.user_data = &calls;
    options.progress = [](void *user_data, uint64_t done, uint64_t total, double) {
        ++*static_cast<uint64_t *>(user_data);
        CHECK(done <= total);
        return done >= 2 ? 0 : 1; // after the default and the first config
    };
    json result = work.tune(host, options);
    CHECK(calls > 0);
    CHECK(result["complete"] == false);
    CHECK(result["best"]["config"]["speed"] == 1);
    CHECK(result["kept"] == true);

    opdock_tune_options exhaustive = options;
    exhaustive.strategy = OPDOCK_TUNE_EXHAUSTIVE;
    exhaustive.flags = OPDOCK_TUNE_AGAIN;
    exhaustive.progress = [](void *, uint64_t done, uint64_t, double) { return done < 4 ? 1 : 0; };
    result = work.tune(host, exhaustive);
    CHECK(result["complete"] == false); // each was timed, but less often than the others
    CHECK(result["best"]["config"]["speed"] == 5);
    CHECK(work.tune(host, options)["outcome"] == "known");

    options = {};
    options.budget = 1e-9;
    options.flags = OPDOCK_TUNE_AGAIN;
    result = work.tune(host, options);
    CHECK(result["complete"] == false);
    CHECK(result["best"]["config"]["speed"] == 0);
    CHECK(result["kept"] == false);
    CHECK(result["problem"] == "only the config in force was timed; use a larger budget");
    CHECK(work.why(host)["config"]["speed"] == 5); // as known before
}

TEST_CASE("whoever watches tuning is told how much is done of how much, of each strategy") {
    const Installed installed(work_configs); // five, of which two run and are right
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    struct Told {
        std::vector<uint64_t> done, totals;
    };
    const auto watched = [&](uint32_t strategy) {
        Told told;
        opdock_tune_options options = {};
        options.user_data = &told;
        options.strategy = strategy;
        options.flags = OPDOCK_TUNE_AGAIN | OPDOCK_TUNE_DRY_RUN;
        options.progress = [](void *user_data, uint64_t done, uint64_t total, double) {
            static_cast<Told *>(user_data)->done.push_back(done);
            static_cast<Told *>(user_data)->totals.push_back(total);
            return 1;
        };
        CHECK(work.tune(host, options)["complete"] == true);
        return told;
    };
    const auto check = [](const Told &told, uint64_t total, const std::vector<uint64_t> &samples) {
        std::vector<uint64_t> expected = samples;
        for (uint64_t round = 1; round <= 15; ++round) { // alternately the fastest and the one before it
            expected.push_back(samples.back() + 1 + 2 * round);
        }
        CHECK(told.done == expected);
        CHECK(told.totals == std::vector<uint64_t>(told.done.size(), total));
    };
    // The one in force, then five more are tried, of which two are timed; then all three, twice.
    check(watched(OPDOCK_TUNE_HALVING), 6 * 3 + 2 * 15, {1, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8});
    check(watched(OPDOCK_TUNE_EXHAUSTIVE), 6 * 7 + 2 * 15,
          {1, 2, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20});
}

TEST_CASE("a candidate that is the config in force is timed once") {
    const Installed installed(R"(schema: opdock.tune/1
ops:
  fixture.work:
    configs: [{speed: 0, mode: 0}, {speed: 1}]
)");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    const json result = work.tune(host);
    CHECK(result["before"]["config"] == json({{"speed", 0}, {"mode", 0}}));
    CHECK(result["tried"].size() == 2);
}

TEST_CASE("outputs that are longer than the pieces that they are filled by are filled to their end") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.work: {configs: [{speed: 1}]}\n");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work(fake, (16 << 20) / 4 + 1);
    CHECK(work.tune(host)["outcome"] == "tuned");
    CHECK(work.out == std::vector<float>(work.in.size(), 3));
}

TEST_CASE("whoever watches tuning, or runs in it, cannot tune at the same time, and does not wait for itself") {
    const Installed installed(work_configs);
    MadeHost host = installed.host();
    struct Nested {
        MadeHost &host;
        std::string message;
    } nested{host, {}};
    opdock_tune_options options = {};
    options.user_data = &nested;
    options.progress = [](void *user_data, uint64_t, uint64_t, double) {
        Nested &self = *static_cast<Nested *>(user_data);
        Work inner(16);
        try {
            (void)inner.tune(self.host);
        } catch (const opdock::Error &error) {
            self.message = error.what();
        }
        return 0;
    };
    Work work;
    CHECK(work.tune(host, options)["complete"] == false);
    CHECK(nested.message == "this thread is tuning another call");
}

TEST_CASE("options that a host does not know are refused") {
    const Installed installed(work_configs);
    MadeHost host = installed.host();
    Work work;
    opdock_tune_options options = {};
    options.flags = 1u << 20;
    CHECK_THROWS_AS(work.tune(host, options), opdock::Error);
    options = {};
    options.strategy = 7;
    CHECK_THROWS_AS(work.tune(host, options), opdock::Error);
    options = {};
    options.impl_id = "vendor.tunabel";
    CHECK_THROWS_WITH(work.tune(host, options),
                      "op 'fixture.work' has no implementation 'vendor.tunabel'; did you mean 'vendor.tunable'?");
}

TEST_CASE("inputs that a call writes hold afterwards what they held before") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.update: {configs: [{speed: 1}, {speed: 2}]}\n");
    MadeHost host = installed.host();
    std::vector<float> state(16, 1);
    std::vector<float> first(1, -1);
    const Tensor x(state.data(), f32, {16});
    const Tensor y(first.data(), f32, {1});
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    const json result = json::parse(host.op("fixture.update").tune({x}, {y}, {}, &options));
    CHECK(result["outcome"] == "tuned");
    for (const json &run : result["tried"]) {
        CHECK(run["outcome"] == "timed");
    }
    CHECK(state == std::vector<float>(16, 1));
    CHECK(first[0] == 2);
}

TEST_CASE("inputs that a call writes hold what they held at the beginning of each sample") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.update: {configs: [{speed: 1}, {speed: 2}]}\n");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<float> state(16, 1);
    std::vector<float> first(1, -1);
    const Tensor x(state.data(), f32, {16}, fake_device(0));
    const Tensor y(first.data(), f32, {1}, fake_device(0));
    const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
    for (const uint32_t strategy : {OPDOCK_TUNE_HALVING, OPDOCK_TUNE_EXHAUSTIVE}) {
        opdock_tune_options options = {};
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        options.strategy = strategy;
        options.flags = OPDOCK_TUNE_AGAIN;
        const json result =
            json::parse(host.op("fixture.update").tune(Args(inputs, outputs, {}, &fake.clock), &options));
        CHECK(result["best"]["config"]["speed"] == 2);
        REQUIRE(result["tried"].size() == 3);
        for (const json &run : result["tried"]) {
            CHECK_MESSAGE(run["outcome"] == "timed", run.dump());
        }
        CHECK(state == std::vector<float>(16, 1));
    }
}

TEST_CASE(
    "an input that an output lies on holds afterwards, and at the beginning of each sample, what it held before") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.double: {configs: [{speed: 1}, {speed: 2}]}\n");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<float> state(16, 1.5F);
    const Tensor x(state.data(), f32, {16}, fake_device(0));
    const std::array<TensorArg, 1> inputs = {x}, outputs = {x};
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    const json result = json::parse(host.op("fixture.double").tune(Args(inputs, outputs, {}, &fake.clock), &options));
    CHECK(result["best"]["config"]["speed"] == 2);
    REQUIRE(result["tried"].size() == 3);
    for (const json &run : result["tried"]) {
        CHECK_MESSAGE(run["outcome"] == "timed", run.dump());
    }
    CHECK(state == std::vector<float>(16, 1.5F));
}

TEST_CASE("an input that an output touches is only read, and not put back") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.work: {configs: [{speed: 1}]}\n");
    for (const ptrdiff_t input : {0, 16}) {
        FakeKind fake;
        HostWithFakeKind host(installed, fake);
        std::vector<float> memory(32, 1.5F);
        const Tensor x(memory.data() + input, f32, {16}, fake_device(0));
        const Tensor y(memory.data() + (16 - input), f32, {16}, fake_device(0));
        const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
        opdock_tune_options options = {};
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        options.flags = OPDOCK_TUNE_AGAIN;
        (void)host.op("fixture.work").tune(Args(inputs, outputs, {}, &fake.clock), &options);
        CHECK(memory[static_cast<size_t>(16 - input)] == 3);
        CHECK(fake.copied.empty());
    }
}

TEST_CASE("where the fastest config fails in the last rounds the one after it is chosen") {
    const Installed installed("schema: opdock.tune/1\nops:\n"
                              "  fixture.work: {configs: [{speed: 5, mode: 4}, {speed: 4}]}\n");
    FakeKind fake;
    fake.cache = 1024;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    opdock_tune_options options = {};
    options.flags = OPDOCK_TUNE_COLD; // a sample is one run; the first of the last rounds fails
    const json result = work.tune(host, options);
    CHECK(result["best"]["config"] == json({{"speed", 4}, {"mode", 0}}));
    REQUIRE(result["tried"].size() == 3);
    CHECK(result["tried"][0]["samples"] == 15); // from the last rounds with it
    CHECK(result["tried"][2]["config"] == json({{"speed", 5}, {"mode", 4}}));
    REQUIRE(result["tried"][2]["outcome"] == "refused");
    CHECK(contains(result["tried"][2]["reason"], "mode 4 is tired"));
}

TEST_CASE("what was tried is listed with what was timed first, in the order of the file") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.work:\n    configs:\n"
                              "      - {speed: 1, mode: 1}\n      - {speed: 1, mode: 4}\n      - {speed: 2}\n"
                              "      - {speed: 3, mode: 3}\n      - {speed: 4}\n");
    for (const uint32_t strategy : {OPDOCK_TUNE_HALVING, OPDOCK_TUNE_EXHAUSTIVE}) {
        FakeKind fake;
        HostWithFakeKind host(installed, fake);
        Work work(fake);
        opdock_tune_options options = {};
        options.strategy = strategy;
        options.flags = OPDOCK_TUNE_AGAIN | OPDOCK_TUNE_DRY_RUN;
        std::vector<std::string> tried;
        const json result = work.tune(host, options);
        for (const json &run : result["tried"]) {
            tried.push_back(fmt::format("{} {} {}", run["config"]["speed"].get<int>(), run["config"]["mode"].get<int>(),
                                        run["outcome"].get<std::string>()));
        }
        REQUIRE(tried == std::vector<std::string>{"0 0 timed", "2 0 timed", "4 0 timed", "1 4 refused", "1 1 refused",
                                                  "3 3 wrong"});
        CHECK(contains(result["tried"][3]["reason"], "mode 4 is tired"));
    }
}

TEST_CASE("what flushes a device's caches is made of two halves, each twice as large as its cache") {
    const Installed installed(work_configs);
    FakeKind fake;
    fake.cache = 5000;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    opdock_tune_options options = {};
    options.flags = OPDOCK_TUNE_COLD;
    CHECK(work.tune(host, options)["outcome"] == "tuned");
    CHECK(fake.allocated == std::vector<uint64_t>{20000});
    CHECK(fake.outstanding.empty());
    CHECK(fake.copied.size() > 5); // before each sample
    for (const uint64_t bytes : fake.copied) {
        CHECK(bytes == 10000);
    }

    fake.allocated.clear();
    fake.copied.clear();
    CHECK(work.tune(host)["outcome"] == "known");
    options.flags = OPDOCK_TUNE_AGAIN;
    CHECK(work.tune(host, options)["outcome"] == "tuned");
    CHECK(fake.allocated.empty()); // not cold, and no input is written
    CHECK(fake.copied.empty());
}

TEST_CASE("while tuning each copy is waited for, and what was made to measure is gone afterwards") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.update: {configs: [{speed: 1}, {speed: 2}]}\n");
    FakeKind fake;
    fake.cache = 5000;
    HostWithFakeKind host(installed, fake);
    std::vector<float> state(16, 1);
    std::vector<float> first(1, -1);
    const Tensor x(state.data(), f32, {16}, fake_device(0));
    const Tensor y(first.data(), f32, {1}, fake_device(0));
    const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    options.flags = OPDOCK_TUNE_COLD;
    const json result = json::parse(host.op("fixture.update").tune(Args(inputs, outputs, {}, &fake.clock), &options));
    CHECK(result["outcome"] == "tuned");
    CHECK_FALSE(fake.copied.empty());
    CHECK_FALSE(fake.received.empty());
    CHECK(fake.overtaken == 0);
    CHECK_FALSE(fake.is_copying);
    CHECK(fake.device_events == 0);
    CHECK(fake.outstanding.empty());
    CHECK(fake.allocated.size() == 2); // for the saved input, and for flushing caches
}

TEST_CASE("a call that writes host memory is tuned on the CPU alone, where that is the device's own") {
    const char *tune_file = "schema: opdock.tune/1\nops:\n  fixture.count: {configs: [{speed: 1}]}\n";
    const Installed installed(tune_file);
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<float> in(16, 1);
    float first = 0;
    const Tensor y(&first, f32, {1});
    const auto tune = [&](DLDevice device) {
        opdock_tune_options options = {};
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        options.flags = OPDOCK_TUNE_DRY_RUN;
        const Tensor x(in.data(), f32, {16}, device);
        return json::parse(host.op("fixture.count").tune({x}, {y}, {}, &options));
    };
    CHECK(tune({kDLCPU, 0})["outcome"] == "tuned");
    CHECK(first == 16);
    CHECK_THROWS_AS(tune(fake_device(0)), opdock::Error);
    CHECK(contains(last_error(), "it writes 'count' in host memory"));
}

TEST_CASE("the spread of a config is how far its middle half lies apart, in proportion to the median") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.work:\n    configs:\n"
                              "      - {speed: 1, mode: 5}\n      - {speed: 2}\n");
    FakeKind fake;
    fake.cache = 1024;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    opdock_tune_options options = {};
    options.strategy = OPDOCK_TUNE_EXHAUSTIVE;
    options.flags = OPDOCK_TUNE_COLD; // a sample is one run
    const json result = work.tune(host, options);
    REQUIRE(result["tried"].size() == 3);
    CHECK(result["tried"][0]["microseconds"] == doctest::Approx(64));
    CHECK(result["tried"][0]["spread"] == 0);
    const json &alternating = result["tried"][1]; // 7 samples of 32 or 96 microseconds
    CHECK(alternating["samples"] == 7);
    CHECK(alternating["spread"] == doctest::Approx(64 / alternating["microseconds"].get<double>()));
    CHECK(result["tried"][2]["microseconds"] == doctest::Approx(16));
    CHECK(result["tried"][2]["spread"] == 0);
}

// A tuning of fixture.trap (tests/fixtures/traps.c): `fault` is fast, and wrong in a way that one run does not reveal.
struct Trap {
    explicit Trap(int fault)
        : installed(fmt::format("schema: opdock.tune/1\nops:\n  fixture.trap: {{configs: [{{fault: {}}}]}}\n", fault),
                    "traps") {}
    json tune() {
        MadeHost host = installed.host();
        opdock_tune_options options = {};
        options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
        const Tensor x(in.data(), f32, {4096});
        const Tensor y(out.data(), f32, {4096});
        return json::parse(host.op("fixture.trap").tune({x}, {y}, {}, &options));
    }

    Installed installed;
    std::vector<float> in = std::vector<float>(4096, 1.5F);
    std::vector<float> out = std::vector<float>(4096, -1);
};

TEST_CASE("a config that is right only the first time, or only over some outputs, never wins") {
    for (const int fault : {1, 2, 3, 4, 5, 6, 7}) {
        CAPTURE(fault);
        Trap trap(fault);
        const json result = trap.tune();
        CHECK(result["best"]["config"]["fault"] == 0);
        REQUIRE(result["tried"].size() == 2);
        CHECK(result["tried"][1]["outcome"] == "wrong");
        CHECK(contains(result["tried"][1]["reason"], "in 'output', element "));
        CHECK(trap.out == std::vector<float>(4096, 3));
    }
}

TEST_CASE("a config that changes what the op only reads ends the search, and nothing is kept") {
    Trap trap(8);
    CHECK_THROWS_WITH(trap.tune(),
                      doctest::Contains("with fault=8, 'vendor.traps' changed 'input', which the op only"));
}

TEST_CASE("what the op only reads is watched to its last byte, on a device by pieces") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.look: {configs: [{fault: 8}]}\n", "traps");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<uint8_t> in((16u << 20) + 5, 1);
    std::vector<float> out(1, -1);
    const Tensor x(in.data(), u8, {static_cast<int64_t>(in.size())}, fake_device(0));
    const Tensor y(out.data(), f32, {1}, fake_device(0));
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    CHECK_THROWS_WITH(host.op("fixture.look").tune({x}, {y}, {}, &options),
                      doctest::Contains("with fault=8, 'vendor.traps_fake' changed 'input', which the op only"));
}

TEST_CASE("what lies in host memory and is only read is watched there, without copies") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.look: {configs: [{fault: 1}]}\n", "traps");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<uint8_t> in(1000, 1);
    std::vector<int64_t> numbers = {1, 2, 3};
    std::vector<float> out(1, -1);
    const Tensor x(in.data(), u8, {1000}, fake_device(0));
    const Tensor sizes(numbers.data(), i64, {3});
    const Tensor y(out.data(), f32, {1}, fake_device(0));
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    (void)host.op("fixture.look").tune({x, sizes}, {y}, {}, &options);
    const auto sent = [&](uint64_t bytes) { return std::count(fake.sent.begin(), fake.sent.end(), bytes); };
    CHECK(out[0] == 1000);
    CHECK(sent(1000) > 0);
    CHECK(sent(numbers.size() * sizeof numbers[0]) == 0);
}

TEST_CASE("a kernel has the workspace that it asked for while it is tuned, and one that reads it first is wrong") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.look: {configs: [{fault: 1}, {fault: 4}]}\n",
                              "traps");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<uint8_t> in(1000, 1);
    std::vector<float> out(1, -1);
    const Tensor x(in.data(), u8, {1000}, fake_device(0));
    const Tensor y(out.data(), f32, {1}, fake_device(0));
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    const json result = json::parse(host.op("fixture.look").tune({x}, {y}, {}, &options));
    REQUIRE(result["tried"].size() == 3);
    CHECK(result["tried"][2]["config"]["fault"] == 4);
    CHECK(result["tried"][2]["outcome"] == "wrong");
    CHECK(out[0] == 1000);
    CHECK(std::count(fake.allocated.begin(), fake.allocated.end(), 48) > 0);
    CHECK(fake.outstanding.empty());
}

TEST_CASE("a config that is faster in every round, but not by two percent, does not replace the one in force") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.work: {configs: [{mode: 6}]}\n");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work(fake);
    const json result = work.tune(host);
    REQUIRE(result["tried"].size() == 2);
    CHECK(result["tried"][1]["microseconds"] < result["tried"][0]["microseconds"]);
    CHECK(result["best"]["config"] == result["before"]["config"]);
    CHECK(result["gain"] == 1);
}

TEST_CASE("a config replaces the one in force when it is faster in twelve rounds of fifteen, not in eleven") {
    for (const int mode : {7, 8}) {
        CAPTURE(mode);
        const Installed installed(
            fmt::format("schema: opdock.tune/1\nops:\n  fixture.work: {{configs: [{{mode: {}}}]}}\n", mode));
        FakeKind fake;
        fake.cache = 1024;
        HostWithFakeKind host(installed, fake);
        Work work(fake);
        opdock_tune_options options = {};
        options.flags = OPDOCK_TUNE_COLD; // a sample is one run
        const json result = work.tune(host, options);
        REQUIRE(result["tried"].size() == 2);
        CHECK(result["tried"][1]["microseconds"] == doctest::Approx(32));
        CHECK(result["best"]["config"]["mode"] == (mode == 8 ? 8 : 0));
    }
}

TEST_CASE("where no time passes nothing is gained") {
    const Installed installed("schema: opdock.tune/1\nops:\n  fixture.look: {configs: [{fault: 7}]}\n", "traps");
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    std::vector<uint8_t> in(8, 1);
    std::vector<float> out(1, -1);
    const Tensor x(in.data(), u8, {8}, fake_device(0)), y(out.data(), f32, {1}, fake_device(0));
    const std::array<TensorArg, 1> inputs = {x}, outputs = {y};
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    const json result = json::parse(host.op("fixture.look").tune(Args(inputs, outputs, {}, &fake.clock), &options));
    CHECK(result["before"]["microseconds"] == 0);
    CHECK(result["tried"][0]["spread"] == 0);
    CHECK(result["gain"] == 1);
}

TEST_CASE("a config after which the one in force is wrong ends the search, and nothing is kept") {
    Trap trap(9);
    CHECK_THROWS_WITH(trap.tune(),
                      doctest::Contains("after the other configs ran, the config in force no longer computes"));
}

TEST_CASE("a config that writes what the config in force leaves as it was is wrong") {
    const Installed installed("schema: opdock.tune/1\nops:\n"
                              "  fixture.trap: {heuristics: {fault: '7'}, configs: [{fault: 0}]}\n",
                              "traps");
    MadeHost host = installed.host();
    std::vector<float> in(4095, 1.5F), out(4095, -1);
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    const json result =
        json::parse(host.op("fixture.trap")
                        .tune({Tensor(in.data(), f32, {4095})}, {Tensor(out.data(), f32, {4095})}, {}, &options));
    CHECK(result["before"]["config"]["fault"] == 7);
    REQUIRE(result["tried"].size() == 2);
    CHECK(result["tried"][1]["outcome"] == "wrong");
    CHECK(result["tried"][1]["reason"] ==
          "in 'output', byte 16376 is written, but the config in force does not write it");
}

TEST_CASE("an implementation that cannot take the call is not tuned with it") {
    const Installed installed(work_configs);
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    Work work;
    opdock_tune_options options = {};
    options.impl_id = "vendor.tunable_fake";
    CHECK_THROWS_WITH(work.tune(host, options), doctest::Contains("'vendor.tunable_fake' cannot take the call: "));
}

TEST_CASE("a call on a device that does not exist is the caller's mistake, also when it is to be tuned") {
    const Installed installed(work_configs);
    FakeKind fake;
    HostWithFakeKind host(installed, fake);
    CHECK_THROWS_WITH(Work(4096, fake_device(5)).tune(host), doctest::Contains("2 devices"));
    CHECK(fake.indices.empty());
}

TEST_CASE("what a list of vendors or a contract keeps out is not run to be tuned, and what an order passes over is") {
    const Installed installed(work_configs);
    const auto tuned = [&](const char *item, const char *value) {
        MadeHost host = installed.host();
        host.module("other", [](opdock_registry *registry) { // serves the remaining calls
            return register_plugin(registry, [](Registry &other) {
                static constexpr OpDeclaration work{"fixture.work(input: f32[n]) -> (output: f32[n])"};
                other.declare(work).implement(
                    work, Impl("reference.other")
                              .kind(OPDOCK_KIND_REFERENCE)
                              .deterministic()
                              .kernel([](const opdock_problem *, const opdock_call *) { return OPDOCK_OK; }));
            });
        });
        host->set_program_policy(host.policy(item, value));
        Work work;
        opdock_tune_options options = {};
        options.impl_id = "vendor.tunable";
        return work.tune(host, options)["impl_id"].get<std::string>();
    };
    for (const auto &[item, value] :
         {std::pair("deny_vendors", "acme"), std::pair("allow_vendors", ""), std::pair("require", "deterministic")}) {
        const std::string tried(item);
        CAPTURE(tried);
        CHECK_THROWS_WITH(tuned(item, value), doctest::Contains("'vendor.tunable' is not run: "));
    }
    CHECK(tuned("per_op", "fixture.work=reference") == "vendor.tunable");
}

TEST_CASE("written tensors with gaps are not tuned: the gaps may be another's") {
    const Installed installed(work_configs);
    MadeHost host = installed.host();
    std::vector<float> in(8, 1);
    std::vector<float> out(16, -1);
    const Tensor x(in.data(), f32, {8});
    const Tensor y(out.data(), f32, {8}, {kDLCPU, 0}, {2});
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    CHECK_THROWS_AS(host.op("fixture.work").tune({x}, {y}, {}, &options), opdock::Error);
    CHECK(contains(last_error(), "'output' has gaps"));
    CHECK(out == std::vector<float>(16, -1));
}

TEST_CASE("a call that writes nothing is not tuned: a wrong config would do as well") {
    const Installed installed(
        "schema: opdock.tune/1\nops:\n  fixture.work: {key: {}, configs: [{speed: 5, mode: 3}]}\n");
    MadeHost host = installed.host();
    Work work(0);
    CHECK_THROWS_WITH(work.tune(host), doctest::Contains("the call writes nothing"));
    CHECK(Work().why(host)["source"] == "defaults");
}

// --- who an entry is about
// --------------------------------------------------------------------------------------------

TEST_CASE("an entry serves the same model, driver, architecture, version and space, and no other") {
    const Installed installed(work_configs);
    const auto source = [&](const FakeKind &like, const std::string &fixture = "tunable",
                            const std::string &tune_file = work_configs) {
        const Installed there(tune_file, fixture); // in another folder: a file that is mapped is not opened again
        FakeKind fake = like;
        HostWithFakeKind host(there, fake, installed.environment());
        Work work(fake);
        return work.why(host).at("source").get<std::string>();
    };
    FakeKind fake;
    {
        HostWithFakeKind host(installed, fake);
        Work work(fake);
        CHECK(work.tune(host)["best"]["config"]["speed"] == 5);
        CHECK(work.out == std::vector<float>(4096, 3));
        CHECK(fake.outstanding.empty());
    }
    CHECK(source(fake) == "database");
    FakeKind other = fake;
    other.model = "Fake 2";
    CHECK(source(other) == "defaults");
    other = fake;
    other.driver = "1.1";
    CHECK(source(other) == "defaults");
    other = fake;
    other.architectures = {"fk_30"};
    CHECK(source(other) == "defaults");
    CHECK(source(fake, "tunable_again") == "defaults"); // tune_version 2
    CHECK(source(fake, "tunable", std::string(work_configs) + "      - {speed: 4}\n") == "defaults");
    CHECK(source(fake, "tunable", std::string(work_configs) + "    heuristics: {speed: 1}\n") == "database");
    CHECK(source(fake) == "database");
}

TEST_CASE("a plugin that promises nothing keeps its results as long as its build") {
    const Installed installed(work_configs, "tunable_unversioned");
    {
        MadeHost host = installed.host();
        Work work;
        CHECK(work.tune(host)["kept"] == true);
        CHECK(host->configs()
                  .of(host->catalog(), *host->catalog().find("fixture.work")->implementations[0], {kDLCPU, 0})
                  ->identity()
                  .version.starts_with("tunable build "));
    }
}

TEST_CASE("two processes choose the same config") {
    const Installed installed(std::string(work_configs) + "    heuristics: {speed: 'n > 100 ? 3 : 2'}\n");
    const auto speed = [&] {
        MadeHost host = installed.host();
        Work work;
        return work.why(host).at("config").at("speed").get<int>();
    };
    CHECK(speed() == 3);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        int result = 100;
        try {
            result = speed();
        } catch (...) {
        }
        _exit(result);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 3);
}

TEST_CASE("results travel: exported, imported elsewhere, or shipped as pins") {
    const Installed here(work_configs);
    std::string yaml;
    FakeKind fake;
    {
        HostWithFakeKind host(here, fake);
        Work work(fake);
        work.tune(host);
        yaml = host->export_tuning(nullptr, nullptr);
        CHECK(contains(yaml, "- {key: {n: 4096}, config: {speed: 5, mode: 0}}"));
        CHECK(contains(yaml, "devices: [Fake 1]\n"));
        CHECK(contains(yaml, "key: {n: log2}\n"));
        CHECK(host->export_tuning("fixture.knobs", nullptr) == "schema: opdock.tune/1\nops:\n");
        CHECK(host->export_tuning(nullptr, "vendor.nobody") == "schema: opdock.tune/1\nops:\n");
    }
    const Installed there(work_configs);
    {
        HostWithFakeKind host(there, fake);
        Work work(fake);
        CHECK(work.why(host)["source"] == "defaults");
        CHECK(host->import_tuning(yaml, "theirs.yaml") == 1);
        const core::Error error = thrown_by([&] {
            host->import_tuning("schema: opdock.tune/1\nops: {fixture.work: {dtypes: [], key: {n: exact}, "
                                "pinned: [{key: {n: 1}, config: {sped: 1}}]}}\n",
                                "theirs.yaml");
        });
        CHECK(error.status() == OPDOCK_INVALID_TUNE_FILE);
        CHECK(contains(error.what(), "has no knob 'sped'; did you mean 'speed'?"));
        CHECK_THROWS_WITH(host->import_tuning("schema: opdock.tune/1\nops: {fixture.work: {key: {n: exact}, pinned: "
                                              "[{key: {n: 1}, config: {speed: 1}}]}}\n",
                                              "theirs.yaml"),
                          doctest::Contains("another key (n: log2)"));
    }
    {
        HostWithFakeKind host(there, fake);
        Work work(fake);
        CHECK(work.why(host)["source"] == "database");
    }
    const core::TuneFile merged = core::merge_tune_files(
        {core::parse_tune_file(work_configs, "vendor.yaml"), core::parse_tune_file(yaml, "ours.yaml")});
    const Installed shipped(print_tune_file(merged));
    HostWithFakeKind host(shipped, fake);
    Work work(fake);
    CHECK(work.why(host)["source"] == "pinned");
    CHECK(work.why(host)["config"]["speed"] == 5);
}

TEST_CASE("what is exported is of the op, and of the implementation, that was asked for") {
    const Installed installed(std::string(work_configs) +
                              "  fixture.knobs: {key: {n: exact}, configs: [{block: 1}]}\n");
    CHECK(installed.host()->import_tuning(R"(schema: opdock.tune/1
ops:
  fixture.knobs: {dtypes: [f32], key: {n: exact}, pinned: [{key: {n: 4}, config: {block: 3}}]}
  fixture.work: {key: {n: log2}, pinned: [{key: {n: 4096}, config: {speed: 2}}]}
)",
                                          "results.yaml") > 0);
    MadeHost host = installed.host();
    const std::string none = "schema: opdock.tune/1\nops:\n";
    const std::string knobs = host->export_tuning("fixture.knobs", nullptr);
    const std::string work = host->export_tuning("fixture.work", nullptr);
    CHECK(contains(knobs, "{block: 3"));
    CHECK_FALSE(contains(knobs, "fixture.work"));
    CHECK(contains(work, "{speed: 2"));
    CHECK_FALSE(contains(work, "fixture.knobs"));
    CHECK(contains(host->export_tuning(nullptr, "VENDOR.tunable"), "fixture.knobs"));
    CHECK(host->export_tuning(nullptr, "vendor.nobody") == none);
}

TEST_CASE("rows of the database that nobody could have written are not exported, and keep no other row from it") {
    const Installed installed(work_configs);
    CHECK(installed.host()->import_tuning("schema: opdock.tune/1\nops: {fixture.work: {key: {n: log2}, pinned: [{key: "
                                          "{n: 4096}, config: {speed: 2}}]}}\n",
                                          "results.yaml") > 0);
    MadeHost host = installed.host();
    const std::string good = host->export_tuning(nullptr, nullptr);
    CHECK(contains(good, "{speed: 2"));
    const std::unique_ptr<core::DeploymentTuning> tuned =
        host->configs().of(host->catalog(), *host->catalog().find("fixture.work")->implementations[0], {kDLCPU, 0});
    REQUIRE(!tuned->entries().empty());
    const core::TuneEntry entry = tuned->entries()[0];
    for (const auto &[dtypes, key] : {std::pair<std::string, std::string>(entry.dtypes, "q"),
                                      {entry.dtypes, "n=q"},
                                      {entry.dtypes, "n=3"},
                                      {"zz", entry.key},
                                      {"f32,f32,f32", entry.key}}) {
        host->configs().database().write(tuned->identity(), {{entry.space, dtypes, key, entry.config, 1, 1}});
    }
    CHECK(installed.host()->export_tuning(nullptr, nullptr) == good);
}

TEST_CASE("what is known of calls without an optional input is exported and imported, for them alone") {
    constexpr const char *configs = R"(schema: opdock.tune/1
ops:
  fixture.pair:
    - {dtypes: ['f32,-'], configs: [{fault: 1}]}
    - {dtypes: ['f32,f16'], configs: [{fault: 1}]}
)";
    const Installed here(configs, "traps");
    CHECK(here.host()->import_tuning(R"(schema: opdock.tune/1
ops:
  fixture.pair:
    - dtypes: ['f32,-']
      key: {n: log2, has_extra: exact}
      pinned: [{key: {n: 8, has_extra: 0}, config: {fault: 1}}]
)",
                                     "results.yaml") == 1);
    const std::string yaml = here.host()->export_tuning(nullptr, nullptr);
    CHECK(contains(yaml, "dtypes: ['f32,-']\n"));
    CHECK(yaml.find("pinned:") == yaml.rfind("pinned:"));
    const Installed there(configs, "traps");
    CHECK(there.host()->import_tuning(yaml, "export.yaml") == 1);
    CHECK(there.host()->export_tuning(nullptr, nullptr) == yaml);
}

TEST_CASE("what is imported for another device names both, once for all ops") {
    const Installed installed(work_configs);
    MadeHost host = installed.host();
    const std::string yaml = R"(schema: opdock.tune/1
ops:
  fixture.work:
    - {devices: [Abacus 9], key: {n: exact}, pinned: [{key: {n: 8}, config: {speed: 1}}]}
    - {devices: [Abacus 9], key: {n: exact}, pinned: [{key: {n: 9}, config: {speed: 1}}]}
    - {architectures: [abc_9], key: {n: exact}, pinned: [{key: {n: 9}, config: {speed: 1}}]}
  fixture.knobs: {architectures: [abc_9], dtypes: f16, key: {n: exact}, pinned: [{key: {n: 9}, config: {block: 1}}]}
)";
    CHECK(host->import_tuning(yaml, "there.yaml") == 0);
    CHECK(host.logged("not imported: the entries are for device 'Abacus 9'; here: '") == 1);
    CHECK(host.logged("the dtypes (all) or architecture ('abc_9'; here: '") == 1);
    CHECK(host.logged("the dtypes ('f16') or architecture ('abc_9'; here: '") == 1);
    CHECK(host.logged("(ops '") == 0); // the place already names the op
}

// --- online
// -----------------------------------------------------------------------------------------------------------

TEST_CASE("online, the first call of a shape is tuned and the calls after it use what was found") {
    const Installed installed(work_configs);
    MadeHost host = installed.host({{"PLUGIN_TUNE", "online"}, {"PLUGIN_TUNE_BUDGET", "5"}});
    Work work;
    const Op op = host.op("fixture.work");
    CHECK(op.try_call({work.x}, {work.y}) == OPDOCK_OK);
    CHECK(work.out == std::vector<float>(4096, 3));
    CHECK(host.logged("'vendor.tunable' was tuned for") == 1);
    CHECK(work.why(host)["source"] == "database");
    CHECK(op.try_call({work.x}, {work.y}) == OPDOCK_OK);
    CHECK(host.logged("was tuned for") == 1);
    CHECK(host->served_count("fixture.work", "vendor.tunable") == 2); // the tuner's own runs do not count

    FakeKind fake;
    const Installed elsewhere(work_configs);
    HostWithFakeKind clocked(elsewhere, fake, {{"PLUGIN_TUNE", "online"}});
    Work timed(fake);
    CHECK(clocked.op("fixture.work").try_call({timed.x}, {timed.y}, {}, timed.stream) == OPDOCK_OK);
    CHECK(clocked.logged("s: speed=5 mode=0, 32.00 times as fast as defaults") == 1);

    MadeHost later = installed.host({{"PLUGIN_TUNE", "online"}});
    CHECK(later.op("fixture.work").try_call({work.x}, {work.y}) == OPDOCK_OK);
    CHECK(later.logged("was tuned for") == 0);
}

TEST_CASE("online, what the vendor pinned for a shape serves it, and nothing is tuned") {
    const Installed installed(std::string(work_configs) + R"(    key: {n: exact}
    pinned: [{key: {n: 4096}, config: {speed: 1}}]
)");
    MadeHost host = installed.host({{"PLUGIN_TUNE", "online"}});
    Work pinned;
    CHECK(host.op("fixture.work").try_call({pinned.x}, {pinned.y}) == OPDOCK_OK);
    CHECK(host.logged("was tuned for") == 0);
    CHECK(pinned.why(host)["source"] == "pinned");
    Work other(2048);
    CHECK(host.op("fixture.work").try_call({other.x}, {other.y}) == OPDOCK_OK);
    CHECK(host.logged("was tuned for") == 1);
}

TEST_CASE("online, nothing is tuned while its stream is being captured") {
    const Installed installed(work_configs);
    FakeKind fake;
    HostWithFakeKind host(installed, fake, {{"PLUGIN_TUNE", "online"}});
    double stream = 0;
    fake.captured = &stream;
    Work work(fake);
    const Op op = host.op("fixture.work");
    CHECK(op.try_call({work.x}, {work.y}, {}, &stream) == OPDOCK_NOT_PREPARED);
    fake.captured = nullptr;
    Work small(fake, 8);
    CHECK(op.try_call({small.x}, {small.y}, {}, &stream) == OPDOCK_OK); // now the op is resolved
    const int64_t tuned = host.logged("was tuned for");
    fake.captured = &stream;
    CHECK(op.try_call({work.x}, {work.y}, {}, &stream) == OPDOCK_OK);
    CHECK(host.logged("was tuned for") == tuned);
    CHECK(work.why(host)["source"] == "defaults");
}

TEST_CASE("a database that cannot be used costs no call") {
    const Installed installed(work_configs);
    for (const std::string &path : {std::string("/proc/nothing/tune.sqlite"), installed.directory.path().string()}) {
        CAPTURE(path);
        MadeHost host = installed.host({{"PLUGIN_TUNE", "online"}, {"PLUGIN_TUNE_DB", path}});
        Work work;
        CHECK(host.op("fixture.work").try_call({work.x}, {work.y}) == OPDOCK_OK);
        CHECK(host.logged("is used in this process only") == 1);
        CHECK(work.why(host)["source"] == "database"); // of this process
    }
}

TEST_CASE("that a database cannot be read is said once, whatever number of implementations asks") {
    const Installed installed(work_configs);
    const std::string folder = installed.directory.path().string();
    MadeHost host = installed.host({{"PLUGIN_TUNE_DB", folder}});
    for (const char *op : {"fixture.work", "fixture.update", "fixture.knobs"}) {
        (void)host->export_tuning(op, nullptr);
    }
    CHECK(host.logged("Tuning results are not used") == 1);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // they map more memory than any limit allows
TEST_CASE("online, a call is made also where there is no memory to tune it") {
    const Installed installed(work_configs);
    constexpr int64_t elements = 8 << 20;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        bool is_made = false;
        {
            MadeHost host = installed.host({{"PLUGIN_TUNE", "online"}, {"PLUGIN_TUNE_BUDGET", "1"}});
            Work work(elements);
            const Op op = host.op("fixture.work");
            Work small(1);
            (void)op.try_call({small.x}, {small.y}); // the host then has everything that the next call needs
            rlimit limit = {};
            getrlimit(RLIMIT_AS, &limit);
            std::ifstream pages("/proc/self/statm");
            uint64_t mapped = 0;
            pages >> mapped;
            limit.rlim_cur = mapped * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (8u << 20);
            setrlimit(RLIMIT_AS, &limit);
            is_made = op.try_call({work.x}, {work.y}) == OPDOCK_OK && work.out.back() == 3 &&
                      host.logged("'vendor.tunable' is not tuned: ") == 1;
        }
        _exit(is_made ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
}
#endif

TEST_CASE("wrong settings of tuning are errors when the host opens") {
    CHECK_THROWS_WITH(
        MadeHost(core::RawEnvironment{{"PLUGIN_TUNE", "chached"}}),
        doctest::Contains("expected 'off', 'cached' or 'online', found 'chached'; did you mean 'cached'?"));
    CHECK_THROWS_WITH(MadeHost(core::RawEnvironment{{"PLUGIN_TUNE_DB", "tune.sqlite"}}),
                      doctest::Contains("expected an absolute path"));
    CHECK_THROWS_WITH(MadeHost(core::RawEnvironment{{"PLUGIN_TUNE_BUDGET", "0"}}),
                      doctest::Contains("expected seconds, such as 0.5, 500ms or 2m, found '0'"));
    CHECK_THROWS_WITH(MadeHost(core::RawEnvironment{{"PLUGIN_TUNE_BUDGET", "5h"}}), doctest::Contains("found '5h'"));
    CHECK(MadeHost(core::RawEnvironment{{"PLUGIN_TUNE_BUDGET", "250 ms"}})->configs().budget() == 0.25);
    CHECK(MadeHost()->configs().budget() == 1);
}

TEST_CASE("what is wrong with a tune file is in the log, with its place, and the rest of the file counts") {
    const Installed installed(R"(schema: opdock.tune/1
ops:
  fixture.knob: {}
  fixture.knobs:
    heuristics: {block: 5, blok: 6}
)");
    MadeHost host = installed.host();
    CHECK(knobs(host, 1)[0] == 5);
    CHECK(host.logged("tunable.tune.yaml:3:3: unknown op 'fixture.knob'; did you mean 'fixture.knobs'?") == 1);
    CHECK(host.logged("tunable.tune.yaml:5:28: 'vendor.tunable' has no knob 'blok'; did you mean 'block'? This entry "
                      "is ignored.") == 1);
    CHECK(knobs(host, 2)[0] == 5);
    CHECK(host.logged("unknown op 'fixture.knob'") == 1); // once
}

TEST_CASE("a tune file that is no YAML is said to be ignored as a whole, in the log and of a check") {
    const Installed installed("schema: opdock.tune/1\nops: {fixture.work: {configs: [}}\n");
    MadeHost host = installed.host();
    const std::string told = "this is not YAML: illegal flow end. The file is ignored.";
    const json described = host->describe();
    REQUIRE(described["plugins"][0]["warnings"].size() == 1);
    CHECK(contains(described["plugins"][0]["warnings"][0], told));
    CHECK(host.logged(told) == 1);
    CHECK(host.logged("This entry") == 0);
    core::CheckSettings settings;
    for (const std::string &cache : {std::string(), (installed.directory.path() / "cache" / "opdock").string()}) {
        settings.cache_folder = cache; // with a cache the registration is known
        const json checked = core::check_file(installed.plugin(), settings);
        CHECK(checked["status"] == "faulty");
        CHECK(contains(checked["reason"], "illegal flow end.\nHosts take the plugin and ignore the file."));
    }
}

TEST_CASE("in strict mode a plugin whose tune file is wrong is rejected, with every place") {
    const std::string wrong =
        "schema: opdock.tune/1\nops:\n  fixture.work: {configs: [{sped: 1}], product: {speed: 9}}\n";
    const Installed installed(wrong);
    const core::RawEnvironment strict = {{"PLUGIN_STRICT", "1"}};
    CHECK_THROWS_WITH(installed.host(strict),
                      doctest::Contains("tunable.tune.yaml:3:29: 'vendor.tunable' has no knob 'sped'; did you mean "));
    CHECK_THROWS_WITH(installed.host(strict), doctest::Contains("OPDOCK-E042"));
    CHECK_THROWS_WITH(installed.host(strict), doctest::Contains("3:57: knob 'speed' is 9, outside its range 0 to 5"));
    CHECK_NOTHROW(installed.host({{"PLUGIN_STRICT", "1"}, {"PLUGIN_TUNE", "off"}}));
    MadeHost lenient = installed.host();
    const json described = lenient->describe();
    const json &plugin = described["plugins"][0];
    CHECK(plugin["status"] == "loaded");
    CHECK(plugin["warnings"].size() == 2);
}

TEST_CASE("checking a plugin's file checks its tune file, the better the more is known of the plugin") {
    const Installed installed("schema: opdock.tune/1\nops: {fixture.work: {confgs: 1, heuristics: {sped: 1}}}\n");
    const std::string cache = (installed.directory.path() / "cache" / "opdock").string();
    core::CheckSettings settings;
    settings.cache_folder = cache;
    const json unscanned = core::check_file(installed.plugin(), settings);
    REQUIRE(unscanned["warnings"].size() == 1);
    CHECK(contains(unscanned["warnings"][0], "were not checked"));
    CHECK_FALSE(contains(unscanned["reason"], "sped"));
    (void)installed.host();
    const json checked = core::check_file(installed.plugin(), settings);
    CHECK(checked["warnings"].empty());
    CHECK(contains(checked["reason"], "2:22: unknown field 'confgs'; did you mean 'configs'?"));
    CHECK(contains(checked["reason"], "has no knob 'sped'"));
    CHECK(checked["status"] == "faulty");
}

// --- agreement
// --------------------------------------------------------------------------------------------------------

TEST_CASE("configs may differ by rounding and by nothing else") {
    const auto differ = [](uint32_t dtype, const auto &a, const auto &b) {
        return core::disagreement(dtype, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
    };
    using Floats = std::vector<float>;
    CHECK(differ(OPDOCK_F32, Floats{1, 2, 3}, Floats{1, 2, 3.000001F}).empty());
    CHECK_FALSE(differ(OPDOCK_F32, Floats{1, 2, 3}, Floats{1, 2, 3.1F}).empty());
    CHECK_FALSE(differ(OPDOCK_F32, Floats{0, 0, 0}, Floats{0, 0, 1e-20F}).empty());
    CHECK_FALSE(differ(OPDOCK_F32, Floats{1, 2}, Floats{1, NAN}).empty());
    CHECK(differ(OPDOCK_F32, Floats{1, NAN, INFINITY}, Floats{1, NAN, INFINITY}).empty());
    CHECK_FALSE(differ(OPDOCK_F32, Floats{INFINITY}, Floats{-INFINITY}).empty());
    Floats many(1'000'000, 1);
    Floats one_off = many;
    one_off[999'999] = 1.01F; // the norm alone would not reveal it
    CHECK_FALSE(differ(OPDOCK_F32, many, one_off).empty());
    using Words = std::vector<uint16_t>;
    CHECK(differ(OPDOCK_BF16, Words(1000, 0x3f80),
                 [] {
                     Words words(1000, 0x3f80);
                     words[3] = 0x3f81;
                     return words;
                 }())
              .empty());
    CHECK_FALSE(differ(OPDOCK_BF16, Words{0x3f80}, Words{0x4000}).empty());
    CHECK_FALSE(differ(OPDOCK_F16, Words{0x3c00}, Words{0xa5a5}).empty());
    using Bytes = std::vector<uint8_t>;
    CHECK(differ(OPDOCK_E4M3, Bytes(100, 0x38),
                 [] {
                     Bytes bytes(100, 0x38);
                     bytes[3] = 0x39;
                     return bytes;
                 }())
              .empty());
    CHECK_FALSE(differ(OPDOCK_E4M3, Bytes{0x38}, Bytes{0x48}).empty());
    CHECK_FALSE(differ(OPDOCK_E4M3, Bytes{0x38}, Bytes{0x7f}).empty());
    CHECK_FALSE(differ(OPDOCK_E5M2, Bytes{0x7c}, Bytes{0x78}).empty());
    CHECK_FALSE(differ(OPDOCK_I64, std::vector<int64_t>{5}, std::vector<int64_t>{6}).empty());
    CHECK(differ(OPDOCK_I64, std::vector<int64_t>{5}, std::vector<int64_t>{5}).empty());
}

TEST_CASE("elements of eight bits are compared by the value they stand for") {
    struct Element {
        uint32_t dtype;
        uint8_t bits;
        const char *value;
    };
    const Element elements[] = {
        {OPDOCK_E4M3, 0x01, "0.00195312"}, {OPDOCK_E4M3, 0x07, "0.0136719"}, {OPDOCK_E4M3, 0x08, "0.015625"},
        {OPDOCK_E4M3, 0x7e, "448"},        {OPDOCK_E4M3, 0x80, "-0"},        {OPDOCK_E4M3, 0xc4, "-3"},
        {OPDOCK_E4M3, 0xff, "-nan"},       {OPDOCK_E5M2, 0x7b, "57344"},     {OPDOCK_E5M2, 0x7c, "inf"},
        {OPDOCK_E5M2, 0xfc, "-inf"},       {OPDOCK_E5M2, 0x7f, "nan"},       {OPDOCK_E5M2, 0xc2, "-3"},
    };
    const auto differ = [](uint32_t dtype, uint8_t expected, uint8_t found) {
        return core::disagreement(dtype, std::as_bytes(std::span(&expected, 1)), std::as_bytes(std::span(&found, 1)));
    };
    for (const Element &element : elements) {
        const uint8_t one = element.dtype == OPDOCK_E4M3 ? 0x38 : 0x3c;
        CHECK(differ(element.dtype, one, element.bits) ==
              std::string("element 0 is ") + element.value + ", expected 1");
    }
    CHECK(differ(OPDOCK_E5M2, 0x01, 0x3c) == "element 0 is 1, expected 1.52588e-05");
    CHECK(differ(OPDOCK_E5M2, 0x04, 0x3c) == "element 0 is 1, expected 6.10352e-05");
}

TEST_CASE("how much configs may differ goes by the precision of the dtype, for one element and for all") {
    const auto differ = [](uint32_t dtype, const auto &a, const auto &b) {
        return core::disagreement(dtype, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
    };
    // Compares two thousand ones with a copy whose last element differs, and with a copy where all elements differ.
    const auto one_off = [&](uint32_t dtype, auto one, auto other) {
        const std::vector<decltype(one)> ones(2000, one);
        std::vector<decltype(one)> changed = ones;
        changed.back() = other;
        return differ(dtype, ones, changed);
    };
    const auto all_off = [&](uint32_t dtype, auto one, auto other) {
        return differ(dtype, std::vector<decltype(one)>(2000, one), std::vector<decltype(one)>(2000, other));
    };
    const uint16_t half = 0x3c00;  // 1 in f16
    const uint16_t brain = 0x3f80; // 1 in bf16
    const uint8_t one_e4m3 = 0x38;
    const uint8_t one_e5m2 = 0x3c;
    CHECK(one_off(OPDOCK_F32, 1.0F, 1.0038F).empty());
    CHECK(one_off(OPDOCK_F32, 1.0F, 1.0040F) == "element 1999 is 1.004, expected 1");
    CHECK(one_off(OPDOCK_F16, half, uint16_t{half + 32}).empty());
    CHECK(one_off(OPDOCK_F16, half, uint16_t{half + 33}) == "element 1999 is 1.03223, expected 1");
    CHECK(one_off(OPDOCK_BF16, brain, uint16_t{brain + 32}).empty());
    CHECK(one_off(OPDOCK_BF16, brain, uint16_t{brain + 33}) == "element 1999 is 1.25781, expected 1");
    CHECK(one_off(OPDOCK_E4M3, one_e4m3, uint8_t{one_e4m3 + 4}).empty());
    CHECK(one_off(OPDOCK_E4M3, one_e4m3, uint8_t{one_e4m3 + 5}) == "element 1999 is 1.625, expected 1");
    CHECK(one_off(OPDOCK_E5M2, one_e5m2, uint8_t{one_e5m2 + 4}).empty());
    CHECK(one_off(OPDOCK_E5M2, one_e5m2, uint8_t{one_e5m2 + 5}) == "element 1999 is 2.5, expected 1");

    const std::string norm = "the relative norm of the difference is ";
    CHECK(all_off(OPDOCK_F32, 1.0F, 1.0001F).empty());
    CHECK(all_off(OPDOCK_F32, 1.0F, 1.0002F) == norm + "0.0002, more than the allowed 0.00012");
    CHECK(all_off(OPDOCK_F16, half, uint16_t{half + 2}).empty());
    CHECK(all_off(OPDOCK_F16, half, uint16_t{half + 3}) == norm + "0.0029, more than the allowed 0.002");
    CHECK(all_off(OPDOCK_BF16, brain, uint16_t{brain + 1}).empty());
    CHECK(all_off(OPDOCK_BF16, brain, uint16_t{brain + 2}) == norm + "0.016, more than the allowed 0.0078");
    CHECK(all_off(OPDOCK_E4M3, one_e4m3, uint8_t{one_e4m3 + 1}) == norm + "0.12, more than the allowed 0.062");
    CHECK(all_off(OPDOCK_E5M2, one_e5m2, uint8_t{one_e5m2 + 1}) == norm + "0.25, more than the allowed 0.12");
}

TEST_CASE("with the strategy exhaustive each config is timed as often as the others, with halving the slow ones less") {
    for (const uint32_t strategy : {OPDOCK_TUNE_HALVING, OPDOCK_TUNE_EXHAUSTIVE}) {
        const Installed installed(work_configs);
        FakeKind fake;
        HostWithFakeKind host(installed, fake);
        Work work(fake);
        opdock_tune_options options = {};
        options.strategy = strategy;
        const json result = work.tune(host, options);
        for (const json &run : result["tried"]) {
            if (run["outcome"] == "timed" && run["config"] != result["best"]["config"] &&
                run["config"] != result["before"]["config"]) {
                CHECK(run["samples"] == (strategy == OPDOCK_TUNE_HALVING ? 3 : 7));
            }
        }
    }
}

TEST_CASE("of a tune file with many faults eight are logged, and how many more there are") {
    for (const int count : {8, 9, 12}) {
        CAPTURE(count);
        std::string text = "schema: opdock.tune/1\nops:\n  fixture.work:\n    configs:\n";
        for (int i = 0; i < count; ++i) {
            text += "      - {speed: " + std::to_string(100 + i) + "}\n";
        }
        const Installed installed(text + "      - {speed: 1}\n");
        MadeHost host = installed.host();
        CHECK(Work().why(host)["candidates"] == 1);
        CHECK(host.logged("outside its range 0 to 5. This entry is ignored.") == 8);
        CHECK(host.logged(": " + std::to_string(count - 8) +
                          " more entries are ignored; `plugin-ls --check` shows all") == (count == 8 ? 0 : 1));
    }
}

TEST_CASE("an implementation without knobs, and one of a host that does not tune, cannot be tuned") {
    const Installed installed(work_configs);
    MadeHost off = installed.host({{"PLUGIN_TUNE", "off"}});
    Work work;
    CHECK_THROWS_WITH(work.tune(off), doctest::Contains("PLUGIN_TUNE is off"));
    MadeHost host;
    host.add("default.one", OPDOCK_KIND_DEFAULT);
    Rows rows;
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    CHECK_THROWS_WITH(host.op().tune({rows.x}, {rows.y}, {}, &options),
                      doctest::Contains("'default.one' has no knobs: there is nothing to tune"));
}
