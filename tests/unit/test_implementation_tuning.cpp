#include "tune/implementation_tuning.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "temporary_directory.hpp"
#include "tune/plugin_tuning.hpp"

using namespace opdock::core;
using opdock::test::TemporaryDirectory;

namespace {

// An implementation with the knobs block (1 to 1024, default 64), vector (1 to 16) and stream (bool).
struct Acme : Implementation {
    explicit Acme(const std::string &signature, const std::string &id = "vendor.acme") {
        form = std::make_shared<const Signature>(parse_signature(signature));
        op = form->name;
        impl_id = id;
        knobs = {{"block", "", OPDOCK_KNOB_INT, 1, 1024, 64, {}},
                 {"vector", "", OPDOCK_KNOB_INT, 1, 16, 1, {}},
                 {"stream", "", OPDOCK_KNOB_BOOL, 0, 1, 0, {}}};
    }
};

constexpr const char *norm =
    "norm(input: T[..., n], weight: U[n]) -> (output: T[..., n]) where T in f32|f16, U in f32|f16";

TuneFile file_of(const std::string &body, const std::string &op = "norm") {
    return parse_tune_file("schema: opdock.tune/1\nops:\n  " + op + ":\n    " + body + "\n", "acme.tune.yaml");
}

ImplementationTuning tuning_of(const Implementation &implementation, const TuneFile *file) {
    size_t values_left = most_values;
    return {implementation, file, values_left};
}

struct Tuned {
    explicit Tuned(const std::string &body) : file(file_of(body)) { REQUIRE(file.problems.empty()); }
    TuneFile file;
    Acme implementation{norm};
    ImplementationTuning tuning = tuning_of(implementation, &file);

    std::vector<double> values(double n, double rows) const {
        std::vector<double> values(tuning.variables().names().size());
        values[*tuning.variables().find("n")] = n;
        values[*tuning.variables().find("rows")] = rows;
        return values;
    }
    std::vector<std::string> candidates(double n = 4096) const {
        std::vector<std::string> texts;
        for (const TuneConfig &config : tuning.candidates(tuning.sections().at(0), values(n, 1))) {
            texts.push_back(config_text(implementation.knobs, config));
        }
        return texts;
    }
    std::vector<std::string> problems() const {
        std::vector<std::string> texts;
        for (const TuneProblem &problem : tuning.problems()) {
            texts.push_back(text_of(file, problem));
        }
        return texts;
    }
};

std::string space(const std::string &body) {
    const Tuned tuned(body);
    REQUIRE(tuned.problems().empty());
    return tuned.tuning.sections().at(0).space;
}

using Texts = std::vector<std::string>;

// A problem of an op whose inputs and outputs are single tensors.
template<uint32_t count>
opdock_problem problem_of(uint32_t n_inputs, const DLTensor *const (&tensors)[count],
                          const opdock_value *attributes = nullptr) {
    static constexpr uint32_t starts[] = {0, 1, 2, 3, 4};
    static_assert(count < std::size(starts));
    opdock_problem problem = {};
    problem.n_inputs = n_inputs;
    problem.n_outputs = count - n_inputs;
    problem.n_tensors = count;
    problem.tensors = tensors;
    problem.tensor_offsets = starts;
    problem.attributes = attributes;
    return problem;
}

} // namespace

TEST_CASE("configs come before the product, each once, and where keeps some out") {
    CHECK(Tuned("{configs: [{block: 8}, {vector: 2}], product: {block: [8, 16], vector: [1, 2]}}").candidates() ==
          Texts{"block=8 vector=1 stream=0", "block=64 vector=2 stream=0", "block=8 vector=2 stream=0",
                "block=16 vector=1 stream=0", "block=16 vector=2 stream=0"});
    const Tuned tuned("{product: {block: [8, 16, 32], vector: [1, 4]}, where: [block * vector <= n, vector > 1]}");
    CHECK(tuned.candidates(32) == Texts{"block=8 vector=4 stream=0"});
    CHECK(tuned.candidates(64) == Texts{"block=8 vector=4 stream=0", "block=16 vector=4 stream=0"});
    CHECK(tuned.candidates(8).empty());
}

TEST_CASE("a knob wins over a dim of its name in where") {
    TuneFile file = file_of("{product: {block: [8, 16]}, where: block > 8}", "cut");
    const Acme implementation("cut(input: f32[block]) -> (output: f32[block])");
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    CHECK(tuning.problems().empty());
    CHECK(tuning.candidates(tuning.sections().at(0), std::vector<double>(tuning.variables().names().size())).size() ==
          1);
}

TEST_CASE("what does not fit the implementation is told with its place and left out") {
    CHECK(Tuned("{configs: [{blok: 8}, {block: 8}]}").problems() ==
          Texts{"acme.tune.yaml:4:17: 'vendor.acme' has no knob 'blok'; did you mean 'block'?"});
    CHECK(Tuned("{configs: [{blok: 8}, {block: 8}]}").candidates().size() == 1);
    CHECK(Tuned("{configs: [{block: 2048}]}").problems() ==
          Texts{"acme.tune.yaml:4:24: knob 'block' is 2048, outside its range 1 to 1024"});
    CHECK(Tuned("{product: {block: [8, 0]}}").candidates() == Texts{"block=8 vector=1 stream=0"});
    CHECK(Tuned("{product: {block: [8], vectr: [1]}}").tuning.sections()[0].space.empty());
    CHECK(Tuned("{product: {block: [8, 16]}, where: block > 16}").problems() ==
          Texts{"acme.tune.yaml:4:40: where leaves no config"});
    const Tuned faulty("{product: {block: [8, 16]}, where: [block > 4, blok > 8]}");
    CHECK(faulty.problems().at(0) == std::string("acme.tune.yaml:4:52: unknown name 'blok'; did you mean 'block'?"));
    CHECK(faulty.tuning.sections()[0].space.empty()); // combinations that the faulty clause was to exclude are unknown
    CHECK(Tuned("{heuristics: {block: min(1024 nn)}}").problems().size() == 1);
    CHECK(Tuned("{heuristics: {block: vectr}}").problems().size() == 1);
    CHECK(Tuned("{dtypes: f65, configs: [{block: 8}]}").problems().size() == 1);
    CHECK(Tuned("{dtypes: 'f32,f32,f32', configs: [{block: 8}]}").problems() ==
          Texts{"acme.tune.yaml:4:14: dtypes 'f32,f32,f32': the op has 2 dtype variables"});
    CHECK(Tuned("{architectures: [+sm], configs: [{block: 8}]}").problems().size() == 1);
    CHECK(Tuned("{key: {m: exact}, configs: [{block: 8}]}").problems() ==
          Texts{"acme.tune.yaml:4:12: key: the op has no 'm'; did you mean 'n'?"});
}

TEST_CASE("a choice is spelled by its name, in tune files and in the database") {
    TuneFile file = file_of("{configs: [{pipeline: cpasync}, {pipeline: cpasnc}, {pipeline: 1}, {block: big}], "
                            "where: pipeline > 0}",
                            "cut");
    Acme implementation("cut(input: f32[n]) -> (output: f32[n])");
    implementation.knobs.erase(implementation.knobs.begin() + 1, implementation.knobs.end());
    implementation.knobs.push_back({"pipeline", "", OPDOCK_KNOB_CHOICE, 0, 2, 0, {"none", "cpasync", "tma"}});
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    Texts problems;
    for (const TuneProblem &problem : tuning.problems()) {
        problems.push_back(problem.message);
    }
    CHECK(problems == Texts{"knob 'pipeline' is 'cpasnc'; expected 'none', 'cpasync' or 'tma'; did you mean 'cpasync'?",
                            "knob 'pipeline' is '1'; expected 'none', 'cpasync' or 'tma'",
                            "knob 'block': expected an integer, true or false, found 'big'"});
    const std::vector<TuneConfig> candidates =
        tuning.candidates(tuning.sections().at(0), std::vector<double>(tuning.variables().names().size()));
    REQUIRE(candidates == std::vector<TuneConfig>{{64, 1}});
    CHECK(config_text(implementation.knobs, candidates[0]) == "block=64 pipeline=cpasync");
    CHECK(parse_config(implementation.knobs, "block=64 pipeline=cpasync") == candidates[0]);
    CHECK_FALSE(parse_config(implementation.knobs, "block=64 pipeline=1"));
    CHECK_FALSE(parse_config(implementation.knobs, "block=64 pipeline=cp"));
}

TEST_CASE("a choice whose range leaves some out at both ends is one of those within it") {
    TuneFile file =
        file_of("{configs: [{pipeline: none}, {pipeline: cpasync}, {pipeline: tma}, {pipeline: all}]}", "cut");
    Acme implementation("cut(input: f32[n]) -> (output: f32[n])");
    implementation.knobs = {{"pipeline", "", OPDOCK_KNOB_CHOICE, 1, 2, 1, {"none", "cpasync", "tma", "all"}}};
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    Texts problems;
    for (const TuneProblem &problem : tuning.problems()) {
        problems.push_back(problem.message);
    }
    CHECK(problems == Texts{"knob 'pipeline' is 'none'; expected 'cpasync' or 'tma'",
                            "knob 'pipeline' is 'all'; expected 'cpasync' or 'tma'"});
    CHECK(tuning.candidates(tuning.sections().at(0), std::vector<double>(tuning.variables().names().size())) ==
          std::vector<TuneConfig>{{1}, {2}});
    CHECK(parse_config(implementation.knobs, "pipeline=tma") == TuneConfig{2});
    CHECK_FALSE(parse_config(implementation.knobs, "pipeline=none"));
    CHECK_FALSE(parse_config(implementation.knobs, "pipeline=all"));
}

TEST_CASE("a config has values from the first to the last of each range") {
    const Acme implementation(norm);
    for (const char *text :
         {"block=1 vector=1 stream=0", "block=1024 vector=16 stream=1", "stream=true vector=16 block=1024"}) {
        CAPTURE(text);
        CHECK(parse_config(implementation.knobs, text).has_value());
    }
    for (const char *text :
         {"block=0 vector=1 stream=0", "block=1025 vector=1 stream=0", "block=1 vector=17 stream=0",
          "block=1 vector=1 stream=-1", "=1 block=1 vector=1 stream=0", "block= vector=1 stream=0"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_config(implementation.knobs, text).has_value());
    }
    CHECK(Tuned("{configs: [{block: 1}, {block: 1024}]}").problems().empty());
    CHECK(Tuned("{configs: [{block: 0}, {block: 1025}]}").problems().size() == 2);
    CHECK(Tuned("{heuristics: {block: n}}").problems().empty());
    const Tuned tuned("{heuristics: {block: n}}");
    std::string why;
    const auto is_chosen = [&](double n) {
        return tuned.tuning.heuristic(tuned.tuning.sections().at(0), tuned.values(n, 1), &why).has_value();
    };
    CHECK(is_chosen(1));
    CHECK(is_chosen(1024));
    CHECK(is_chosen(1024.9)); // rounded down
    CHECK_FALSE(is_chosen(0));
    CHECK_FALSE(is_chosen(0.9));
    CHECK_FALSE(is_chosen(1025));
}

TEST_CASE("one dtype of a section is that of all variables, a dash is none, and space makes no difference") {
    const auto is_for = [](const std::string &dtypes, uint32_t t, uint32_t u) {
        const Tuned tuned("{dtypes: " + dtypes + ", configs: [{block: 8}]}");
        REQUIRE(tuned.problems().empty());
        return tuned.tuning.sections().at(0).is_for(std::vector<uint32_t>{t, u}, {}, true);
    };
    CHECK(is_for("f16", OPDOCK_F16, OPDOCK_F16));
    CHECK_FALSE(is_for("f16", OPDOCK_F16, OPDOCK_F32));
    CHECK(is_for("' f16 , f32 '", OPDOCK_F16, OPDOCK_F32));
    CHECK(is_for("'f16,-'", OPDOCK_F16, 0));
    CHECK_FALSE(is_for("'f16,-'", OPDOCK_F16, OPDOCK_F16));
    CHECK(Tuned("{dtypes: 'f16,', configs: [{block: 8}]}").problems().size() == 1);
    CHECK(Tuned("{dtypes: '', configs: [{block: 8}]}").problems().size() == 1);
    TuneFile file = file_of("{dtypes: f16, configs: [{block: 8}]}", "cut");
    const Acme without("cut(input: f32[n]) -> (output: f32[n])"); // any dtype variable
    REQUIRE(tuning_of(without, &file).problems().size() == 1);
    CHECK(tuning_of(without, &file).problems()[0].message == "dtypes 'f16': the op has 0 dtype variables");
}

TEST_CASE("keys bucket the call, and pinned entries are found by them") {
    const Tuned tuned(
        "{key: {n: multiple of 100, rows: log2}, pinned: [{key: {n: 101, rows: 3}, config: {block: 8}}]}");
    CHECK(tuned.problems().empty());
    const ImplementationSection &section = tuned.tuning.sections().at(0);
    const auto key = [&](double n, double rows) {
        return section.key.of(tuned.tuning.variables(), tuned.values(n, rows));
    };
    CHECK(key(150, 3) == "n=200 rows=4");
    CHECK(key(200, 4) == "n=200 rows=4");
    CHECK(key(201, 5) == "n=300 rows=8");
    CHECK(key(0, 0) == "n=0 rows=0");
    CHECK(section.pinned.contains("n=200 rows=4"));

    const Tuned by_default("pinned: [{key: {n: 4096, rows: 1}, config: {block: 8}}]");
    CHECK(by_default.tuning.sections().at(0).pinned.contains("n=4096 rows=1"));

    TuneFile file = file_of("pinned: [{key: {n: 3, has_bias: 1, has_mean: 0}, config: {block: 8}}]", "cut");
    const Acme optional("cut(input: f32[n], bias: f32[n]?) -> (output: f32[n], mean: f32[1]?)");
    const ImplementationTuning with_optionals = tuning_of(optional, &file);
    CHECK(with_optionals.problems().empty());
    CHECK(with_optionals.sections().at(0).pinned.contains("n=4 has_bias=1 has_mean=0"));

    CHECK(Tuned("pinned: [{key: {n: 1}, config: {block: 8}}]").problems() ==
          Texts{"acme.tune.yaml:4:14: the key lacks 'rows'; the key of this section is n: log2, rows: log2"});
    CHECK(Tuned("{key: {n: exact}, pinned: [{key: {rows: 1}, config: {block: 8}}]}").problems().size() == 1);
    CHECK(Tuned("{key: {n: exact}, pinned: [{key: {n: -1}, config: {block: 8}}]}").problems().size() == 1);
    CHECK(Tuned("{key: {n: exact}, pinned: [{key: {n: 0}, config: {block: 8}}]}").problems().empty());
    CHECK(Tuned("{key: {n: exact}, pinned: [{key: {n: 1}, config: {block: 8}}, {key: {n: 1}, config: {block: 9}}]}")
              .problems()
              .size() == 1);
}

TEST_CASE("a negative attribute has a key of its own, which a pinned entry may spell") {
    TuneFile file =
        file_of("{key: {window: exact, n: log2}, pinned: [{key: {window: -1, n: 3}, config: {block: 8}}]}", "cut");
    const Acme implementation("cut(input: f32[n], *, window: int = 0) -> (output: f32[n])");
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    CHECK(tuning.problems().empty());
    const ImplementationSection &section = tuning.sections().at(0);
    const auto key = [&](double window) {
        std::vector<double> values(tuning.variables().names().size());
        values[*tuning.variables().find("window")] = window;
        return section.key.of(tuning.variables(), values);
    };
    CHECK(key(-1) == "window=-1 n=0");
    CHECK(key(0) == "window=0 n=0");
    CHECK(key(0x1p63) == "window=9007199254740992 n=0");
    CHECK(section.pinned.contains("window=-1 n=4"));
}

TEST_CASE("heuristics are computed from the call and stay within the range") {
    const Tuned tuned("{heuristics: {block: n / 3, vector: 'rows > 4 ? 2 : 4'}}");
    REQUIRE(tuned.problems().empty());
    std::string why;
    const auto chosen = [&](double n, double rows) {
        const auto config = tuned.tuning.heuristic(tuned.tuning.sections().at(0), tuned.values(n, rows), &why);
        return config ? config_text(tuned.implementation.knobs, *config) : "none";
    };
    CHECK(chosen(100, 5) == "block=33 vector=2 stream=0");
    CHECK(chosen(99, 1) == "block=33 vector=4 stream=0");
    CHECK(why.empty());
    CHECK(chosen(1'000'000, 1) == "none");
    CHECK(why == "the expression of knob 'block' is 333333.3333333333, outside its range 1 to 1024");
}

TEST_CASE("a heuristic names knobs, and sees what their heuristics give, whatever order the file has") {
    const Tuned tuned("{heuristics: {stream: 'vector * block >= n', vector: 'max(1, 64 / block, 2)', block: 'n / 3'}}");
    REQUIRE(tuned.problems().empty());
    std::string why;
    const auto chosen = [&](double n) {
        const auto config = tuned.tuning.heuristic(tuned.tuning.sections().at(0), tuned.values(n, 1), &why);
        return config ? config_text(tuned.implementation.knobs, *config) : why;
    };
    CHECK(chosen(25) == "block=8 vector=8 stream=1"); // rounded down before other expressions use it
    CHECK(chosen(300) == "block=100 vector=2 stream=0");
    CHECK(chosen(3) == "the expression of knob 'vector' is 64, outside its range 1 to 16");

    const Tuned of_default("{heuristics: {vector: block / 8}}"); // of a knob without a heuristic
    const auto config = of_default.tuning.heuristic(of_default.tuning.sections().at(0), of_default.values(1, 1), &why);
    REQUIRE(config);
    CHECK(config_text(of_default.implementation.knobs, *config) == "block=64 vector=8 stream=0");
}

TEST_CASE("in a heuristic a variable wins over a knob of its name") {
    TuneFile file = file_of("{heuristics: {block: 2 * block}}", "cut");
    const Acme implementation("cut(input: f32[block]) -> (output: f32[block])");
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    CHECK(tuning.problems().empty());
    std::vector<double> values(tuning.variables().names().size());
    values[*tuning.variables().find("block")] = 5;
    std::string why;
    CHECK(tuning.heuristic(tuning.sections().at(0), values, &why).value().at(0) == 10);
}

TEST_CASE("heuristics that name each other in a circle are told with their place, and left out") {
    const Tuned tuned("{heuristics: {block: vector + n, vector: '1 + block', stream: 'block > 60'}}");
    CHECK(tuned.problems() ==
          Texts{"acme.tune.yaml:4:26: heuristics refer to each other in a cycle: block -> vector -> block"});
    std::string why;
    const auto config = tuned.tuning.heuristic(tuned.tuning.sections().at(0), tuned.values(9, 1), &why);
    REQUIRE(config);
    CHECK(config_text(tuned.implementation.knobs, *config) == "block=64 vector=1 stream=1");
    CHECK(Tuned("{heuristics: {vector: 2 * vector}}").problems() ==
          Texts{"acme.tune.yaml:4:27: heuristics refer to each other in a cycle: vector -> vector"});
}

TEST_CASE("a heuristic stays within a range that ends where doubles skip integers") {
    TuneFile file = file_of("{heuristics: {block: n}}", "cut");
    Acme implementation("cut(input: f32[n]) -> (output: f32[n])");
    implementation.knobs[0].minimum = (int64_t{1} << 53) + 1;
    implementation.knobs[0].maximum = std::numeric_limits<int64_t>::max();
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    std::string why;
    for (const double n : {0x1p53, 0x1p63}) {
        std::vector<double> values(tuning.variables().names().size());
        values[*tuning.variables().find("n")] = n;
        CHECK_FALSE(tuning.heuristic(tuning.sections().at(0), values, &why));
    }
}

TEST_CASE("what an expression gives beyond 64 bits is no value of a knob, whatever its range") {
    TuneFile file = file_of("{heuristics: {block: n}}", "cut");
    Acme implementation("cut(input: f32[n]) -> (output: f32[n])");
    implementation.knobs[0].minimum = std::numeric_limits<int64_t>::min();
    implementation.knobs[0].maximum = std::numeric_limits<int64_t>::max();
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    const auto chosen = [&](double n) {
        std::vector<double> values(tuning.variables().names().size());
        values[*tuning.variables().find("n")] = n;
        std::string why;
        const std::optional<TuneConfig> config = tuning.heuristic(tuning.sections().at(0), values, &why);
        return config ? std::to_string(config->at(0)) : why;
    };
    for (const double n : {1e30, -1e30, 0x1p63, -0x1.0000000000001p63}) {
        CAPTURE(n);
        CHECK(chosen(n).ends_with("outside its range -9223372036854775808 to 9223372036854775807"));
    }
    CHECK(chosen(-0x1p63) == "-9223372036854775808");
    CHECK(chosen(0x1.fffffffffffffp62) == "9223372036854774784");
    CHECK(chosen(-1.5) == "-2");
}

TEST_CASE("the space is named by knobs, key and candidates, and by nothing else") {
    const std::string one = space("{configs: [{block: 8}]}");
    CHECK(one.size() == 16);
    CHECK(one == space("{configs: [{block: 8, vector: 1}]}")); // the same config
    CHECK(one == space("{configs: [{block: 8}], heuristics: {block: n}, pinned: []}"));
    CHECK(one != space("{configs: [{block: 16}]}"));
    CHECK(one != space("{configs: [{block: 8}], key: {n: exact}}"));
    CHECK(one != space("{configs: [{block: 8}], where: n > 0}"));
    CHECK(one != space("{product: {block: 8}}"));
    TuneFile file = file_of("{configs: [{block: 8}]}");
    Acme wider(norm);
    wider.knobs[0].maximum = 2048;
    CHECK(tuning_of(wider, &file).sections().at(0).space != one);
}

TEST_CASE("a product without a good value for one of its knobs is no product") {
    const Tuned tuned("{product: {block: [8], vector: [99]}}");
    CHECK(tuned.problems().size() == 1);
    CHECK(tuned.candidates().empty());
    CHECK(tuned.tuning.sections().at(0).space.empty());
}

TEST_CASE("a config for which where has no value is kept out") {
    const Tuned tuned("{configs: [{block: 8}, {block: 16}], where: block % n}");
    CHECK(tuned.problems().empty());
    CHECK(tuned.candidates(3).size() == 2);
    CHECK(tuned.candidates(0).empty());
}

TEST_CASE("a section takes its share of what a plugin's configs may come to, and is left out where there is less") {
    // Each config counts three knobs, and there is one more for choices without any. A list entry counts eight more,
    // a pinned config forty.
    const auto taken = [](const std::string &body) {
        const TuneFile file = file_of(body);
        REQUIRE(file.problems.empty());
        const Acme implementation(norm);
        size_t left = 100'000;
        const ImplementationTuning tuning(implementation, &file, left);
        CHECK(tuning.sections().size() == 1);
        const size_t values = 100'000 - left;
        left = values;
        CHECK(ImplementationTuning(implementation, &file, left).sections().size() == 1);
        CHECK(left == 0);
        left = values - 1;
        const ImplementationTuning without(implementation, &file, left);
        CHECK(without.sections().empty());
        CHECK(without.no_room().has_value());
        CHECK(left == values - 1);
        return values;
    };
    CHECK(taken("{heuristics: {}}") == 3);
    CHECK(taken("{devices: A, heuristics: {}}") == 3 + 8);
    CHECK(taken("{architectures: [sm_90, sm_80+], devices: [A, B, C], dtypes: ['f32,f32'], heuristics: {}}") ==
          3 + 6 * 8);
    CHECK(taken("{configs: [{block: 8}, {block: 16}]}") == 3 * 3 + 2 * 8);
    CHECK(taken("{product: {block: [8, 16], vector: [1, 2, 4]}}") == 3 * 7);
    CHECK(taken("{product: {block: 8}, configs: [{block: 8}], pinned: [{key: {n: 1, rows: 1}, config: {block: 8}}]}") ==
          3 * 4 + 8 + 40);
    // An expression counts 64, plus one for each name that it may use: the variables and the knobs.
    const Acme implementation(norm);
    const size_t names = tuning_of(implementation, nullptr).variables().names().size() + 3;
    CHECK(taken("{heuristics: {block: n, vector: 1}}") == 3 + 2 * (64 + names));
}

TEST_CASE("a section is for the devices, architectures and dtypes that it names") {
    const Tuned tuned(
        "{architectures: [fk_10, fk_20+], devices: [Fake], dtypes: ['f16,f32', f32], configs: [{block: 8}]}");
    REQUIRE(tuned.problems().empty());
    const ImplementationSection &section = tuned.tuning.sections().at(0);
    const auto is_for = [&](uint32_t t, uint32_t u, const char *architecture, const char *model) {
        opdock_device_properties device = {};
        std::strcpy(device.architecture, architecture);
        std::strcpy(device.name, model);
        return section.is_for(std::vector<uint32_t>{t, u}, device, true);
    };
    CHECK(is_for(OPDOCK_F16, OPDOCK_F32, "fk_10", "Fake"));
    CHECK(is_for(OPDOCK_F32, OPDOCK_F32, "fk_30", "Fake"));
    CHECK_FALSE(is_for(OPDOCK_F16, OPDOCK_F16, "fk_10", "Fake"));
    CHECK_FALSE(is_for(OPDOCK_F32, OPDOCK_F32, "fk_15", "Fake"));
    CHECK_FALSE(is_for(OPDOCK_F32, OPDOCK_F32, "fk_10", "Fake 2"));
    CHECK_FALSE(is_for(OPDOCK_F32, OPDOCK_F32, "fk_10", "Abacus"));
}

TEST_CASE("configs are spelled and read back") {
    const Acme implementation(norm);
    const TuneConfig config = {128, 4, 1};
    CHECK(parse_config(implementation.knobs, config_text(implementation.knobs, config)) == config);
    for (const char *text : {"", "block=1 vector=1", "block=1 vector=1 stream=2", "block=1 vector=1 stream=1 stream=1",
                             "block=x vector=1 stream=1", "block 1 vector=1 stream=1", "blok=1 vector=1 stream=1"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_config(implementation.knobs, text));
    }
}

// --- a plugin's file
// --------------------------------------------------------------------------------------------------

TEST_CASE("the tune file lies beside the plugin, under its name without lib") {
    CHECK(tune_file_beside("/opt/acme/libacme.so") == "/opt/acme/acme.tune.yaml");
    CHECK(tune_file_beside("/opt/acme/acme.so") == "/opt/acme/acme.tune.yaml");
    CHECK(tune_file_beside("/opt/acme/libacme.so.2") == "/opt/acme/acme.tune.yaml");
}

TEST_CASE("what is wrong for one implementation and right for another of the op is not wrong") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("acme.tune.yaml", R"(schema: opdock.tune/1
ops:
  norm:
    - configs: [{block: 8}, {only: 1}, {neither: 1}]
    - impl: vendor.acm
      configs: [{block: 8}]
  nrom: {}
)");
    Acme first(norm);
    Acme second(norm, "vendor.other");
    second.knobs.push_back({"only", "", OPDOCK_KNOB_INT, 0, 4, 0, {}});
    const PluginTuning plugin(path, false, {&first, &second});
    REQUIRE(plugin.problems().size() == 3);
    CHECK(plugin.problems()[0] == path + ":4:41: 'vendor.acme' has no knob 'neither'");
    CHECK(plugin.problems()[1].ends_with(":5:13: unknown implementation 'vendor.acm'; did you mean 'vendor.acme'?"));
    CHECK(plugin.problems()[2].find(":7:3: unknown op 'nrom'; did you mean 'norm'?") != std::string::npos);
    CHECK(plugin.of(first)->sections().size() == 1);
    CHECK(plugin.of(first)->sections()[0].configs.size() == 1);
    CHECK(plugin.of(second)->sections()[0].configs.size() == 2);
}

// Both sections have the faulty name at the same place in the file, for two implementations each.
TEST_CASE("what aliases share is judged for each section") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("acme.tune.yaml", R"(schema: opdock.tune/1
ops:
  norm:
    - dtypes: 'f32,f32'
      configs: &both [{block: 8}, {only: 1}]
    - dtypes: 'f16,f16'
      configs: *both
)");
    Acme first(norm);
    Acme second(norm, "vendor.other");
    second.knobs.push_back({"only", "", OPDOCK_KNOB_INT, 0, 4, 0, {}});
    const PluginTuning plugin(path, false, {&first, &second});
    CHECK(plugin.problems().empty());
    REQUIRE(plugin.of(second)->sections().size() == 2);
    CHECK(plugin.of(second)->sections()[1].configs.size() == 2);
}

TEST_CASE("what aliases share within a section is wrong once for each implementation") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("acme.tune.yaml", R"(schema: opdock.tune/1
ops:
  norm: {configs: [&one {only: 1}, *one, &none {neither: 1}, *none]}
)");
    Acme first(norm);
    Acme second(norm, "vendor.other");
    const std::string neither = path + ":3:49: 'vendor.acme' has no knob 'neither'";
    CHECK(PluginTuning(path, false, {&first}).problems() ==
          Texts{path + ":3:26: 'vendor.acme' has no knob 'only'", neither});
    second.knobs.push_back({"only", "", OPDOCK_KNOB_INT, 0, 4, 0, {}});
    CHECK(PluginTuning(path, false, {&first, &second}).problems() == Texts{neither});
}

TEST_CASE("a section of '*' is for every op whose implementation has its knobs, after the op's own sections") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("acme.tune.yaml", R"(schema: opdock.tune/1
ops:
  '*':
    - product: {block: [8, 16], only: [1]}
    - heuristics: {vector: 'n'}
      configs: [{block: 32}]
  norm:
    pinned: [{key: {n: 8, rows: 8}, config: {block: 64}}]
)");
    const Acme own(norm);
    Acme other("other(input: T[..., n]) -> (output: T[..., n]) where T in f32", "vendor.other");
    other.knobs.push_back({"only", "", OPDOCK_KNOB_INT, 0, 4, 0, {}});
    const PluginTuning plugin(path, false, {&own, &other});
    CHECK(plugin.problems().empty());
    const std::vector<ImplementationSection> &of_own = plugin.of(own)->sections();
    REQUIRE(of_own.size() == 2);
    CHECK(of_own[0].pinned.size() == 1);
    CHECK(of_own[1].line == 5);
    CHECK(of_own[1].configs.size() == 1);
    CHECK(of_own[1].heuristics.size() == 1);
    const std::vector<ImplementationSection> &of_other = plugin.of(other)->sections();
    REQUIRE(of_other.size() == 2);
    CHECK(of_other[0].product.size() == 2);
    CHECK(of_other[1].line == 5);
}

TEST_CASE("a section of '*' that is for none is a problem, and so is what is wrong with it everywhere") {
    const TemporaryDirectory directory;
    const std::string path = directory.write("acme.tune.yaml", R"(schema: opdock.tune/1
ops:
  '*':
    - product: {blok: [8, 16]}
    - configs: [{stream: 1, vectr: 2}]
    - pinned: [{key: {n: 8, rows: 8}, config: {vectr: 2}}]
    - heuristics: {vectr: 'n'}
    - impl: vendor.acm
    - configs: [{block: 8}, {block: 2048}]
)");
    const Acme first(norm);
    const Acme second("other(input: T[..., n]) -> (output: T[..., n]) where T in f32", "vendor.other");
    const std::string none = "no implementation of the plugin has all knobs of this section";
    CHECK(PluginTuning(path, false, {&first, &second}).problems() ==
          Texts{path + ":4:7: " + none, path + ":5:7: " + none, path + ":6:7: " + none, path + ":7:7: " + none,
                path + ":8:13: unknown implementation 'vendor.acm'; did you mean 'vendor.acme'?",
                path + ":9:37: knob 'block' is 2048, outside its range 1 to 1024"});
}

TEST_CASE("of a plugin without implementations it is said once that its tune file is for none") {
    const TemporaryDirectory directory;
    const std::string path =
        directory.write("acme.tune.yaml", "schema: opdock.tune/1\nops:\n  norm: {}\n  gelu: {}\n  relu: {}\n");
    CHECK(PluginTuning(path, false, {}).problems() ==
          Texts{path + ":3:3: no implementation of the plugin is in use, so neither this entry nor any other applies"});
    const std::string empty = directory.write("empty.tune.yaml", "schema: opdock.tune/1\nops: {}\n");
    CHECK(PluginTuning(empty, false, {}).problems().empty());
}

TEST_CASE("a file that is not there is a problem only for who named it") {
    const Acme implementation(norm);
    CHECK(PluginTuning("/nonexistent/acme.tune.yaml", false, {&implementation}).problems().empty());
    const PluginTuning named("/nonexistent/acme.tune.yaml", true, {&implementation});
    CHECK(named.problems().size() == 1);
    CHECK(named.of(implementation)->sections().empty());
}

namespace {

// The configs from an *_expand.yaml with these lists, for a kernel with these knobs, each from 0 to 4096.
std::vector<std::string> expanded(const std::string &op, const std::string &lists,
                                  const std::vector<std::string> &knobs) {
    const TuneFile file = parse_tune_file(op + ":\n  - config:\n" + lists, "mm_acme_expand.yaml");
    Acme implementation(op + "(a: T[m, k], b: T[k, n]) -> (out: T[m, n]) where T in f32");
    implementation.knobs.clear();
    for (const std::string &name : knobs) {
        implementation.knobs.push_back({name, "", OPDOCK_KNOB_INT, 0, 4096, 0, {}});
        if (name == "scenario") {
            implementation.knobs.back() = {name, "", OPDOCK_KNOB_CHOICE, 0, 1, 0, {"unroll", ""}};
        }
    }
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    REQUIRE(file.problems.empty());
    REQUIRE(tuning.problems().empty());
    std::vector<std::string> texts;
    const std::vector<double> values(tuning.variables().names().size());
    for (const TuneConfig &config : tuning.candidates(tuning.sections().at(0), values)) {
        texts.push_back(config_text(implementation.knobs, config));
    }
    return texts;
}

} // namespace

// A config is named after the knobs of FlagGems' kernels, which differ from the names in the file.
TEST_CASE("configs of FlagGems' matrix products are built as it builds them") {
    const std::string sizes = "    param_map: {META: {BLOCK_M: bm}}\n    bm: [16, 32, 64]\n";
    CHECK(expanded("bmm", sizes, {"TILE_M", "GROUP_M"}) ==
          Texts{"TILE_M=16 GROUP_M=2", "TILE_M=32 GROUP_M=1", "TILE_M=64 GROUP_M=2"});
    CHECK(expanded("baddbmm", sizes, {"TILE_M", "GROUP_M"}) ==
          Texts{"TILE_M=16 GROUP_M=1", "TILE_M=32 GROUP_M=1", "TILE_M=64 GROUP_M=2"});
    CHECK(expanded("addmm", sizes, {"BLOCK_SIZE_M"}) == Texts{"BLOCK_SIZE_M=16", "BLOCK_SIZE_M=32", "BLOCK_SIZE_M=64"});
    CHECK(expanded("addmm_sqmma", "    param_map: {META: {BLOCK_SIZE_M: bm}}\n    bm: [16]\n", {"BLOCK_SIZE_M"}) ==
          Texts{"BLOCK_SIZE_M=16"});
    CHECK(expanded("mm", sizes, {"BLOCK_M"}) == Texts{"BLOCK_M=16", "BLOCK_M=32", "BLOCK_M=64"});
    CHECK(expanded("mm_general_tma", "    param_map: {META: {BLOCK_M: bm}}\n    bm: [16]\n", {"BLOCK_M", "GROUP_M"}) ==
          Texts{"BLOCK_M=16 GROUP_M=8"});
    CHECK(expanded("mm_sqmma", "    param_map: {META: {BLOCK_M: bm}}\n    bm: [16]\n", {"BLOCK_M", "GROUP_M"}) ==
          Texts{"BLOCK_M=16 GROUP_M=8"});
    CHECK(expanded("bmm", "    param_map: {META: {BLOCK_SIZE_M: bm}}\n    bm: [32]\n", {"TILE_M", "GROUP_M"}) ==
          Texts{"TILE_M=32 GROUP_M=1"});
    CHECK(expanded("mm_general_tma", "    param_map: {META: {GROUP_M: gm}}\n    gm: [1, 4]\n", {"GROUP_M"}) ==
          Texts{"GROUP_M=1", "GROUP_M=4"});
    CHECK(expanded("mm_nn", "    param_map: {META: {BLOCK_M: bm}}\n    bm: [16]\n", {"BLOCK_M", "scenario"}) ==
          Texts{"BLOCK_M=16 scenario="});
    CHECK(expanded("mm_nt", "    param_map: {META: {scenario: s}}\n    s: ['', unroll]\n", {"scenario"}) ==
          Texts{"scenario=", "scenario=unroll"});
    CHECK(expanded("compute_global_topk_indices_and_lens",
                   "    param_map: {META: {BLOCK: b, TPP: t}}\n    b: [256, 512, 1024]\n    t: [1, 2, 4]\n",
                   {"BLOCK", "TPP"}) == Texts{"BLOCK=256 TPP=1", "BLOCK=256 TPP=2", "BLOCK=256 TPP=4",
                                              "BLOCK=512 TPP=1", "BLOCK=512 TPP=2", "BLOCK=1024 TPP=1"});
}

TEST_CASE("launch options that FlagGems assumes are dropped where the kernel has no such knob") {
    const TuneFile file = parse_tune_file("norm:\n  - META: {block: 8}\n    num_warps: 8\n", "tune_configs.yaml");
    const Acme implementation(norm);
    const ImplementationTuning tuning = tuning_of(implementation, &file);
    REQUIRE(tuning.problems().size() == 1); // num_warps was written in the file; num_stages and num_ctas were not
    CHECK(tuning.problems()[0].message.find("num_warps") != std::string::npos);
    const TuneFile bare = parse_tune_file("norm:\n  - META: {block: 8}\n", "tune_configs.yaml");
    CHECK(tuning_of(implementation, &bare).problems().empty());
    const TuneFile converted = parse_tune_file(print_tune_file(bare), "acme.tune.yaml");
    CHECK(tuning_of(implementation, &converted).problems().empty());
}

TEST_CASE("what a section assumes is there in its configs, its product and what it pins, unless they say otherwise") {
    const Tuned tuned("{assume: {vector: 4, warps: 8}, configs: [{block: 8}, {vector: 2}], product: {block: [16]}, "
                      "key: {n: exact}, pinned: [{key: {n: 5}, config: {block: 5}}]}");
    CHECK(tuned.problems().empty());
    CHECK(tuned.candidates() ==
          Texts{"block=8 vector=4 stream=0", "block=64 vector=2 stream=0", "block=16 vector=4 stream=0"});
    CHECK(tuned.tuning.sections().at(0).pinned.at("n=5").config == TuneConfig{5, 4, 0});
    CHECK(space("{assume: {vector: 4}, product: {block: [8]}}") != space("{product: {block: [8]}}"));
    CHECK(Tuned("{assume: {vector: 99}}").problems().size() == 1);
}

// --- variables -----------------------------------------------------------------------------------------------------

TEST_CASE("variables are read from shapes, attributes, dtypes and the device") {
    const Signature form = parse_signature(
        "op(x: T[a, ..., 2*b], y: U[b]?, list: T[c]*, again: T[c]*, *, eps: float = 0.5, flag: bool = "
        "true, has_more: int = 7, name: string = \"\") -> (out: T[a], more: T[a]?) where T in f32|f16, U in f32|f16");
    const TuneVariables variables(form);
    int64_t x_shape[] = {3, 5, 7, 8};
    int64_t first_shape[] = {10};
    int64_t second_shape[] = {20};
    int64_t out_shape[] = {3};
    const auto tensor = [](int64_t *shape, int32_t rank, uint32_t dtype) {
        DLTensor made = {};
        made.shape = shape;
        made.ndim = rank;
        made.dtype = opdock_dtype_unpack(dtype);
        return made;
    };
    const DLTensor x = tensor(x_shape, 4, OPDOCK_F16);
    const DLTensor first = tensor(first_shape, 1, OPDOCK_F16);
    const DLTensor second = tensor(second_shape, 1, OPDOCK_F16);
    const DLTensor out = tensor(out_shape, 1, OPDOCK_F16);
    const DLTensor *tensors[] = {&x, nullptr, &first, &second, &first, &second, &out, &out};
    const uint32_t starts[] = {0, 1, 2, 4, 6, 7, 8};
    opdock_value attributes[4] = {};
    attributes[0].type = OPDOCK_VALUE_FLOAT;
    attributes[0].as.f = 0.25;
    attributes[1].type = OPDOCK_VALUE_BOOL;
    attributes[1].as.i = 1;
    attributes[2].type = OPDOCK_VALUE_INT;
    attributes[2].as.i = 9;
    opdock_problem problem = {};
    problem.n_inputs = 4;
    problem.n_outputs = 2;
    problem.n_tensors = 8;
    problem.tensors = tensors;
    problem.tensor_offsets = starts;
    problem.attributes = attributes;
    opdock_device_properties device = {};
    device.compute_units = 132;

    const std::vector<uint32_t> dtypes = dtypes_of(form, problem);
    CHECK(dtypes == std::vector<uint32_t>{OPDOCK_F16, 0});
    CHECK(tuple_text(dtypes) == "f16,-");
    const std::vector<double> values = variables.values(problem, dtypes, device);
    REQUIRE(values.size() == variables.names().size());
    const auto value = [&](const char *name) {
        const auto index = variables.find(name);
        REQUIRE(index);
        return values[*index];
    };
    CHECK(value("a") == 3);
    CHECK(value("b") == 4);  // from 2*b: y is absent
    CHECK(value("c") == 30); // from the first list
    CHECK(value("rows") == 35);
    CHECK(value("eps") == 0.25);
    CHECK(value("flag") == 1);
    CHECK(value("has_y") == 0);
    CHECK(value("has_more") == 9); // the attribute
    CHECK(value("sizeof_T") == 2);
    CHECK(value("sizeof_U") == 0);
    CHECK(value("device_compute_units") == 132);
    CHECK_FALSE(variables.find("name"));
    tensors[1] = &first;
    CHECK(variables.values(problem, dtypes, device)[*variables.find("has_y")] == 1);
    tensors[1] = nullptr;
    CHECK(dim_of(form, problem, "rows") == 35);
    CHECK_FALSE(dim_of(form, problem, "d"));
}

TEST_CASE("variables are the dims, rows, what is optional, numbers, dtypes and the device, in that order") {
    const auto names = [](const char *signature) { return TuneVariables(parse_signature(signature)).names(); };
    const Texts device = {"device_memory", "device_compute_units", "device_warp_size", "device_shared_memory",
                          "device_cache"};
    Texts expected = {"n", "m", "rows", "has_x", "has_aux", "k", "e", "b", "sizeof_T"};
    expected.insert(expected.end(), device.begin(), device.end());
    CHECK(names("op(x: T[n]?, y: T[n, m], *, k: int, e: float = 1.0, b: bool = true, s: string = \"\", o: int?) -> "
                "(out: T[n], aux: T[n]?)") == expected);
}

TEST_CASE("where no axes are left open there is one row") {
    const Signature named = parse_signature("op(x: T[m, rows]) -> (out: T[m])");
    const std::vector<std::string> names = TuneVariables(named).names();
    CHECK(std::count(names.begin(), names.end(), "rows") == 1); // the dim
    const Signature plain = parse_signature("op(x: T[m, n]) -> (out: T[m])");
    const TuneVariables variables(plain);
    int64_t shape[] = {3, 5};
    DLTensor x = {};
    x.shape = shape;
    x.ndim = 2;
    x.dtype = opdock_dtype_unpack(OPDOCK_F32);
    const DLTensor *tensors[] = {&x, &x};
    const opdock_problem problem = problem_of(1, tensors);
    const std::vector<double> values = variables.values(problem, dtypes_of(plain, problem), {});
    REQUIRE(variables.find("rows"));
    CHECK(values.at(*variables.find("rows")) == 1);
    CHECK(values.at(*variables.find("m")) == 3);
    CHECK(dim_of(plain, problem, "rows") == 1);
}

TEST_CASE("rows are those of the first parameter whose axes are left open, whatever comes before it") {
    const Signature form = parse_signature("op(w: T[n], x: T[..., n]) -> (out: T[..., n])");
    int64_t w_shape[] = {4}, x_shape[] = {3, 5, 4};
    DLTensor w = {}, x = {};
    w.shape = w_shape;
    w.ndim = 1;
    x.shape = x_shape;
    x.ndim = 3;
    w.dtype = x.dtype = opdock_dtype_unpack(OPDOCK_F32);
    const DLTensor *tensors[] = {&w, &x, &x};
    const opdock_problem problem = problem_of(2, tensors);
    CHECK(dim_of(form, problem, "rows") == 15);
    CHECK(dim_of(form, problem, "n") == 4);
}

TEST_CASE("a dim is no number that stands before it") {
    const Signature form = parse_signature("op(x: T[2, n]) -> (out: T[n])");
    int64_t shape[] = {2, 5};
    DLTensor x = {};
    x.shape = shape;
    x.ndim = 2;
    x.dtype = opdock_dtype_unpack(OPDOCK_F32);
    const DLTensor *tensors[] = {&x, nullptr};
    const opdock_problem problem = problem_of(1, tensors);
    CHECK(dim_of(form, problem, "n") == 5);
}

TEST_CASE("a dim that an attribute tells has the attribute's value") {
    const Signature form =
        parse_signature("op(x: T[..., n], *, eps: float = 1.0, k: int, j: int = 3) -> (out: T[..., k, j])");
    const TuneVariables variables(form);
    int64_t shape[] = {2, 5};
    int64_t out_shape[] = {2, 7, 4};
    DLTensor x = {}, out = {};
    x.shape = shape;
    x.ndim = 2;
    x.dtype = out.dtype = opdock_dtype_unpack(OPDOCK_F32);
    out.shape = out_shape;
    out.ndim = 3;
    const DLTensor *tensors[] = {&x, &out};
    opdock_value attributes[3] = {};
    attributes[0].type = OPDOCK_VALUE_FLOAT;
    attributes[0].as.f = 0.5;
    attributes[1].type = OPDOCK_VALUE_INT;
    attributes[1].as.i = 7;
    attributes[2].type = OPDOCK_VALUE_INT;
    attributes[2].as.i = 4;
    opdock_problem problem = problem_of(1, tensors, attributes);
    const std::vector<double> values = variables.values(problem, dtypes_of(form, problem), {});
    REQUIRE(values.size() == variables.names().size());
    CHECK(values[*variables.find("n")] == 5);
    CHECK(values[*variables.find("k")] == 7);
    CHECK(values[*variables.find("j")] == 4);
    CHECK(values[*variables.find("rows")] == 2);
    CHECK(values[*variables.find("eps")] == 0.5);
    // Even if no output determines it.
    CHECK(dim_of(form, problem, "k") == 7);
    CHECK(dim_of(form, problem, "n") == 5);
    attributes[1].as.i = 9;
    CHECK(dim_of(form, problem, "k") == 9);
    const Signature first = parse_signature("op(x: T[..., n], *, k: int) -> (out: T[..., k, n])");
    problem.attributes = attributes + 1;
    CHECK(dim_of(first, problem, "k") == 9); // not the output's 7
}

TEST_CASE("each dtype variable is that of the first tensor that bears it, or of an attribute") {
    const Signature form = parse_signature("op(x: T[n], y: U[n], *, to: V) -> (out: V[n], again: T[n]) where T in "
                                           "f32|f16, U in f32|bf16, V in f32|u8");
    int64_t shape[] = {3};
    const auto tensor = [&](uint32_t dtype) {
        DLTensor made = {};
        made.shape = shape;
        made.ndim = 1;
        made.dtype = opdock_dtype_unpack(dtype);
        return made;
    };
    const DLTensor x = tensor(OPDOCK_F16), y = tensor(OPDOCK_BF16), out = tensor(OPDOCK_U8);
    const DLTensor *tensors[] = {&x, &y, nullptr, &x};
    opdock_value attributes[1] = {};
    attributes[0].type = OPDOCK_VALUE_DTYPE;
    attributes[0].as.i = OPDOCK_U8;
    const opdock_problem problem = problem_of(2, tensors, attributes);
    CHECK(dtypes_of(form, problem) == std::vector<uint32_t>{OPDOCK_F16, OPDOCK_BF16, OPDOCK_U8});
    tensors[2] = &out;
    attributes[0].as.i = OPDOCK_F32; // wrong, but the tensor has precedence
    CHECK(dtypes_of(form, problem) == std::vector<uint32_t>{OPDOCK_F16, OPDOCK_BF16, OPDOCK_U8});
}

TEST_CASE("a dtype variable that an attribute alone tells may be the first") {
    const Signature form = parse_signature("op(x: f32[n], *, to: V) -> (out: V[n]?) where V in f32|u8");
    const DLTensor *tensors[] = {nullptr, nullptr};
    opdock_value attributes[1] = {};
    attributes[0].type = OPDOCK_VALUE_DTYPE;
    attributes[0].as.i = OPDOCK_U8;
    const opdock_problem problem = problem_of(1, tensors, attributes);
    CHECK(dtypes_of(form, problem) == std::vector<uint32_t>{OPDOCK_U8});
}

TEST_CASE("what the configs come to is bounded over all knobs and all implementations of a plugin") {
    const TemporaryDirectory directory;
    const auto numbers = [](int count) {
        std::string text = "[0";
        for (int i = 1; i < count; ++i) {
            text += ", " + std::to_string(i);
        }
        return text + "]";
    };
    const std::string file =
        directory
            .write("acme.tune.yaml", "schema: opdock.tune/1\nops:\n  norm: {product: {k0: " + numbers(256) +
                                         ", k1: " + numbers(120) + "}, where: k0 >= 0}\n")
            .string();
    std::deque<Acme> implementations;
    std::vector<const Implementation *> list;
    const auto add = [&](size_t knobs) {
        Acme &made = implementations.emplace_back(norm, "vendor.acme" + std::to_string(implementations.size()));
        made.knobs.clear();
        for (size_t i = 0; i < knobs; ++i) {
            made.knobs.push_back({"k" + std::to_string(i), "", OPDOCK_KNOB_INT, 0, 1000, 0, {}});
        }
        list.push_back(&made);
    };
    SUBCASE("many knobs") {
        add(2000);
        const PluginTuning tuning(file, true, list);
        REQUIRE(tuning.problems().size() == 1);
        CHECK(tuning.problems()[0].ends_with("'vendor.acme0' does not use this section: over all implementations the "
                                             "file has more than 4194304 knob values"));
        CHECK(tuning.of(implementations[0])->sections().empty());
    }
    SUBCASE("many implementations") {
        for (int i = 0; i < 200; ++i) {
            add(2);
        }
        const PluginTuning tuning(file, true, list);
        CHECK(tuning.of(implementations[67])->sections().size() == 1);
        CHECK(tuning.of(implementations[68])->sections().empty()); // 30,720 configs of two knobs each
        CHECK(tuning.of(implementations[199])->sections().empty());
        CHECK(tuning.problems().size() == 1); // reported once
    }
    SUBCASE("lists of what a section is for") {
        std::string text = "schema: opdock.tune/1\nops:\n  norm:\n    architectures: [sm_0";
        for (int i = 1; i < 9000; ++i) {
            text += (i % 100 == 0 ? ",\n      sm_" : ", sm_") + std::to_string(i);
        }
        const std::string lists = directory.write("lists.tune.yaml", text + "]\n").string();
        for (int i = 0; i < 200; ++i) {
            add(1);
        }
        const PluginTuning tuning(lists, true, list);
        CHECK(tuning.of(implementations[57])->sections().size() == 1);
        CHECK(tuning.of(implementations[58])->sections().empty()); // 9,000 texts of eight values each
        CHECK(tuning.problems().size() == 1);
    }
}
