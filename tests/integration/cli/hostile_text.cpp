// Text from files, plugins and command lines that reaches a terminal.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "pack_workplace.hpp"
#include "tools.hpp"

using nlohmann::json;
using opdock::test::contains;
using opdock::test::Finished;
using opdock::test::fixture;
using opdock::test::TemporaryDirectory;
using opdock::test::Tool;
using opdock::test::Workplace;

namespace {

// A C1 control sequence, as UTF-8 and as a byte; a C0 one; changes of the writing direction; and DEL.
constexpr const char *hostile = "\u009b2K\u202eos.\x9b"
                                "1A\x1b]0;t\x07\u2066\x7f";

// A line that a tool might write; none of its real lines may begin with it.
constexpr const char *forged = "plugin-sign: libacme.so: valid";
const std::string next_line = std::string("x\n") + forged;

// True if a terminal would show every character and obey none, and no line is forged.
bool is_harmless(const std::string &text) {
    for (const char *const steers : {"\x1b", "\x07", "\x7f", "\u009b", "\u202e", "\u2066"}) {
        if (contains(text, steers)) {
            return false;
        }
    }
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(forged)) {
            return false;
        }
    }
    // Fails if the text has a byte that is not UTF-8.
    return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)) == json(text);
}

void check_harmless(const Finished &finished) {
    CAPTURE(json(finished.out).dump(-1, ' ', true, json::error_handler_t::replace));
    CAPTURE(json(finished.err).dump(-1, ' ', true, json::error_handler_t::replace));
    CHECK(!(finished.out + finished.err).empty());
    CHECK(is_harmless(finished.out));
    CHECK(is_harmless(finished.err));
}

void check_harmless(const Tool &tool, const char *program, const std::vector<std::string> &arguments) {
    const Finished finished = tool.run(arguments);
    CAPTURE(program);
    CAPTURE(arguments.front());
    check_harmless(finished);
    if (!finished.out.empty() && std::find(arguments.begin(), arguments.end(), "--json") != arguments.end()) {
        CHECK(json::accept(finished.out));
    }
}

void check_harmless(const char *program, const std::vector<std::string> &arguments) {
    check_harmless(Tool(program, {}), program, arguments);
}

// First commands of each tool, run without naming a host, keys or folders.
const std::vector<std::pair<const char *, std::vector<std::string>>> &unguided() {
    static const std::vector<std::pair<const char *, std::vector<std::string>>> all = {
        {PLUGIN_LS, {"--verbose"}},
        {PLUGIN_LS, {"--paths"}},
        {PLUGIN_LS, {"--policy"}},
        {PLUGIN_LS, {"--bug-report"}},
        {PLUGIN_LS, {"--json"}},
        {PLUGIN_CHECK, {fixture("good"), "--list"}},
        {PLUGIN_RUN, {"fixture.add", "--modules", fixture("good")}},
        {PLUGIN_BENCH, {"fixture.add", "--modules", fixture("good")}},
        {PLUGIN_TUNE, {"fixture.add", "--modules", fixture("good")}},
        {PLUGIN_TUNE, {"export", "--json"}},
        {PLUGIN_SIGN, {"verify", fixture("good")}},
        {PLUGIN_PACK, {"list"}},
        {PLUGIN_PACK, {"history", "--json"}},
        {PLUGIN_PACK, {"uninstall", "acme"}},
    };
    return all;
}

} // namespace

TEST_CASE("no tool lets the name of a file steer a terminal") {
    for (const std::string &name : {std::string(hostile), next_line}) {
        const TemporaryDirectory directory;
        const std::string file = (directory.path() / ("lib" + name + ".so")).string();
        std::filesystem::copy_file(fixture("good"), file);
        check_harmless(PLUGIN_LS, {"--modules", file});
        check_harmless(PLUGIN_LS, {"--modules", file, "--json"});
        check_harmless(PLUGIN_LS, {"--modules", file, "--why", "fixture.add"});
        check_harmless(PLUGIN_LS, {"--check", file});
        check_harmless(PLUGIN_LS, {"--check", file, "--json"});
        check_harmless(PLUGIN_LS, {"--modules", file, "--bug-report"});
        check_harmless(PLUGIN_CHECK, {file, "--seed", "1"});
        check_harmless(PLUGIN_CHECK, {file, "--seed", "1", "--json"});
        check_harmless(PLUGIN_RUN, {"fixture.add", "--modules", file});
        check_harmless(PLUGIN_RUN, {"fixture.add", "--in", "a=" + file, "--in", "b=" + file, "--modules", file});
        check_harmless(PLUGIN_BENCH, {"fixture.add", "--modules", file + "x"});
        check_harmless(PLUGIN_BENCH, {"--shapes", file, "--json"});
        check_harmless(PLUGIN_TUNE, {"import", file});
        check_harmless(PLUGIN_TUNE, {"--shapes", file, "--json"});
        check_harmless(PLUGIN_SIGN, {"digest", file});
        check_harmless(PLUGIN_SIGN, {"digest", file, "--json"});
        check_harmless(PLUGIN_SIGN, {"verify", file});
        check_harmless(PLUGIN_SIGN, {"verify", file, "--json"});
        check_harmless(PLUGIN_SIGN, {"keygen", file, "--no-passphrase"});
        check_harmless(PLUGIN_PACK, {"inspect", file});
        check_harmless(PLUGIN_PACK, {"verify", file, "--json"});
        check_harmless(PLUGIN_PACK, {"install", file});
        check_harmless(PLUGIN_PACK, {"list", "--folder", file});
        check_harmless(PLUGIN_PACK, {"uninstall", file});
        check_harmless(PLUGIN_PACK, {"patch", "--backend", file + "@HEAD", "--device-type", "Acme_A1", "--task",
                                     "train", "--out", file, "--unsigned"});
        check_harmless(PLUGIN_PACK, {"import-flagscale", file, "--out", file, "--unsigned", "--backend", "a=" + file});
        check_harmless(PLUGIN_SIGN, {"sign", file, "--key", file});
    }
}

TEST_CASE("no tool lets a word of its command line steer a terminal") {
    for (const char *const program :
         {PLUGIN_LS, PLUGIN_CHECK, PLUGIN_RUN, PLUGIN_BENCH, PLUGIN_TUNE, PLUGIN_SIGN, PLUGIN_PACK}) {
        for (const std::string &word : {std::string(hostile), next_line}) {
            check_harmless(program, {word});
            check_harmless(program, {"--" + word});
            check_harmless(program, {"--json", word});
            check_harmless(program, {"--json=" + word});
            check_harmless(program, {"--json", "--format", word});
            check_harmless(program, {"--", word});
        }
    }
}

TEST_CASE("a word of several lines is wrong usage, and shown on one") {
    for (const char *const program :
         {PLUGIN_LS, PLUGIN_CHECK, PLUGIN_RUN, PLUGIN_BENCH, PLUGIN_TUNE, PLUGIN_SIGN, PLUGIN_PACK}) {
        const std::vector<std::string> words = program == std::string(PLUGIN_LS)
                                                   ? std::vector<std::string>{"--op", next_line}
                                                   : std::vector<std::string>{"verify", next_line};
        const Finished finished = Tool(program, {}).run(words);
        CAPTURE(program);
        CHECK(finished.code == 2);
        CHECK(contains(finished.err, "'x\\x0aplugin-sign: libacme.so: valid' has a line feed in it"));
    }
}

TEST_CASE("no tool lets a variable of the environment begin a line") {
    const TemporaryDirectory directory;
    std::filesystem::create_directory(directory.path() / next_line);
    const std::string folder = (directory.path() / next_line).string();
    for (const char *const variable : {"PLUGIN_CONFIG", "PLUGIN_MODULES", "PLUGIN_TUNE_DB", "HOME", "XDG_DATA_HOME",
                                       "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LD_LIBRARY_PATH"}) {
        CAPTURE(variable);
        for (const std::string &value : {next_line, folder}) {
            for (const auto &[program, arguments] : unguided()) {
                Tool tool(program, {});
                tool.with("PLUGIN_MODULES_ONLY", "0").with(variable, value);
                check_harmless(tool, program, arguments);
            }
        }
    }
    for (const char *const variable :
         {"PLUGIN_PREFER", "PLUGIN_STRICT", "PLUGIN_ALLOW_VENDORS", "PLUGIN_DENY_VENDORS", "PLUGIN_PER_OP",
          "PLUGIN_RETRY_FAILED", "PLUGIN_DEFAULT_PLUGINS", "PLUGIN_TRUST", "PLUGIN_TUNE", "PLUGIN_TUNE_BUDGET",
          "PLUGIN_LOG_LEVEL", "PLUGIN_SCAN_CACHE", "PLUGIN_METRICS", "PLUGIN_REPORT"}) {
        CAPTURE(variable);
        Tool tool(PLUGIN_LS, {});
        tool.with(variable, next_line);
        check_harmless(tool, PLUGIN_LS, {"--verbose"});
        check_harmless(tool, PLUGIN_LS, {"--bug-report"});
    }
}

TEST_CASE("no tool lets a name that it finds in a folder begin a line") {
    const TemporaryDirectory directory;
    const std::filesystem::path folder = directory.path();
    for (const char *const name : {"plugins", "keys", "real", "hardware"}) {
        std::filesystem::create_directory(folder / name);
    }
    std::filesystem::copy_file(fixture("good"), folder / "plugins" / (next_line + ".so"));
    std::filesystem::create_directories(folder / "plugins" / next_line / next_line);
    directory.write("plugins/" + next_line + "/plugin.json", "{}");
    directory.write("plugins/" + next_line + "/" + next_line + "/plugin.json", "{}");
    directory.write("plugins/" + next_line + "/opdock-installed.json", "{}");
    directory.write("plugins/" + next_line + ".opdock", "none");
    directory.write("plugins/a/plugin.json", json{{"library", next_line}}.dump());
    directory.write("plugins/b/plugin.json", json{{"library", "libb.so"}, {"tune", next_line}}.dump());
    directory.write("plugins/c/plugin.json", json{{"library", "libc.so"}, {"signature", next_line}}.dump());
    directory.write("keys/" + next_line + ".pub", "none");
    // A link into a folder that other users may write to.
    std::filesystem::create_directory(folder / "real" / next_line);
    std::filesystem::copy_file(fixture("good"), folder / "real" / next_line / "libd.so");
    std::filesystem::permissions(folder / "real" / next_line, std::filesystem::perms::all);
    std::filesystem::create_symlink(folder / "real" / next_line / "libd.so", folder / "plugins" / "libd.so");
    std::filesystem::create_symlink(next_line + ".so", folder / "plugins" / "libe.so");
    directory.write("hardware/Acme_A1/" + next_line, "none");
    directory.write("hardware/Acme_A1/fw/" + next_line + ".yaml", "task: [train");
    directory.write("hardware/" + next_line + "/fw/diff.yaml", "task: [train");
    directory.write("hardware/Acme_B2/repo/diff.yaml",
                    "task: [train]\nbackends_commit: {repo: \"x\\n" + std::string(forged) + "\"}\n");
    directory.write("hardware/Acme_B2/repo/diff.patch", "none");

    const std::string plugins = (folder / "plugins").string(), keys = (folder / "keys").string();
    for (const auto &[program, arguments] : unguided()) {
        Tool tool(program, {plugins});
        tool.with("PLUGIN_LOG_LEVEL", "DEBUG");
        check_harmless(tool, program, arguments);
    }
    for (const std::vector<std::string> &more : {std::vector<std::string>(), {"--json"}}) {
        const auto check = [&](const char *program, std::vector<std::string> arguments) {
            arguments.insert(arguments.end(), more.begin(), more.end());
            check_harmless(program, arguments);
        };
        check(PLUGIN_LS, {"--check", plugins + "/a/plugin.json"});
        check(PLUGIN_LS, {"--check", plugins + "/libd.so"});
        check(PLUGIN_LS, {"--check", plugins + "/libe.so"});
        check(PLUGIN_CHECK, {plugins + "/libd.so", "--seed", "1", "--op", "fixture.add"});
        for (const char *const package : {"a", "b", "c"}) {
            check(PLUGIN_SIGN, {"verify", plugins + "/" + package + "/plugin.json"});
        }
        check(PLUGIN_SIGN, {"verify", fixture("good"), "--trusted", keys});
        check(PLUGIN_PACK, {"list", "--folder", plugins, "--trusted", keys});
        check(PLUGIN_PACK, {"history", "--folder", plugins});
        check(PLUGIN_PACK, {"import-flagscale", (folder / "hardware").string(), "--out", (folder / "out").string(),
                            "--unsigned", "--backend", "fw=" + folder.string()});
    }
}

TEST_CASE("no path in a repository or a package begins a line") {
    Workplace work;
    const std::string path = "framework/" + next_line;
    work.write(path, "one\n");
    work.commit("framework");
    work.git({"-C", work.path_of("clone"), "pull", "--quiet"});
    work.write(path, "two\n");
    work.write(path + ".opdock", "none");
    check_harmless(work.patch("a.opdock"));
    check_harmless(work.run({"inspect", work.path_of("a.opdock"), "--pub", work.path_of("acme.pub")}));
    check_harmless(work.unpatch("a.opdock"));
    work.write("clone/" + next_line, "three\n");
    const Finished in_the_way = work.run({"unpatch", work.path_of("a.opdock"), "--in-place", "--backend",
                                          "fw=" + work.path_of("clone"), "--pub", work.path_of("acme.pub")});
    check_harmless(in_the_way);
    CHECK(contains(in_the_way.err, "x\\x0aplugin-sign"));
    work.git({"-C", work.path_of("clone"), "commit", "--quiet", "--all", "--message=other"});
    const Finished merged =
        work.run({"unpatch", "--3way", work.path_of("a.opdock"), "--backend", "fw=" + work.path_of("clone") + "@HEAD",
                  "--out", work.path_of("merged"), "--pub", work.path_of("acme.pub")});
    check_harmless(merged);
    CHECK(contains(merged.err, "there are conflicts, with both sides"));
    const Finished rebased =
        work.run({"rebase", work.path_of("a.opdock"), "--backend", "fw=" + work.path_of("clone") + "@HEAD", "--out",
                  work.path_of("b.opdock"), "--pub", work.path_of("acme.pub"), "--unsigned"});
    check_harmless(rebased);
    CHECK(contains(rebased.err, "the changes conflict with the new commit"));
    std::filesystem::create_directory(work.path_of(next_line));
    work.with("TMPDIR", work.path_of(next_line));
    const Finished elsewhere = work.patch("c.opdock");
    check_harmless(elsewhere);
    CHECK(contains(elsewhere.err, "set TMPDIR to another"));
    work.with("TMPDIR", "/tmp");
    work.write(path + "key", "opdock.secret-key/1");
    const Finished secret = work.patch("c.opdock");
    check_harmless(secret);
    CHECK(contains(secret.err, "this is a secret key"));
}

TEST_CASE("no tool lets what a tuning database or a file from elsewhere says steer a terminal or begin a line") {
    TemporaryDirectory folder;
    const std::string base = folder.path().string();
    Tool tune(PLUGIN_TUNE, {CPU_PLUGIN});
    tune.with("PLUGIN_TUNE_DB", base + "/db.sqlite").with("PLUGIN_DEFAULT_PLUGINS", "opdock");
    folder.write("pins.yaml",
                 "schema: opdock.tune/1\nops:\n  rmsnorm_fwd:\n    key: {n: log2, rows: log2, has_rsigma: exact}\n    "
                 "dtypes: ['f32,f32']\n"
                 "    pinned: [{key: {n: 128, rows: 64, has_rsigma: 1}, config: {grain_kib: 64, stream: false}}]\n");
    const Finished imported = tune.run({"import", base + "/pins.yaml"});
    INFO(imported.err);
    REQUIRE(imported.code == 0);
    std::string database = Workplace::read(base + "/db.sqlite");
    const std::string impl_id = "default.cpu", hostile_id = "\nplugin-sig"; // of equal length
    for (size_t at = database.find(impl_id); at != std::string::npos; at = database.find(impl_id, at)) {
        database.replace(at, impl_id.size(), hostile_id);
    }
    folder.write("db.sqlite", database);
    std::filesystem::permissions(base + "/db.sqlite",
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    const Finished listed = tune.run({"list"});
    CHECK(contains(listed.out, "\\x0aplugin-sig"));
    CHECK(!contains(listed.out, "\nplugin-sig"));
    CHECK(!contains(tune.run({"list", "--impl", "plugin-sig"}).out, "\nplugin-sig"));

    folder.write("tune.yaml", "schema: opdock.tune/1\nops:\n  relu:\n    devices: [\"\\u202eevil\\u009b2K\\n" +
                                  std::string(forged) + "\"]\n    configs: [{a: \"\\u2066\\x1b\"}]\n");
    const Finished merged = tune.run({"merge", base + "/tune.yaml"});
    check_harmless(merged);
    CHECK(contains(merged.out, "\\u202eevil\\u009b2K"));
    folder.write("again.yaml", merged.out);
    CHECK(tune.run({"merge", base + "/again.yaml"}).out == merged.out);
}

TEST_CASE("no tool lets a file of shapes or of tensors begin a line") {
    TemporaryDirectory folder;
    const std::string base = folder.path().string();
    const std::string name = std::string("x\\n") + forged; // in JSON and YAML
    for (const std::string &shape :
         {"- op: relu\n  impl: \"" + name + "\"\n  inputs: {input: \"f32[4]\"}\n",
          "- op: relu\n  \"" + name + "\": 1\n", "- op: relu\n  inputs: {\"" + name + "\": \"f32[4]\"}\n",
          "- op: relu\n  inputs: {input: \"/" + name + ".npy\"}\n"}) {
        folder.write("shapes.yaml", shape);
        const Tool tune(PLUGIN_TUNE, {}), bench(PLUGIN_BENCH, {});
        const Finished tuned = tune.run({"--shapes", base + "/shapes.yaml", "--dry-run", "--modules", CPU_PLUGIN});
        check_harmless(tuned);
        CHECK(contains(tuned.err, "has characters that cannot be shown"));
        check_harmless(bench.run({"--shapes", base + "/shapes.yaml", "--modules", CPU_PLUGIN}));
    }
    const std::string descr = "{'descr': '<f4\n" + std::string(forged) + "', 'fortran_order': False, 'shape': (1,)}";
    folder.write("esc.npy",
                 std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(descr.size()) + '\0' + descr + "0000");
    std::string header = "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    header.insert(0, std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0});
    folder.write("esc.safetensors", header + "0000");
    const Tool run(PLUGIN_RUN, {});
    for (const char *const file : {"/esc.npy", "/esc.safetensors:a"}) {
        const Finished finished = run.run({"relu", "--in", "input=" + base + file, "--modules", CPU_PLUGIN});
        check_harmless(finished);
        CHECK(contains(finished.err, forged)); // it is shown
    }
}

TEST_CASE("no tool lets a plugin's message steer a terminal") {
    const std::string file = fixture("forges");
    check_harmless(PLUGIN_CHECK,
                   {file, "--op", "forges.speaks", "--impl", "vendor.forges", "--case", "0", "--seed", "1"});
    check_harmless(PLUGIN_CHECK,
                   {file, "--op", "forges.speaks", "--impl", "vendor.forges", "--case", "0", "--seed", "1", "--json"});
    check_harmless(PLUGIN_RUN,
                   {"forges.speaks", "--in", "input=random:f32[4]", "--impl", "vendor.forges", "--modules", file});
    check_harmless(PLUGIN_BENCH, {"forges.speaks", "--shape", "input=f32[4]", "--modules", file, "--json"});
}
