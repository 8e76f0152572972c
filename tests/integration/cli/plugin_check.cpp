// plugin-check on plugins that are each wrong in one way, and on sound ones.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "temporary_directory.hpp"
#include "tools.hpp"

using nlohmann::json;
using opdock::test::contains;
using opdock::test::Finished;
using opdock::test::fixture;
using opdock::test::PluginLs;
using opdock::test::TemporaryDirectory;
using opdock::test::Tool;

namespace {

struct PluginCheck : Tool {
    PluginCheck() : Tool(PLUGIN_CHECK, {}) {}
};

// The checks that failed, and everything that was printed.
std::set<std::string> findings_of(const std::string &op, const std::string &file = fixture("planted")) {
    // The time limit is short only where it is meant to be reached: sanitizers and busy machines are slow.
    const std::string timeout = op == "planted.hangs" ? "5s" : "5m";
    const Finished finished = PluginCheck().run({file, "--op", op, "--impl", "vendor.planted", "--seed", "4",
                                                 "--timeout", timeout, "--config-time", "1s", "--json"});
    INFO(finished.out);
    INFO(finished.err);
    std::set<std::string> checks;
    const json document = json::parse(finished.out);
    REQUIRE(document.at("ops").size() == 1);
    for (const json &finding : document.at("ops")[0].at("findings")) {
        checks.insert(finding.at("check").get<std::string>());
    }
    CHECK(finished.code == (checks.empty() && document.at("files")[0].at("findings").empty() ? 0 : 1));
    return checks;
}

void check_found(const std::vector<std::pair<std::string, std::string>> &expected,
                 const std::string &file = fixture("planted")) {
    for (const auto &[op, check] : expected) {
        const auto &tried = op;
        CAPTURE(tried);
        const std::set<std::string> found = findings_of("planted." + op, file);
        CAPTURE(found.size());
        CHECK(found.contains(check));
    }
}

std::string content_of(const std::string &file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace

TEST_CASE("sound implementations have no findings") {
    CHECK(findings_of("planted.sound").empty());
    CHECK(findings_of("planted.sound_sum").empty());
    CHECK(findings_of("planted.sound_row_sum").empty());
    CHECK(findings_of("planted.sound_product").empty());
    for (const char *const op :
         {"planted.sound_softmax", "planted.sound_norm", "planted.sound_turn", "planted.sound_begin"}) {
        CHECK(findings_of(op, fixture("planted_rows")).empty());
    }
    for (const char *const op : {"planted.sound_scale", "planted.sound_square"}) {
        CHECK(findings_of(op, fixture("planted_corners")).empty());
    }
}

TEST_CASE("what is wrong at ranks that few programs use is found") {
    check_found({{"wrong_without_dims", "wrong"}, {"wrong_in_six_dims", "wrong"}, {"wrong_in_eight_dims", "wrong"}},
                fixture("planted_corners"));
}

TEST_CASE("what is wrong for NaN, infinities or denormal numbers is found") {
    check_found({{"zero_for_nan", "wrong"}, {"zero_for_infinite", "wrong"}, {"flushes_denormals", "wrong"}},
                fixture("planted_corners"));
}

TEST_CASE("what is wrong for values of an attribute far from its default is found") {
    check_found({{"wrong_at_zero", "wrong"}, {"wrong_at_half", "wrong"}, {"wrong_when_enormous", "wrong"}},
                fixture("planted_corners"));
}

TEST_CASE("what is wrong where tensors of a call are one is found") {
    check_found({{"wrong_in_place_by_strides", "wrong"}, {"wrong_when_same", "wrong"}}, fixture("planted_corners"));
}

TEST_CASE("an op that a plugin's declaration makes longer is compared with the standard one") {
    const Finished finished = PluginCheck().run({fixture("appends_to_standard"), "--seed", "4", "--json"});
    CHECK(finished.code == 1);
    const json op = json::parse(finished.out).at("ops").at(0);
    CHECK(op.at("ran") > 0);
    CHECK(op.at("skipped") == 0);
    REQUIRE(!op.at("findings").empty());
    CHECK(op.at("findings")[0].at("check") == "wrong");
    for (const std::string name : {"bias", "slope", "mask"}) {
        CHECK(contains(op.at("notes").dump(), "'" + name + "' was left out of all calls or had its default"));
    }
    CHECK(PluginCheck().run({fixture("appends_to_standard"), "--op", "relu", "--shape", "input=f32[4]"}).code == 1);
}

TEST_CASE("dtypes that the reference does not take are not found right") {
    const Finished finished = PluginCheck().run({fixture("more_dtypes"), "--seed", "4", "--json"});
    CHECK(finished.code == 1);
    const json op = json::parse(finished.out).at("ops").at(0);
    CHECK(op.at("compared") > 0);
    REQUIRE(op.at("findings").size() == 1);
    CHECK(op.at("findings")[0].at("check") == "not-tried");
    CHECK(contains(op.at("findings")[0].at("message"),
                   "lists the dtypes i32, but no call with them was compared: the reference: "));
    // They are not reported if only the other ones are requested.
    CHECK(PluginCheck().run({fixture("more_dtypes"), "--op", "relu", "--shape", "input=f32[4,8]"}).code == 0);
    CHECK(PluginCheck().run({fixture("more_dtypes"), "--op", "relu", "--shape", "input=i32[4,8]"}).code == 1);
    CHECK(PluginCheck().run({fixture("more_dtypes"), "--op", "relu", "--shape", "input=f32[0,8]"}).code == 0);
}

TEST_CASE("outputs as large as an attribute says, or as the data do, are compared up to there") {
    for (const char *const op : {"planted.sound_head", "planted.sound_positive"}) {
        CHECK(findings_of(op, fixture("planted_sizes")).empty());
    }
    check_found({{"wrong_head", "wrong"}, {"wrong_count", "wrong"}, {"forgets_last", "wrong"}},
                fixture("planted_sizes"));
}

TEST_CASE("the last line says how much was tried") {
    const std::vector<std::string> arguments = {
        fixture("planted_corners"), "--op", "planted.sound_scale", "--impl", "vendor.planted", "--seed", "4"};
    std::vector<std::string> with_json = arguments;
    with_json.emplace_back("--json");
    const json op = json::parse(PluginCheck().run(with_json).out).at("ops").at(0);
    CHECK(op.at("calls") > op.at("cases"));
    CHECK(op.at("most_elements") >= 1 << 20);
    CHECK(op.at("most_dims") == 8);
    const auto number = [&](const char *key) { return std::to_string(op.at(key).get<uint64_t>()); };
    std::string text = PluginCheck().run(arguments).out;
    std::replace(text.begin(), text.end(), '\n', ' '); // lines are wrapped to the page's width
    CHECK(contains(text, number("ran") + " cases of " + number("calls") + " calls were tried, with inputs of at most " +
                             number("most_elements") + " elements and 8 dims "));
}

TEST_CASE("each implementation of an op is tried") {
    const Finished finished = PluginCheck().run(
        {fixture("planted"), "--op", "planted.sound", "--seed", "4", "--config-time", "1s", "--json"});
    INFO(finished.out);
    const json document = json::parse(finished.out);
    REQUIRE(document.at("ops").size() == 2);
    for (const json &one : document.at("ops")) {
        CHECK(one.at("findings").empty());
        CHECK(one.at("ran").get<int>() > 10);
    }
}

TEST_CASE("what is lost in a sum of equal numbers is not held against the difference that is left") {
    // If all values of a row are equal, its gradients are nothing but the rounding error of the row's sum.
    const Finished finished =
        PluginCheck().run({CPU_PLUGIN, "--modules", REFERENCE_PLUGIN, "--op", "scaled_masked_softmax_bwd", "--impl",
                           "default.cpu", "--seed", "1104", "--config-time", "1ms"});
    INFO(finished.out);
    CHECK(finished.code == 0);
}

TEST_CASE("wrong results are found") {
    check_found({{"wrong_when_odd", "wrong"},
                 {"int32_offsets", "wrong"},
                 {"nan_when_large", "wrong"},
                 {"wrong_in_place", "wrong"},
                 {"ignores_attribute", "wrong"},
                 {"wrong_in_four_dims", "wrong"},
                 {"remembers_by_address", "wrong"},
                 {"adds_to_zeros", "wrong"},
                 {"narrow_sum", "wrong"}});
}

TEST_CASE("what is wrong in wide rows, or in rows of unusual magnitudes beside others, is found") {
    check_found({{"wrong_when_wide", "wrong"},
                 {"nan_when_lowest", "wrong"},
                 {"nan_of_large_constants", "wrong"},
                 {"other_when_unaligned", "wrong"},
                 {"depends_on_neighbours", "neighbours"}},
                fixture("planted_rows"));
}

TEST_CASE("what is wrong where a dim has no size, or beside a call of other shapes, is found") {
    check_found({{"crashes_without_angles", "crash"}, {"limit_of_another_call", "threads"}}, fixture("planted_rows"));
}

TEST_CASE("what is wrong for some values of an attribute alone is found") {
    check_found({{"at_most_2", "wrong"}, {"at_most_5", "wrong"}, {"at_most_1000", "wrong"}}, fixture("planted_rows"));
}

TEST_CASE("attributes and shapes can be pinned, and the command of a finding has them") {
    const auto check = [](const std::vector<std::string> &pins) {
        std::vector<std::string> arguments = {
            fixture("planted_rows"), "--op", "planted.at_most_5", "--impl", "vendor.planted", "--seed", "4", "--json"};
        arguments.insert(arguments.end(), pins.begin(), pins.end());
        return PluginCheck().run(arguments);
    };
    for (const std::vector<std::string> &right :
         {std::vector<std::string>{"--attr", "k=5"}, {"--shape", "input=f32[3,5]"}}) {
        CAPTURE(right[1]);
        CHECK(json::parse(check(right).out).at("ops").at(0).at("findings").empty());
    }
    const Finished finished = check({"--attr", "k=6", "--shape", "input=f32[3,8]"});
    INFO(finished.out);
    CHECK(finished.code == 1);
    const json finding = json::parse(finished.out).at("ops").at(0).at("findings").at(0);
    CHECK(finding.at("check") == "wrong");
    CHECK(contains(finding.at("label").get<std::string>(), "input f32[3,8], k=6"));
    CHECK(contains(finding.at("command").get<std::string>(), " --attr k=6 --shape 'input=f32[3,8]' --seed 4 --case "));
}

TEST_CASE("what cannot be pinned is said") {
    const auto check = [](const std::vector<std::string> &pins) {
        std::vector<std::string> arguments = {fixture("planted_rows"), "--op", "planted.sound_norm", "--impl",
                                              "vendor.planted"};
        arguments.insert(arguments.end(), pins.begin(), pins.end());
        const Finished finished = PluginCheck().run(arguments);
        CHECK(finished.code == 2);
        return finished.err;
    };
    CHECK(contains(check({"--attr", "eps=1"}), "--attr 'eps': planted.sound_norm has no such argument"));
    CHECK(contains(check({"--shape", "weigth=f32[8]"}), "did you mean 'weight'?"));
    CHECK(contains(check({"--shape", "weight=i32[8]"}), "'vendor.planted' does not take i32 there"));
    CHECK(contains(check({"--shape", "weight=f32[8]", "--shape", "input=f32[2,7]"}),
                   "--shape input=f32[2,7]: n is 7 here and 8 in another tensor"));
    CHECK(contains(check({"--shape", "weight=f32[33554432]"}), "no size is given for '...' of input"));
    CHECK(contains(check({"--shape", "weight=f32[8,8]"}), "expected weight=DTYPE[n]"));
    const Finished finished = PluginCheck().run({fixture("planted_rows"), "--attr", "k=2"});
    CHECK(finished.code == 2);
    CHECK(contains(finished.err, "--attr and --shape need one --op"));
}

TEST_CASE("a call that memory was asked for, and that is declined then, is found") {
    check_found({{"declines_late", "declines-late"}}, fixture("planted_rows"));
}

TEST_CASE("a kernel that declines what was prepared is found, with what to do") {
    check_found({{"rejects_bf16", "declines-prepared"}, {"takes_only_empty", "declines-prepared"}});
    const Finished finished = PluginCheck().run(
        {fixture("planted"), "--op", "planted.rejects_bf16", "--impl", "vendor.planted", "--seed", "4", "--json"});
    std::vector<std::string> messages;
    const json document = json::parse(finished.out);
    for (const json &finding : document.at("ops").at(0).at("findings")) {
        if (finding.at("check") == "declines-prepared") {
            messages.push_back(finding.at("message").get<std::string>());
        }
    }
    REQUIRE(messages.size() == 1);
    CHECK(messages.front() ==
          "its kernel declined a call on aligned data after letting the host prepare the call: no bf16 after "
          "all. No other implementation is tried for a prepared call, so each run fails. Decline the call in a "
          "`supports` function, which is asked first");
}

TEST_CASE("what is read, written or left alone where it must not be is found") {
    check_found({{"write_past_end", "out-of-bounds"},
                 {"write_before_begin", "out-of-bounds"},
                 {"read_past_end", "out-of-bounds"},
                 {"ignores_strides", "unwritten"},
                 {"input_strides_for_output", "out-of-bounds"},
                 {"unwritten_tail", "unwritten"},
                 {"needs_both", "unwritten"},
                 {"does_nothing", "unwritten"},
                 {"writes_input", "input-changed"}});
}

std::string message_of(const char *op, const char *check) {
    const Finished finished = PluginCheck().run({fixture("planted"), "--op", std::string("planted.") + op, "--impl",
                                                 "vendor.planted", "--seed", "4", "--json"});
    const json document = json::parse(finished.out);
    for (const json &finding : document.at("ops").at(0).at("findings")) {
        if (finding.at("check") == check) {
            return finding.at("message").get<std::string>();
        }
    }
    return "";
}

TEST_CASE("what is only called beside others is compared, too") {
    check_found({{"wrong_in_longest_rows", "wrong"}});
}

TEST_CASE("findings say where, and what to declare") {
    CHECK(
        message_of("write_past_end", "out-of-bounds") ==
        "writes immediately past the end of output 'output'. Check the kernel's bounds against the sizes of this call, "
        "also in its last block");
    CHECK(message_of("fails", "failed")
              .ends_with(". Fix the kernel for such a call, or decline the call in a `supports` function"));
    CHECK(contains(message_of("unwritten_tail", "unwritten"), ". Write each element of an output"));
    CHECK(contains(message_of("writes_input", "input-changed"), "which is not `mut`. Leave inputs unchanged"));
    CHECK(contains(message_of("ignores_strides", "wrong"), "use their strides, or declare that the kernel needs"));
    CHECK_FALSE(contains(message_of("wrong_in_four_dims", "wrong"), "strides"));
    CHECK(message_of("crashes", "crash") == "the process ended with Segmentation fault"); // raised, not met
    CHECK(contains(message_of("crashes_at_null", "crash"), "with Segmentation fault: writes address 0x10, which"));
#if defined(__x86_64__)
    CHECK(contains(message_of("needs_alignment", "crash"), "Declare the `alignment` that the kernel needs"));
#endif
}

TEST_CASE("knobs without configs are no calls that were declined") {
    const Finished finished =
        PluginCheck().run({fixture("tunable"), "--device", "cpu", "--op", "fixture.knobs", "--seed", "4", "--json"});
    const json document = json::parse(finished.out);
    const json &op = document.at("ops").at(0);
    CHECK(op.at("declined") == 0);
    CHECK(op.at("notes").dump().find("tried only with their defaults: no tune file has configs") != std::string::npos);
}

TEST_CASE("what the policy keeps out is not found right") {
    const TemporaryDirectory folder;
    const std::filesystem::path plugin = folder.path() / "libtunable.so";
    std::filesystem::copy_file(fixture("tunable"), plugin);
    std::ofstream(folder.path() / "tunable.tune.yaml")
        << "schema: opdock.tune/1\nops:\n  fixture.work:\n    configs:\n      - {speed: 1}\n      - {mode: 1}\n";
    for (const auto &[variable, value] :
         {std::pair("PLUGIN_DENY_VENDORS", "acme"), std::pair("PLUGIN_ALLOW_VENDORS", ""),
          std::pair("PLUGIN_REQUIRE", "deterministic")}) {
        const std::string tried(variable);
        CAPTURE(tried);
        PluginCheck check;
        check.with(variable, value);
        const Finished finished =
            check.run({plugin.string(), "--device", "cpu", "--op", "fixture.work", "--seed", "4", "--json"});
        CAPTURE(finished.out);
        CHECK(finished.code == 1);
        CHECK(contains(finished.out, "declines-all"));
    }
}

TEST_CASE("what an enforced order has another implementation serve is not found right, nor timed") {
    const TemporaryDirectory etc; // all of /etc, in a mount namespace
    std::filesystem::create_directory(etc.path() / "opdock");
    etc.write("opdock/policy.yaml", "enforce:\n  per_op:\n    relu: [default, reference]\n");
    for (const char *const file : {"passwd", "group", "ld.so.cache"}) {
        std::filesystem::copy("/etc/" + std::string(file), etc.path() / file);
    }
    const Tool unshare("/usr/bin/unshare", {});
    const auto run = [&](const std::vector<std::string> &command) {
        std::vector<std::string> arguments = {
            "-rm", "sh",
            "-c",  R"(mount --bind "$1" /etc && shift && exec env PLUGIN_DEFAULT_PLUGINS=reference "$@")",
            "sh",  etc.path().string()};
        arguments.insert(arguments.end(), command.begin(), command.end());
        return unshare.run(arguments);
    };
    if (run({"/bin/true"}).code != 0) {
        MESSAGE("needs the right to make namespaces of users and mounts");
        return;
    }
    const std::string file = fixture("more_dtypes"), impl = "vendor.more-dtypes", shape = "input=f32[4,8]";
    const std::vector<std::string> check = {PLUGIN_CHECK, file, "--op", "relu", "--impl", impl, "--shape", shape};
    CHECK(Tool("/usr/bin/env", {}).run(check).code == 0);
    const Finished checked = run(check);
    CHECK(checked.code == 1);
    CHECK(contains(checked.out, "declines-all"));
    const std::string served = "'reference.cpp' serves it instead of 'vendor.more-dtypes': the machine's";
    const Finished timed =
        run({PLUGIN_BENCH, "relu", "--impl", impl, "--shape", shape, "--modules", file, "--modules", REFERENCE_PLUGIN});
    CHECK(timed.code == 1);
    CHECK(contains(timed.err + timed.out, served));
    const Finished called = run({PLUGIN_RUN, "relu", "--impl", impl, "--in", "input=random:f32[4,8]", "--modules", file,
                                 "--modules", REFERENCE_PLUGIN});
    CHECK(called.code == 1);
    CHECK(contains(called.err, served));
}

TEST_CASE("a plugin that crashes at its end is found also by one who ignores the ends of children") {
    const Tool env("/usr/bin/env", {});
    const Finished finished = env.run({"--ignore-signal=CHLD", PLUGIN_CHECK, fixture("planted"), "--op",
                                       "planted.crashes_at_exit", "--impl", "vendor.planted", "--seed", "4", "--json"});
    CHECK(finished.code == 1);
    CHECK(contains(finished.out, R"("check": "exit")"));
}

TEST_CASE("crashes, hangs and failures are found, and end nothing else") {
    check_found({{"crashes", "crash"},
                 {"crashes_when_empty", "crash"},
                 {"needs_alignment", "crash"},
                 {"hangs", "hang"},
                 {"crashes_at_exit", "exit"},
                 {"fails", "failed"},
                 {"works_once", "failed"}});
}

TEST_CASE("promises that are not kept are found") {
    check_found({{"noisy", "not-deterministic"},
                 {"racing_threads", "not-deterministic"},
                 {"row_sum_by_counter", "not-deterministic"},
                 {"row_sum_by_rows", "not-batch-invariant"},
                 {"split_k", "not-batch-invariant"},
                 {"shared_buffer", "threads"},
                 {"rejects_bf16", "declines-all"},
                 {"takes_only_empty", "declines-all"}});
}

TEST_CASE("what the process is left with is found") {
    check_found({{"rounds_upwards", "process"}, {"sets_locale", "process"}, {"forks", "process"}});
}

TEST_CASE("a process that a plugin leaves behind is not waited for") {
    // If the tool waited until its time limit, it would exceed the test's own.
    const Finished finished = PluginCheck().run(
        {fixture("planted"), "--op", "planted.leaves_child", "--impl", "vendor.planted", "--timeout", "1h", "--json"});
    CHECK(json::parse(finished.out).at("ops")[0].at("findings").empty());
}

TEST_CASE("a value of a knob that breaks an implementation is found") {
    const TemporaryDirectory directory;
    const std::filesystem::path file = directory.path() / "libplanted.so";
    std::filesystem::copy_file(fixture("planted"), file);
    directory.write("planted.tune.yaml", "schema: opdock.tune/1\n"
                                         "ops: {planted.broken_knob: {product: {block: [1, 2, 3, 4]}}}\n");
    CHECK(findings_of("planted.broken_knob", file.string()) == std::set<std::string>{"config"});
}

TEST_CASE("the command of a finding shows it again, alone") {
    const std::vector<std::string> start = {fixture("planted"), "--op", "planted.ignores_attribute", "--impl",
                                            "vendor.planted"};
    std::vector<std::string> first = start;
    first.insert(first.end(), {"--seed", "9", "--json"});
    const json found = json::parse(PluginCheck().run(first).out).at("ops")[0].at("findings").at(0);
    CHECK(contains(found.at("command").get<std::string>(), "--seed 9 --case "));
    std::vector<std::string> again = first;
    again.insert(again.end(), {"--case", std::to_string(found.at("case").get<int>())});
    const json one = json::parse(PluginCheck().run(again).out).at("ops")[0];
    CHECK(one.at("ran") == 1);
    CHECK(one.at("findings").at(0).at("message") == found.at("message"));
}

TEST_CASE("reports are written for build servers and for people, and not over others") {
    const TemporaryDirectory directory;
    const std::string junit = (directory.path() / "report.xml").string();
    const std::string html = (directory.path() / "report.html").string();
    const std::vector<std::string> arguments = {
        fixture("planted"), "--op", "planted.sound_sum", "--impl", "vendor.planted", "--junit", junit, "--html", html};
    PluginCheck().run(arguments);
    CHECK(std::filesystem::file_size(junit) > 100);
    CHECK(std::filesystem::file_size(html) > 100);
    const Finished second = PluginCheck().run(arguments);
    CHECK(second.code == 1);
    CHECK(contains(second.err, "the file exists; --force overwrites it"));
}

TEST_CASE("what cannot be checked is said") {
    const Finished no_case =
        PluginCheck().run({fixture("planted"), "--op", "planted.sound", "--seed", "4", "--case", "99999"});
    CHECK(no_case.code == 1);
    CHECK(contains(no_case.err, "plugin-check: there is no case 99999 with seed 4"));
    CHECK(no_case.out.empty());
    const Finished absent = PluginCheck().run({"/nowhere/libacme.so"});
    CHECK(absent.code == 1);
    CHECK(contains(absent.err, "there is no such file or directory"));
    const Finished misspelt = PluginCheck().run({fixture("planted"), "--op", "planted.sounds"});
    CHECK(misspelt.code == 1);
    CHECK(contains(misspelt.err, "did you mean 'planted.sound'"));
    for (const auto &[name, hint] :
         {std::pair("mm", "opdock calls that 'matmul'."),
          {"generic_gemm", "opdock has 'linear_fwd', 'linear_dgrad', 'linear_wgrad' or 'matmul' for that."},
          {"liger_rms_norm", "opdock calls that 'rmsnorm_fwd'."}}) {
        const Finished other_name = PluginCheck().run({fixture("good"), "--op", name});
        CHECK(other_name.code == 1);
        CHECK(contains(other_name.err,
                       std::string("--op ") + name + ": there is nothing to check with this name; " + hint));
    }
    const Finished no_impl = PluginCheck().run({fixture("planted"), "--impl", "nope"});
    CHECK(no_impl.code == 1);
    CHECK(contains(no_impl.err, "--impl nope: there is nothing to check with this name\n'plugin-ls --modules " +
                                    fixture("planted") + "' lists the available ones.\n"));
    const Finished rejected = PluginCheck().run({fixture("no_note")});
    CHECK(rejected.code == 1);
    CHECK(contains(rejected.out, "rejected: OPDOCK-E"));
    CHECK(PluginCheck().run({}).code == 2);
    for (const char *option : {"--json", "--format=json"}) {
        const json document = json::parse(PluginCheck().run({option}).out);
        CHECK(document["schema"] == "opdock.plugin-check.error/1");
        CHECK(document["error"]["status"] == "WRONG_USAGE");
    }
    const Finished list = PluginCheck().run({fixture("good"), "--list"});
    CHECK(list.code == 0);
    CHECK(contains(list.out, "fixture.add vendor.acme\n"));
}

TEST_CASE("what is wrong with a tune file is a finding, of its syntax and of its names, and the plugin is checked") {
    const TemporaryDirectory folder;
    const std::string library = (folder.path() / "libacme.so").string();
    std::filesystem::copy_file(fixture("good"), library);
    const auto message = [&](const std::string &tune_file) {
        folder.write("acme.tune.yaml", tune_file);
        const Finished finished =
            PluginCheck().with("XDG_CACHE_HOME", folder.path() / "cache").run({library, "--seed", "4", "--json"});
        INFO(finished.err);
        CHECK(finished.code == 1);
        const json document = json::parse(finished.out);
        CHECK(document.at("ops").size() == 1);
        const json &findings = document.at("files").at(0).at("findings");
        return findings.size() == 1 && findings[0].at("check") == "tune-file"
                   ? findings[0].at("message").get<std::string>()
                   : findings.dump();
    };
    CHECK(contains(message("schema: opdock.tune/1\nops: [\n"), "acme.tune.yaml:"));
    CHECK(contains(message("schema: opdock.tune/1\nops:\n  fixture.ad: {configs: [{speed: 1}]}\n"),
                   "unknown op 'fixture.ad'; did you mean 'fixture.add'?"));
}

TEST_CASE("what no host takes of a plugin is a finding, as it is not checked") {
    const Finished finished =
        PluginCheck().run({fixture("good"), fixture("takes_vendor_id"), fixture("usurper"), fixture("unknown_flag"),
                           "--seed", "4", "--config-time", "1s", "--json"});
    INFO(finished.err);
    CHECK(finished.code == 1);
    const json document = json::parse(finished.out);
    const auto message = [&](size_t file) {
        const json &findings = document.at("files").at(file).at("findings");
        return findings.size() == 1 && findings[0].at("check") == "left-out"
                   ? findings[0].at("message").get<std::string>()
                   : findings.dump();
    };
    CHECK(message(0) == "[]");
    CHECK(
        contains(message(1), "implementation 'vendor.acme' for op 'fixture.add' is left out: plugin 'acme' has this"));
    CHECK(
        contains(message(2), "implementation 'default.usurper' for op 'fixture.add' is left out: it is registered as"));
    CHECK(contains(message(3), "is left out: its required_flags 0x40000000 are not known to this host"));
    CHECK(document.at("ops").size() == 2); // vendor.acme and vendor.sound
}

TEST_CASE("a plugin that ended its probe is tried anew where plugin-check is given its file, and no other is") {
    const TemporaryDirectory folder;
    const std::string file = (folder.path() / "libasked.so").string();
    const std::string other = (folder.path() / "libother.so").string();
    std::filesystem::copy_file(fixture("aborts_when_asked"), file);
    std::filesystem::copy_file(fixture("aborts_in_entry"), other);
    const std::string cache = (folder.path() / "cache").string();
    const auto status = [&](const std::string &plugin) {
        const Finished judged = PluginLs({}).with("XDG_CACHE_HOME", cache).run({"--check", plugin, "--json"});
        return json::parse(judged.out).at("status").get<std::string>();
    };
    PluginCheck crashing;
    crashing.with("XDG_CACHE_HOME", cache).with("PLUGIN_MODULES", other).with("OPDOCK_FIXTURE_ABORTS", "1");
    PluginCheck tool;
    tool.with("XDG_CACHE_HOME", cache).with("PLUGIN_MODULES", other);
    const Finished crashed = crashing.run({file, "--list"});
    CHECK(crashed.code == 1);
    CHECK(contains(crashed.err, "OPDOCK-E050"));
    CHECK_FALSE(contains(crashed.err, "try yours with plugin-check"));
    CHECK(status(file) == "quarantined");
    CHECK(status(other) == "quarantined");
    const Finished again = tool.run({file, "--list"});
    CHECK(again.code == 0);
    CHECK(contains(again.out, "badco.next vendor.badco\n"));
    CHECK(status(file) == "ok");
    CHECK(status(other) == "quarantined");
    CHECK(tool.run({file, "--op", "badco.next", "--seed", "4", "--case", "0"}).code == 0);
}

TEST_CASE("a plugin whose registration is refused is a failed case of every report, told once") {
    for (const char *const strict : {"0", "1"}) {
        CAPTURE(std::string(strict));
        const TemporaryDirectory folder;
        const std::string junit = (folder.path() / "report.xml").string();
        const std::string html = (folder.path() / "report.html").string();
        PluginCheck tool;
        tool.with("PLUGIN_STRICT", strict);
        const Finished text = tool.run({fixture("bad_alignment"), "--junit", junit, "--html", html});
        CHECK(text.code == 1);
        const auto times = [&](const std::string &part) {
            std::string all; // independent of line breaks
            std::istringstream words(text.out + text.err);
            for (std::string word; words >> word; all += word + ' ') {
            }
            size_t count = 0;
            for (size_t at = all.find(part); at != std::string::npos; at = all.find(part, at + 1)) {
                ++count;
            }
            return count;
        };
        CHECK(times("alignment 24") == 1);
        CHECK(times("OPDOCK-E039") == 1);
        CHECK_FALSE(contains(text.out + text.err, "--modules"));
        CHECK(contains(text.out, fixture("bad_alignment") + "\n"));
        CHECK(contains(content_of(junit), "<failure type=\"rejected\" message=\"OPDOCK-E039: "));
        CHECK(contains(content_of(junit), "tests=\"1\" failures=\"1\""));
        CHECK(contains(content_of(html), "alignment 24 is not a power of two"));
        const json document = json::parse(tool.run({fixture("bad_alignment"), "--json"}).out);
        CHECK(document.at("schema") == "opdock.plugin-check/1");
        CHECK(document.at("ops").empty());
        const json &file = document.at("files").at(0);
        CHECK(file.at("status") == "rejected");
        CHECK(file.at("findings").size() == 1);
        const Finished listed = tool.run({fixture("bad_alignment"), "--list"});
        CHECK(listed.code == 1);
        CHECK(contains(listed.err, "plugin-check: " + fixture("bad_alignment") + ": OPDOCK-E039: "));
    }
    PluginCheck tool;
    tool.with("PLUGIN_STRICT", "1").with("PLUGIN_MODULES", fixture("bad_alignment"));
    const Finished of_another = tool.run({fixture("good"), "--list"});
    CHECK(of_another.code == 1);
    CHECK(contains(of_another.err, "strict is set (PLUGIN_STRICT) and requested modules did not load"));
}

TEST_CASE("the text of an exception that an entry lets out stays with the plugin's rejection") {
    const TemporaryDirectory folder;
    const std::string cache = (folder.path() / "cache").string();
    const std::string text = "what():  the entry threw this";
    PluginCheck tool;
    tool.with("XDG_CACHE_HOME", cache);
    for (int i = 0; i < 2; ++i) {
        const json document = json::parse(tool.run({fixture("throws"), "--json"}).out);
        CHECK(contains(document.at("files").at(0).at("findings").at(0).at("message").get<std::string>(), text));
    }
    for (int i = 0; i < 2; ++i) {
        const Finished listed =
            PluginLs({fixture("throws")}).with("XDG_CACHE_HOME", cache).run({"--rejected", "--json"});
        CHECK(contains(json::parse(listed.out).at("plugins").at(0).at("reason").get<std::string>(), text));
    }
}
