// Call files that a program writes if a shadow disagrees (PLUGIN_SHADOW, PLUGIN_CALL_FILES), and the tools that
// replay them. The program is plugin-run.
#include <cstring>
#include <filesystem>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "metadata.hpp"
#include "tensor_files.hpp"
#include "tools.hpp"

using namespace opdock;
using namespace opdock::test;
using nlohmann::json;

namespace {

// A program with a plugin whose vendor kernels are each wrong in one way, and whose references are right.
struct Planted : PluginRun {
    Planted() : PluginRun({fixture("planted")}) {
        with("PLUGIN_DEFAULT_PLUGINS", "opdock,planted").with("PLUGIN_PREFER", "vendor");
    }
};

// A program whose calls have shadows.
struct Shadowed : Planted {
    Shadowed() { with("PLUGIN_SHADOW", "all=reference@1/1").with("PLUGIN_CALL_FILES", folder); }

    // Makes the call, and returns the only file that it left.
    std::string file_of(const std::vector<std::string> &call) const {
        const Finished finished = run(call);
        INFO(finished.err);
        REQUIRE(finished.code == 0);
        std::vector<std::string> files;
        for (const auto &entry : std::filesystem::directory_iterator(folder)) {
            files.push_back(entry.path());
        }
        REQUIRE(files.size() == 1);
        CHECK(contains(finished.err, "the call was written to '" + files.front() + "', and plugin-run replays it"));
        return files.front();
    }

    std::string folder = (home().path() / "calls").string();
};

json printed(const Finished &finished) {
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    return json::parse(finished.out);
}

const std::vector<std::string> odd_call = {"planted.wrong_when_odd", "--in", "input=random:f32[2,3]", "--attr",
                                           "alpha=2"};

} // namespace

TEST_CASE("plugin-run replays the file of a call, and says whether it comes to the same as in the program") {
    const Shadowed program;
    const std::string file = program.file_of(odd_call);
    const Planted tool;
    const json again = printed(tool.run({file, "--json"}));
    CHECK(again.at("op") == "planted.wrong_when_odd");
    CHECK(again.at("device") == "cpu");
    CHECK(again.at("served")[0].at("impl_id") == "vendor.planted");
    CHECK(again.at("replayed").at("file") == file);
    CHECK(again.at("replayed").at("implementation") == "vendor.planted");
    CHECK(again.at("replayed").at("shadow") == "reference.planted");
    CHECK(again.at("inputs")[0].at("source") == file + ":input");
    const json &output = again.at("outputs")[0];
    CHECK(output.at("from_program") == json{{"agrees", true}, {"difference", nullptr}});
    CHECK(output.at("from_shadow").at("agrees") == false);
    CHECK(contains(again.at("replayed").at("difference"), output.at("from_shadow").at("difference")));

    const Finished right = tool.run({file, "--impl", "reference.planted"});
    INFO(right.out);
    CHECK(right.code == 0);
    CHECK(contains(right.out, "served by    reference.planted\n"));
    CHECK(contains(right.out, "in the file  'vendor.planted' on cpu:0; its shadow 'reference.planted'"));
    CHECK(contains(right.out, "not as the program got it: element 5 is "));
    CHECK(contains(right.out, "  as the shadow computed it\n"));
    CHECK(printed(tool.run({file, "--impl", "reference.planted", "--json"})).at("outputs")[0].at("from_shadow") ==
          json{{"agrees", true}, {"difference", nullptr}});
}

TEST_CASE("plugin-run replays a call that was written because of its number, and nothing is left to say of a shadow") {
    Planted program;
    const std::string folder = (program.home().path() / "calls").string();
    program.with("PLUGIN_CALL_FILES", folder + ";planted.sound@2");
    const json first = printed(program.run(
        {"planted.sound", "--in", "input=random:bf16[2,3]", "--attr", "alpha=0.1", "--repeat", "3", "--json"}));
    std::vector<std::string> files;
    for (const auto &entry : std::filesystem::directory_iterator(folder)) {
        files.push_back(entry.path());
    }
    REQUIRE(files.size() == 1);
    CHECK(files.front().ends_with("-call-2.safetensors"));
    const json again = printed(Planted().run({files.front(), "--json"}));
    CHECK(again.at("outputs")[0].at("first") == first.at("outputs")[0].at("first"));
    CHECK(again.at("outputs")[0].at("from_program").at("agrees") == true);
    CHECK(again.at("outputs")[0].at("from_shadow") == nullptr);
    CHECK(again.at("replayed").at("shadow") == nullptr);
}

TEST_CASE("plugin-check --replay judges an implementation by the call of a file") {
    const Shadowed program;
    const std::string file = program.file_of(odd_call);
    const Tool tool(PLUGIN_CHECK, {});
    const Finished wrong = tool.run({fixture("planted"), "--impl", "vendor.planted", "--replay", file, "--json"});
    INFO(wrong.out);
    INFO(wrong.err);
    CHECK(wrong.code == 1);
    const json document = json::parse(wrong.out);
    REQUIRE(document.at("ops").size() == 1);
    const json &op = document.at("ops")[0];
    CHECK(op.at("op") == "planted.wrong_when_odd");
    CHECK(op.at("cases") == 1);
    REQUIRE(op.at("findings").size() == 1);
    CHECK(op.at("findings")[0].at("check") == "wrong");
    CHECK(op.at("findings")[0].at("label") == "input f32[2,3], alpha=2");
    CHECK(op.at("findings")[0].at("command") ==
          "plugin-check " + fixture("planted") + " --replay " + file + " --impl vendor.planted");

    const Finished right = tool.run({fixture("planted"), "--impl", "reference.planted", "--replay", file, "--json"});
    INFO(right.out);
    CHECK(json::parse(right.out).at("ops")[0].at("findings").empty()); // the file as a whole has some
    CHECK(json::parse(right.out).at("ops")[0].at("compared") == 1);
}

TEST_CASE("without files and --impl, plugin-check --replay tries who served the call") {
    const Shadowed program;
    const std::string file = program.file_of(odd_call);
    const Tool tool(PLUGIN_CHECK, {fixture("planted")});
    const json document = json::parse(tool.run({"--replay", file, "--json"}).out);
    REQUIRE(document.at("ops").size() == 1);
    CHECK(document.at("ops")[0].at("impl_id") == "vendor.planted");
    CHECK(document.at("ops")[0].at("findings")[0].at("check") == "wrong");
}

TEST_CASE("what is no file of a call, and options that it leaves nothing to, are said") {
    const Planted tool;
    const std::string file = (tool.home().path() / "x.safetensors").string();
    files::write_safetensors(file, {});
    check_error(tool.run({file}), 1,
                "'" + file +
                    "': not a call file: its metadata has no format, expected opdock.call/1, which a host writes if "
                    "PLUGIN_CALL_FILES names a folder");
    check_error(tool.run({file + ".safetensors"}), 1, "no such file");
    check_error(tool.run({file, "--in", "input=ones:f32[2]"}), 2, "--in has no meaning for '" + file + "'");
    const Tool check(PLUGIN_CHECK, {});
    check_error(check.run({"--replay", file}), 1, "not a call file");
    check_error(check.run({"--replay", file, "--op", "gelu"}), 2, "do not combine it with --op, ");
}

TEST_CASE("plugin-run replays a call on tensors with the strides that they had") {
    const Planted tool;
    const std::string file = (tool.home().path() / "call.safetensors").string();
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    files::TensorData input{"input", OPDOCK_F32, {2, 3}, {}};
    input.bytes.resize(values.size() * sizeof(float));
    std::memcpy(input.bytes.data(), values.data(), input.bytes.size());
    const auto replayed = [&](const std::string &op, const std::string &strides) {
        files::write_safetensors(file, std::vector{input},
                                 {{"format", "opdock.call/1"},
                                  {"op", "planted." + op},
                                  {"device", "cpu:0"},
                                  {"implementation", "vendor.planted"},
                                  {"attributes", "{}"},
                                  {"outputs", "[]"},
                                  {"strides", strides}});
        return printed(tool.run({file, "--json"})).at("outputs")[0].at("first");
    };
    const json dense = replayed("sound", "{}");
    CHECK(replayed("sound", R"({"input":[1,2],"output":[5,1]})") == dense);
    CHECK(replayed("ignores_strides", "{}") == dense);
    CHECK(replayed("ignores_strides", R"({"input":[1,2]})") != dense);
}
