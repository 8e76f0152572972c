// plugin-tune on the cpu plugin, with tune files and a database of the test's own. The winner depends on the machine;
// the tests check what is tried, kept and printed.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;

namespace {

constexpr const char *two_configs = R"(schema: opdock.tune/1
ops:
  rmsnorm_fwd:
    key: {n: log2}
    configs: [{grain_kib: 64}, {grain_kib: 1024, stream: true}]
)";

// A tune file with so many configs for gelu that nobody waits for all of them.
std::string very_many() {
    std::string values = "1";
    for (int i = 2; i <= 1000; ++i) {
        values += ", " + std::to_string(i);
    }
    return std::string(two_configs) + "  gelu:\n    product: {grain_kib: [" + values + "], stream: [0, 1]}\n";
}

const std::vector<std::string> rmsnorm = {"rmsnorm_fwd", "--shape", "input=f32[8,100]", "--shape", "weight=f32[100]",
                                          "--budget",    "60s"}; // far more than needed

std::vector<std::string> rmsnorm_and(const std::vector<std::string> &more) {
    std::vector<std::string> arguments = rmsnorm;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

std::string content(const std::filesystem::path &file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

// A tool that sees a copy of the cpu plugin with this tune file beside it.
class Tuned {
  public:
    explicit Tuned(const std::string &tune_file, const char *program = PLUGIN_TUNE) : tool_(program, {}) {
        std::filesystem::copy(CPU_PLUGIN, folder_.path() / "libcpu.so");
        folder_.write("cpu.tune.yaml", tune_file);
        tool_.with("PLUGIN_MODULES", (folder_.path() / "libcpu.so").string());
        tool_.with("PLUGIN_TUNE_DB", database().string());
        tool_.with("PLUGIN_SCAN_CACHE", "off");
    }

    std::filesystem::path database() const { return folder_.path() / "tune.sqlite"; }
    std::filesystem::path file(const std::string &name, const std::string &text) const {
        return folder_.write(name, text);
    }
    std::string path(const std::string &name) const { return (folder_.path() / name).string(); }
    Tool &tool() { return tool_; }
    Finished run(const std::vector<std::string> &arguments) const { return tool_.run(arguments); }
    json document(const std::vector<std::string> &arguments) const {
        const Finished finished = run(arguments);
        INFO(finished.err);
        REQUIRE(finished.code == 0);
        return json::parse(finished.out);
    }

  private:
    TemporaryDirectory folder_;
    Tool tool_;
};

} // namespace

TEST_CASE("a shape is tuned, kept, and known the next time") {
    const Tuned tune(two_configs);
    const json first = tune.document(rmsnorm_and({"--json"}));
    CHECK(first["schema"] == "opdock.plugin-tune/1");
    CHECK_FALSE(first["interrupted"]);
    REQUIRE(first["shapes"].size() == 1);
    const json &shape = first["shapes"][0];
    CHECK(shape["outcome"] == "tuned");
    CHECK(shape["impl_id"] == "default.cpu");
    CHECK(shape["key"] == "n=128");
    CHECK(shape["inputs"][1] == json({{"name", "weight"}, {"source", "f32[100]"}}));
    CHECK(shape["tried"].size() == 3); // includes the one in force
    CHECK(shape["kept"]);
    CHECK(shape["database"] == tune.database().string());

    const json again = tune.document(rmsnorm_and({"--json"}));
    CHECK(again["shapes"][0]["outcome"] == "known");
    CHECK(again["shapes"][0]["best"]["config"] == shape["best"]["config"]);
    CHECK(tune.document(rmsnorm_and({"--json", "--again"}))["shapes"][0]["outcome"] == "tuned");
}

TEST_CASE("a shape is tuned with the optional outputs that are asked for") {
    const Tuned tune(two_configs);
    const json shape = tune.document(rmsnorm_and({"--output", "rsigma", "--json"}))["shapes"][0];
    CHECK(shape["outcome"] == "tuned");
    CHECK(shape["outputs"] == json{"rsigma"});
    CHECK(contains(tune.run(rmsnorm_and({"--output", "rsigma", "--dry-run"})).out, " weight=f32[100] +rsigma\n"));
    check_error(tune.run(rmsnorm_and({"--output", "rsimga"})), 2, "did you mean 'rsigma'?");
}

TEST_CASE("what is known of a call without an optional output is not taken for one with it, unless the key says so") {
    const Tuned tune(two_configs);
    tune.document(rmsnorm_and({"--json"}));
    CHECK(tune.document(rmsnorm_and({"--output", "rsigma", "--json"}))["shapes"][0]["outcome"] == "known");

    const Tuned by_default("schema: opdock.tune/1\nops:\n  rmsnorm_fwd: {configs: [{grain_kib: 64}]}\n");
    const json without = by_default.document(rmsnorm_and({"--json"}))["shapes"][0];
    CHECK(without["key"] == "n=128 rows=8 has_rsigma=0");
    const json with = by_default.document(rmsnorm_and({"--output", "rsigma", "--json"}))["shapes"][0];
    CHECK(with["outcome"] == "tuned");
    CHECK(with["key"] == "n=128 rows=8 has_rsigma=1");
}

TEST_CASE("the report names both configs and where they are kept, and progress goes to stderr") {
    const Tuned tune(two_configs);
    const Finished finished = tune.run(rmsnorm);
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "rmsnorm_fwd input=f32[8,100] weight=f32[100]\n  default.cpu on "));
    CHECK(contains(finished.out, "  before  grain_kib=256 stream=0  "));
    CHECK(contains(finished.out, "      3 configs in "));
    CHECK(contains(finished.out, "\nKept in " + tune.database().string() + "\n"));
    CHECK(contains(finished.err, "1 of 1: rmsnorm_fwd input=f32[8,100] weight=f32[100]: "));
    CHECK_FALSE(contains(finished.err, "\r"));
}

TEST_CASE("what could not be kept is said before any time is spent, and a dry run does not mind") {
    const Tuned tune(two_configs);
    std::filesystem::create_directory(tune.database());
    const Finished finished = tune.run(rmsnorm);
    check_error(finished, 1, "The result could not be stored: ");
    CHECK(finished.out.empty());
    CHECK(tune.run(rmsnorm_and({"--dry-run"})).code == 0);
}

TEST_CASE("a folder that others may write to is found out once for all shapes") {
    Tuned tune(two_configs);
    const std::filesystem::path folder = tune.path("shared");
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::all);
    tune.tool().with("PLUGIN_TUNE_DB", (folder / "tune.sqlite").string());
    const std::string shapes =
        tune.file("shapes.yaml", "- op: rmsnorm_fwd\n  inputs: {input: \"f32[8,100]\", weight: \"f32[100]\"}\n"
                                 "- op: rmsnorm_fwd\n  inputs: {input: \"f32[8,300]\", weight: \"f32[300]\"}\n")
            .string();
    const Finished finished = tune.run({"--shapes", shapes, "--json"});
    check_error(finished, 1, "other users may write to the folder '" + folder.string() + "'");
    CHECK_FALSE(contains(finished.err, "1 of 2"));
    CHECK(finished.err.find("may write to") == finished.err.rfind("may write to"));
    const json document = json::parse(finished.out);
    CHECK(document["schema"] == "opdock.plugin-tune.error/1");
    CHECK(document["error"]["status"] == "FAILED");
    CHECK_FALSE(std::filesystem::exists(folder / "tune.sqlite"));
}

TEST_CASE("a shapes file whose calls the op does not take is refused before anything is measured") {
    const Tuned tune(two_configs);
    const std::string shapes =
        tune.file("shapes.yaml", "- op: rmsnorm_fwd\n  inputs: {input: \"f32[8,100]\", weight: \"f32[100]\"}\n"
                                 "- op: rmsnorm_fwd\n  inputs: {input: \"f32[8,100]\", weight: \"f32[99]\"}\n")
            .string();
    check_error(tune.run({"--shapes", shapes}), 1, shapes + ":3:");
    CHECK_FALSE(std::filesystem::exists(tune.database()));
}

TEST_CASE("a dry run keeps nothing") {
    const Tuned tune(two_configs);
    const Finished finished = tune.run(rmsnorm_and({"--dry-run"}));
    CHECK(contains(finished.out, "Nothing was kept (--dry-run)."));
    CHECK(tune.document(rmsnorm_and({"--json"}))["shapes"][0]["outcome"] == "tuned");
}

TEST_CASE("a pinned config is shown, and is not tuned") {
    const Tuned tune(std::string(two_configs) + "    pinned: [{key: {n: 128}, config: {grain_kib: 512}}]\n");
    const json shape = tune.document(rmsnorm_and({"--json"}))["shapes"][0];
    CHECK(shape["outcome"] == "pinned");
    CHECK(shape["best"]["config"]["grain_kib"] == 512);
}

TEST_CASE("an interruption keeps what is done, prints it and exits with 128 and the signal") {
    for (const int signal : {SIGINT, SIGTERM}) {
        Tuned tune(very_many());
        tune.file("shapes.yaml", R"(- {op: rmsnorm_fwd, inputs: {input: "f32[8,100]", weight: "f32[100]"}}
- {op: gelu, inputs: {input: "f32[1000000]"}}
- {op: gelu, inputs: {input: "f32[2000000]"}}
)");
        const Finished finished = tune.tool().run_and_interrupt(
            {"--shapes", tune.path("shapes.yaml"), "--strategy", "exhaustive", "--budget", "1h", "--json"},
            "2 of 3: gelu", signal);
        INFO(finished.err);
        CHECK(finished.code == 128 + signal);
        const json document = json::parse(finished.out);
        CHECK(document["interrupted"]);
        REQUIRE(document["shapes"].size() == 3);
        CHECK(document["shapes"][0]["outcome"] == "tuned");
        CHECK(document["shapes"][0]["complete"]);
        CHECK(document["shapes"][0]["kept"]);
        CHECK(document["shapes"][1]["outcome"] == "tuned");
        CHECK_FALSE(document["shapes"][1]["complete"]);
        CHECK(document["shapes"][2]["outcome"] == "skipped");
        CHECK(tune.document(rmsnorm_and({"--json"}))["shapes"][0]["outcome"] == "known");
    }
}

TEST_CASE("a file of shapes is tuned in its order, and one that fails does not keep the others") {
    const Tuned tune(two_configs);
    tune.file("shapes.yaml", R"(- op: silu
  inputs: {input: "f32[64]"}
- op: rmsnorm_fwd
  impl: default.cpu
  inputs: {input: "f32[8,100]", weight: "f32[100]"}
  attributes: {eps: 1e-6}
)");
    const Finished finished = tune.run({"--shapes", tune.path("shapes.yaml"), "--budget", "300ms", "--json"});
    CHECK(finished.code == 1);
    const json shapes = json::parse(finished.out)["shapes"];
    REQUIRE(shapes.size() == 2);
    CHECK(shapes[0]["outcome"] == "failed");
    CHECK(shapes[0]["error"]["status"] == "UNSUPPORTED");
    CHECK(shapes[1]["outcome"] == "tuned");
    CHECK(shapes[1]["attributes"][0]["value"] == "1e-6");
}

TEST_CASE("what is wrong in a file of shapes is said with its place, before anything is measured") {
    const Tuned tune(two_configs);
    const auto complain = [&](const std::string &text, const std::string &message) {
        const auto file = tune.file("shapes.yaml", text);
        check_error(tune.run({"--shapes", file.string()}), 1, file.string() + message);
    };
    complain("- op: rmsnorm_fdw\n  inputs: {}\n",
             ":1:3: no plugin declares op 'rmsnorm_fdw'; did you mean 'rmsnorm_fwd'?");
    complain("- op: rmsnorm_fwd\n  inputs: {inptu: \"f32[8]\"}\n", ":1:3: --shape 'inptu'");
    complain("- op: rmsnorm_fwd\n  input: {}\n", ":2:3: unknown field 'input'; did you mean 'inputs'");
    check_error(tune.run({"--shapes", tune.path("absent.yaml")}), 1, "absent.yaml: No such file");
}

TEST_CASE("all tunes what has knobs and configs, for shapes of its own") {
    const Tuned tune(two_configs);
    const json document = tune.document({"--all", "--budget", "20ms", "--total-budget", "2s", "--dry-run", "--json"});
    REQUIRE(document["shapes"].size() == 6); // two dtypes, three sizes
    for (const json &shape : document["shapes"]) {
        CHECK(shape["op"] == "rmsnorm_fwd");
    }
    CHECK(document["shapes"][0]["inputs"][0]["source"] == "f32[128,128]");
    check_error(tune.run({"silu", "--all"}), 1, "there is nothing to tune");
}

TEST_CASE("what was found travels as a tune file") {
    const Tuned tune(two_configs);
    check_error(tune.run({"export"}), 1, "there is nothing to export: no config is known for the available plugins");
    tune.document(rmsnorm_and({"--json"}));
    check_error(tune.run({"export", "gelu"}), 1, "there is nothing to export: ");
    check_error(tune.run({"export", "--impl", "default.cup"}), 1,
                "there is nothing to export: no result is of 'default.cup'; did you mean 'default.cpu'?");
    const std::string file = tune.path("results.yaml");
    const Finished exported = tune.run({"export", "--out", file});
    REQUIRE(exported.code == 0);
    CHECK(exported.err == file + ": 1 op, 1 config\n");
    CHECK(contains(content(file), "schema: opdock.tune/1\nops:\n  rmsnorm_fwd:\n"));
    CHECK(tune.run({"export", "rmsnorm_fwd", "--impl", "default.cpu"}).out == content(file));
    check_error(tune.run({"export", "--out", file}), 1, file + ": the file exists; --force overwrites it");
    CHECK(tune.run({"export", "--out", file, "--force"}).code == 0);
    check_error(tune.run({"export", "rmsnorm_fdw"}), 1, "did you mean 'rmsnorm_fwd'");

    const Tuned other(two_configs);
    const Finished imported = other.run({"import", file});
    CHECK(imported.code == 0);
    CHECK(imported.out == file + ": 1 config\n");
    CHECK(other.document(rmsnorm_and({"--json"}))["shapes"][0]["outcome"] == "known");
    const auto elsewhere =
        other.file("elsewhere.yaml", "schema: opdock.tune/1\nops:\n  rmsnorm_fwd:\n    - impl: default.gpu\n"
                                     "      pinned: [{key: {n: 128}, config: {grain_kib: 512}}]\n");
    const Finished none = other.run({"import", elsewhere.string()});
    CHECK(none.code == 1);
    CHECK(contains(none.err, "elsewhere.yaml:4:7: not imported: op 'rmsnorm_fwd' has no implementation 'default.gpu'; "
                             "did you mean 'default.cpu'?"));
    const auto wrong = other.file("wrong.yaml", "schema: opdock.tune/1\nops: {rmsnorm_fwd: {pinned: [{}]}}\n");
    check_error(other.run({"import", wrong.string()}), 1, "wrong.yaml:2:");
    const std::filesystem::path pipe = wrong.string() + ".pipe"; // a FIFO that nobody writes to
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    check_error(other.run({"import", pipe.string()}), 1, pipe.string() + ": no process writes to this pipe");

    const std::string merged = tune.path("merged.yaml");
    const auto own = tune.file("own.yaml", two_configs);
    CHECK(tune.run({"merge", own.string(), file, "--out", merged}).code == 0);
    CHECK(contains(content(merged), "configs:"));
    CHECK(contains(content(merged), "pinned:"));
}

TEST_CASE("an import leaves out what the plugin's tune file has no configs for, and takes the rest") {
    const Tuned tune(two_configs);
    const std::string file = tune.file("results.yaml", R"(schema: opdock.tune/1
ops:
  gelu:
    - dtypes: f32
      key: {rows: log2}
      pinned: [{key: {rows: 128}, config: {grain_kib: 512}}]
  rmsnorm_fwd:
    - dtypes: ['f32,f32']
      key: {n: log2}
      pinned: [{key: {n: 128}, config: {grain_kib: 512}}]
)")
                                 .string();
    const auto import = [&](int code, const std::string &count, const std::string &why, const std::string &ops) {
        const Finished finished = tune.run({"import", file});
        CHECK(finished.code == code);
        CHECK(finished.out == file + ": " + count + "\n");
        CHECK(contains(finished.err,
                       file + ":4:7: not imported: " + why + " '" + tune.path("cpu.tune.yaml") + "'" + ops));
    };
    import(0, "1 config",
           "the tune file of the plugin of 'default.cpu' has no configs for the dtypes 'f32', so these entries would "
           "never be found; add configs to",
           "");
    CHECK(contains(tune.run({"list"}).out, "  f32,f32  n=128  imported  -       grain_kib=512 stream=0\n"));

    std::filesystem::remove(tune.path("cpu.tune.yaml"));
    import(1, "0 configs",
           "the plugin of 'default.cpu' has no tune file, so these entries would never be found; put a tune file "
           "beside the plugin:",
           " (ops 'gelu', 'rmsnorm_fwd')");
}

TEST_CASE("what the database has is listed, and forgotten by what is asked for") {
    const Tuned tune(two_configs);
    const Finished empty = tune.run({"list"});
    CHECK(empty.code == 0);
    CHECK(empty.out == tune.database().string() + " has no entries\n");
    CHECK_FALSE(std::filesystem::exists(tune.database()));
    const auto pins = tune.file("pins.yaml", "schema: opdock.tune/1\nops:\n  rmsnorm_fwd:\n    key: {n: log2}\n"
                                             "    dtypes: ['f32,f32', 'bf16,bf16']\n"
                                             "    pinned: [{key: {n: 128}, config: {grain_kib: 64, stream: false}}]\n");
    REQUIRE(tune.run({"import", pins.string()}).code == 0);

    const Finished listed = tune.run({"list", "rmsnorm_fwd"});
    CHECK(listed.code == 0);
    CHECK(contains(listed.out, "rmsnorm_fwd  default.cpu, "));
    CHECK(contains(listed.out, "n=128"));
    CHECK(contains(listed.out, "grain_kib=64"));
    CHECK(contains(listed.out, "imported"));
    CHECK(contains(listed.out, "2 entries in " + tune.database().string()));
    const json document = json::parse(tune.run({"list", "--dtype", "bf16,bf16", "--json"}).out);
    CHECK(document["schema"] == "opdock.plugin-tune.list/1");
    CHECK(document["database"] == tune.database().string());
    REQUIRE(document["entries"].size() == 1);
    const json &entry = document["entries"][0];
    CHECK(entry["op"] == "rmsnorm_fwd");
    CHECK(entry["impl_id"] == "default.cpu");
    CHECK(entry["key"] == "n=128");
    CHECK(entry["imported"] == true);
    CHECK(entry["microseconds"].is_null());
    const std::vector<std::string> of_build = {"--build", entry["version"].get<std::string>(), "--model",
                                               entry["model"].get<std::string>()};
    std::vector<std::string> list = {"list", "--json"};
    list.insert(list.end(), of_build.begin(), of_build.end());
    CHECK(json::parse(tune.run(list).out)["entries"].size() == 2);

    check_error(tune.run({"forget"}), 2, "there is nothing to forget: give an op");
    const Finished wrong = tune.run({"forget", "rmsnorm_fdw"});
    CHECK(wrong.code == 1);
    CHECK(contains(wrong.out, "No entry has 'rmsnorm_fdw'; did you mean 'rmsnorm_fwd'?"));
    CHECK(contains(tune.run({"forget", "rmsnorm_fwd", "--dry-run"}).out, "2 entries would be removed from "));
    CHECK(contains(tune.run({"forget", "rmsnorm_fwd", "--dtype", "bf16,bf16"}).out, "1 entry removed from "));
    CHECK(json::parse(tune.run({"list", "--json"}).out)["entries"].size() == 1);
    const json gone = json::parse(tune.run({"forget", "--all", "--json"}).out);
    CHECK(gone["schema"] == "opdock.plugin-tune.forget/1");
    CHECK(gone["entries"] == 1);
    CHECK(json::parse(tune.run({"list", "--json"}).out)["entries"].empty());
    CHECK(tune.run({"forget", "--all"}).code == 1);
}

TEST_CASE("a FlagGems file is converted, and its ops renamed") {
    const Tuned tune(two_configs);
    const auto file = tune.file("tune_configs.yaml", "silu:\n- META:\n    BLOCK: 64\n  num_warps: 8\n");
    const Finished finished = tune.run({"convert", file.string(), "--rename", "silu=acme.silu"});
    CHECK(finished.code == 0);
    CHECK(contains(finished.out, "schema: opdock.tune/1\nops:\n  acme.silu:\n"));
    CHECK(contains(finished.out, "BLOCK: 64"));
    check_error(tune.run({"convert", file.string(), "--rename", "sliu=x"}), 1, "did you mean 'silu'");
    CHECK(finished.err.empty());
    const std::string theirs =
        tune.file("theirs.yaml", "mm:\n- META: {B: 64}\n- META: {B: 8}\nrms_norm:\n- META: {B: 8}\n"
                                 "silu:\n- META: {B: 8}\n_x:\n- META: {B: 8}\n")
            .string();
    const std::string out = tune.path("converted.yaml");
    const Finished named = tune.run({"convert", theirs, "--out", out, "--rename", "rms_norm=rmsnorm_fwd"});
    CHECK(named.code == 1);
    CHECK(contains(named.err, theirs + ": mm: opdock calls that 'matmul'; --rename mm=matmul converts it\n"));
    CHECK_FALSE(contains(named.err, ": rms_norm: "));
    CHECK(contains(named.err, out + ": 3 ops, 4 configs; 1 left out\n"));
    CHECK(contains(content(out), "\n  mm:\n"));
    const auto private_ops = tune.file("private.yaml", "_softmax:\n- META: {B: 64}\nsilu:\n- META: {B: 8}\n");
    const Finished partly = tune.run({"convert", private_ops.string()});
    CHECK(partly.code == 1);
    CHECK(contains(partly.out, "  silu:\n"));
    CHECK_FALSE(contains(partly.out, "softmax"));
    CHECK(contains(partly.err, "an op cannot be called '_softmax'"));
    CHECK(contains(partly.err, "--rename _softmax=NAME gives it another name (left out)"));
    CHECK(tune.run({"convert", private_ops.string(), "--rename", "_softmax=softmax"}).code == 0);
    for (const char *name : {"silu=a: {}", "silu=null", "silu=#x", "silu=\xff", "silu=_x", "silu=x."}) {
        check_error(tune.run({"convert", file.string(), "--rename", name}), 1, "is not a name for an op");
    }
}

TEST_CASE("a plot needs gnuplot, and is said to before anything is measured") {
    Tuned tune(two_configs);
    const std::string drawing = tune.path("gain.svg");
    tune.tool().with("PATH", "/nonexistent");
    check_error(tune.run(rmsnorm_and({"--plot", drawing})), 1, "--plot needs gnuplot");
    CHECK_FALSE(std::filesystem::exists(tune.database()));
    if (!std::filesystem::exists("/usr/bin/gnuplot")) {
        return;
    }
    tune.tool().with("PATH", "/usr/bin:/bin");
    const Finished finished = tune.run(rmsnorm_and({"--plot", drawing}));
    INFO(finished.err);
    CHECK(finished.code == 0);
    CHECK(contains(content(drawing), "</svg>"));
    CHECK(contains(content(drawing), "rmsnorm_fwd input=f32[8,100]"));
    check_error(tune.run(rmsnorm_and({"--plot", drawing})), 1, "--force overwrites it");
}

TEST_CASE("a drawing that fails leaves one JSON document, of what was measured") {
    Tuned tune(two_configs);
    const auto gnuplot = tune.file("gnuplot", "#!/bin/sh\nexit 3\n");
    std::filesystem::permissions(gnuplot, std::filesystem::perms::owner_all);
    tune.tool().with("PATH", gnuplot.parent_path().string());
    const Finished finished = tune.run(rmsnorm_and({"--plot", tune.path("gain.svg"), "--json"}));
    check_error(finished, 1, "gnuplot failed");
    CHECK(json::parse(finished.out)["shapes"][0]["outcome"] == "tuned");
    CHECK_FALSE(std::filesystem::exists(tune.path("gain.svg")));
}

TEST_CASE("wrong usage of plugin-tune exits with 2, an absent op or implementation with 1") {
    const Tuned tune(two_configs);
    check_error(tune.run({}), 2, "there is nothing to tune: ");
    check_error(tune.run({"export", "--output", "x"}), 2, "--output has no meaning with export; did you mean '--out'?");
    check_error(tune.run(rmsnorm_and({"--strategy", "x"})), 2, "expected halving or exhaustive");
    check_error(tune.run({"rmsnorm_fwd", "--shape", "input=f32[8,100]"}), 2, "rmsnorm_fwd needs 'weight'");
    check_error(tune.run({"rmsnorm_fdw", "--shape", "a=f32[1]"}), 1, "did you mean 'rmsnorm_fwd'");
    check_error(tune.run(rmsnorm_and({"--impl", "default.cup"})), 1, "did you mean 'default.cpu'");
    check_error(tune.run(rmsnorm_and({"--modules", fixture("no_note")})), 1, ": rejected (OPDOCK-E010): ");
    const Finished finished = tune.run({"rmsnorm_fdw", "--shape", "a=f32[1]", "--json"});
    CHECK(json::parse(finished.out)["error"]["status"] == "UNKNOWN_OP");
    const Finished nothing = tune.run({"rmsnorm_fwd", "--json"});
    check_error(nothing, 2, "--json prints measurements");
    CHECK(json::parse(nothing.out)["error"]["status"] == "WRONG_USAGE");
    const Finished expected = tune.run({"rmsnorm_fwd"});
    CHECK(expected.code == 0);
    CHECK(contains(expected.out, "--shape weight=SOURCE"));
    CHECK(contains(tune.run({"--version"}).out, "plugin-tune (opdock) " OPDOCK_VERSION));
}

TEST_CASE("plugin-ls --why of a call shows the config, its source and its key") {
    const Tuned ls(std::string(two_configs) + "    pinned: [{key: {n: 128}, config: {grain_kib: 512}}]\n", PLUGIN_LS);
    const Finished pinned =
        ls.run({"--why", "rmsnorm_fwd", "--shape", "input=bf16[8,100]", "--shape", "weight=f32[100]"});
    INFO(pinned.err);
    CHECK(pinned.code == 0);
    CHECK(contains(pinned.out, "rmsnorm_fwd on cpu:0, dtypes bf16,f32\n"));
    CHECK(contains(pinned.out, "\nCONFIGS of implementations with knobs\n  default.cpu  grain_kib=512 stream=0\n"));
    CHECK(contains(pinned.out, "      from: pinned"));
    CHECK(contains(pinned.out, "      key: n=128 (n: log2)\n"));
    const json document =
        ls.document({"--why", "rmsnorm_fwd", "--shape", "input=f32[8,1000]", "--shape", "weight=f32[1000]", "--json"});
    CHECK(document["schema"] == "opdock.plugin-ls.why/1");
    REQUIRE(document["configs"].size() == 1);
    CHECK(document["configs"][0]["source"] == "heuristic function");
    CHECK(document["configs"][0]["candidates"] == 2);
    const Finished wrong = ls.run({"--why", "rmsnorm_fwd", "--shape", "input=f32[8,100]"});
    CHECK(wrong.code == 2);
    CHECK(contains(wrong.err, "rmsnorm_fwd needs 'weight'"));
}

TEST_CASE("--across times all implementations of a call, and keeps how they stand") {
    Tuned tune(two_configs);
    tune.tool().with("PLUGIN_MODULES", tune.path("libcpu.so") + "," + REFERENCE_PLUGIN);
    const json document = tune.document(rmsnorm_and({"--across", "--json"}));
    const json &shape = document["shapes"][0];
    CHECK(shape["outcome"] == "compared");
    CHECK(shape["kept"]);
    REQUIRE(shape["implementations"].size() == 2);
    for (const json &one : shape["implementations"]) {
        CHECK(one["outcome"] == "timed");
        CHECK(one["microseconds"] > 0);
        CHECK(one["rank"] >= 1);
    }
    const Finished shown = tune.run(rmsnorm_and({"--across", "--dry-run"}));
    CHECK(shown.code == 0);
    CHECK(contains(shown.out, "  reference.cpp  "));
    CHECK(contains(shown.err, ": fastest: "));
    const json list = tune.document({"list", "rmsnorm_fwd", "--json"});
    REQUIRE(list["entries"].size() == 2);
    CHECK(list["entries"][0]["space"] == "across");
    CHECK(list["entries"][0]["config"].get<std::string>().starts_with("rank="));
    CHECK_FALSE(contains(tune.run({"export"}).out, "rank"));
    // A shape is compared only once, whatever implementations the file names for it.
    const auto shapes = tune.file("shapes.yaml", R"(- {op: gelu, inputs: {input: "f32[8,64]"}, impl: default.cpu}
- {op: gelu, inputs: {input: "f32[8,64]"}, impl: reference.cpp}
)");
    CHECK(tune.document({"--shapes", shapes.string(), "--across", "--dry-run", "--json"})["shapes"].size() == 1);
    check_error(tune.run(rmsnorm_and({"--across", "--impl", "default.cpu"})), 2, "--across");
    check_error(tune.run({"rmsnorm_fwd", "--across"}), 2, "--across times calls; add --shape or --shapes");
}
