#include "report.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "binary.hpp"
#include "request.hpp"

#include "cli/exit.hpp"

using namespace opdock::plugin_check;
using nlohmann::json;
using opdock::cli::Page;
using opdock::cli::UsageError;

namespace {

json document() {
    return json::parse(R"({"schema": "opdock.plugin-check/1", "version": "1.0.0", "seed": 7, "seconds": 1.25,
        "interrupted": false,
        "files": [{"path": "/x/libacme.so", "status": "ok", "id": "acme", "version": "1.0", "vendor": "Acme & Co",
                   "abi": [1, 0], "build_id": "ab", "needs": {"GCC": "3.0", "GLIBC": "2.34"}, "libraries": [], "warnings": [],
                   "findings": [{"check": "exports", "message": "exports more"}]}],
        "ops": [{"op": "gelu", "impl_id": "vendor.acme", "device": "cpu", "dtypes": ["f32"], "deterministic": true,
                 "has_reference": true, "cases": 40, "calls": 120, "most_elements": 1024, "most_dims": 3, "ran": 39, "declined": 1, "skipped": 0, "compared": 39,
                 "configs": 0, "configs_left_out": 0, "seconds": 1.0, "declines": {}, "worst": {"f32": {"output": 1e-7}},
                 "findings": [{"check": "wrong", "message": "'output': <far> off", "case": 3, "label": "input f32[3,5]",
                               "dtypes": "f32", "also": 2, "also_dtypes": ["bf16"],
                               "command": "plugin-check /x/libacme.so --op gelu --case 3"}], "notes": []},
                {"op": "relu", "impl_id": "vendor.acme", "device": "cpu", "dtypes": ["f32"], "deterministic": true,
                 "has_reference": true, "cases": 40, "calls": 130, "most_elements": 65536, "most_dims": 2, "ran": 40, "declined": 0, "skipped": 0, "compared": 40,
                 "configs": 4, "configs_left_out": 0, "seconds": 0.5, "declines": {}, "worst": {}, "findings": [],
                 "notes": ["a note"]}]})");
}

bool contains(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

json sound() {
    return json::parse(R"({"path": "/x/libacme.so", "status": "ok", "code": "", "reason": "", "build_id": "ab",
        "warnings": [], "note": {"id": "acme", "version": "1", "vendor": "Acme", "abi": [1, 0]},
        "linkage": {"exports": ["opdock_register"], "libraries": [], "search_paths": [],
                    "versions": {"GLIBC": "2.9"}, "relocates_text": false}})");
}

} // namespace

TEST_CASE("the text has a row for each op, and with each finding the command that shows it again") {
    CHECK(render_text(document(), Page(false)) == R"(/x/libacme.so
  acme 1.0 of Acme & Co, needs GCC 3.0, GLIBC 2.34 or newer
  FAIL  libacme.so
        exports: exports more

  FAIL  gelu  vendor.acme  39 cases, 1 declined; relative error: f32 1e-07
        wrong (f32): 'output': <far> off
          input f32[3,5]; and 2 more, also with bf16
          plugin-check /x/libacme.so --op gelu --case 3
  ok    relu  vendor.acme  40 cases, 4 configs
        note: a note

2 implementations checked in 1.2 s with seed 7: 2 findings; 79 cases of 250
calls were tried, with inputs of at most 65536 elements and 3 dims
)");
}

TEST_CASE("one of a thing is not several") {
    json one = document();
    one["ops"].erase(1);
    one["ops"][0].update({{"ran", 1}, {"calls", 1}, {"most_elements", 1}, {"most_dims", 1}, {"configs", 1}});
    const std::string text = render_text(one, Page(false, 200));
    CHECK(contains(text, "  1 case, 1 declined, 1 config;"));
    CHECK(contains(text, "1 implementation checked in "));
    CHECK(contains(text, "1 case of 1 call was tried, with inputs of at most 1 element and 1 dim\n"));
}

TEST_CASE("a run that was ended early is not reported as a sound plugin") {
    json interrupted = document();
    interrupted["files"][0]["findings"] = json::array();
    interrupted["ops"].erase(0);
    interrupted["interrupted"] = true;
    CHECK(contains(render_text(interrupted, Page(false, 200)),
                   ": interrupted; until then nothing found; 40 cases of 130 calls were tried"));
    CHECK(contains(render_junit(interrupted), R"(tests="3" failures="0" errors="1")"));
    CHECK(contains(render_html(interrupted), R"(<span class="fail">interrupted; until then nothing found)"));
}

TEST_CASE("it is said at the end when values were not compared") {
    json uncompared = document();
    uncompared["ops"][1]["has_reference"] = false;
    CHECK(contains(render_text(uncompared, Page(false, 200)), " and 3 dims; the values of 1 were not compared\n"));
}

TEST_CASE("files for build servers and people escape what plugins say") {
    const std::string xml = render_junit(document());
    CHECK(contains(xml, R"(<testsuite name="plugin-check" tests="3" failures="2" errors="0")"));
    CHECK(contains(xml, R"(message="'output': &lt;far&gt; off")"));
    CHECK(contains(xml, R"(<testcase classname="plugin-check.vendor.acme" name="relu" time="0.5"/>)"));
    const std::string html = render_html(document());
    CHECK(contains(html, "&lt;far&gt;"));
    CHECK(contains(html, "Acme &amp; Co"));
    CHECK(contains(html, ", build ab, needs GCC 3.0, GLIBC 2.34 or newer</p>"));
    CHECK_FALSE(contains(html, "http"));
    json hostile = document();
    hostile["ops"][0]["findings"][0]["message"] = "a\x1b[1mb\u202ec\u009b";
    for (const std::string &text : {render_junit(hostile), render_html(hostile)}) {
        CHECK(contains(text, "a\\x1b[1mb\\u202ec\\u009b"));
    }
    CHECK(html.find("gelu") < html.find("relu"));
}

TEST_CASE("a file that is as it should be has no findings") {
    const json judged = judge_binary(sound(), "2.28");
    CHECK(judged["findings"].empty());
    CHECK(judged["warnings"].empty());
    CHECK(judged["needs"]["GLIBC"] == "2.9");
}

TEST_CASE("each requirement on a file is a finding of its own") {
    const auto finding = [](const char *pointer, const json &value, const std::string &glibc = "") {
        json verdict = sound();
        verdict[json::json_pointer(pointer)] = value;
        const json judged = judge_binary(verdict, glibc);
        REQUIRE(judged["findings"].size() == 1);
        return judged["findings"][0]["check"].get<std::string>();
    };
    CHECK(finding("/status", "rejected") == "rejected");
    CHECK(finding("/linkage/exports", {"opdock_register", "helper"}) == "exports");
    CHECK(finding("/linkage/search_paths", {"/home/me/lib"}) == "search-path");
    CHECK(finding("/linkage/relocates_text", true) == "text-relocations");
    CHECK(finding("/linkage/versions/GLIBC", "2.34", "2.28") == "glibc");
    json relative = sound();
    relative["linkage"]["search_paths"] = {"$ORIGIN/../lib"};
    CHECK(judge_binary(relative, "")["findings"].empty());
}

TEST_CASE("of many symbols that a file shows the first are named, as C++ writes them") {
    const auto message = [](const std::vector<std::string> &exports) {
        json verdict = sound();
        verdict["linkage"]["exports"] = exports;
        const json findings = judge_binary(verdict, "").at("findings");
        const auto text = findings.at(0).at("message").get<std::string>();
        const std::string begin = "exports symbols other than opdock_register: ";
        REQUIRE(text.starts_with(begin));
        return text.substr(begin.size(), text.find(". Symbols") - begin.size());
    };
    CHECK(message({"opdock_register", "helper"}) == "helper");
    CHECK(message({"_ZN4acme6KernelIfE3runEv", "_ZTVN4acme4BaseE", "_Z4freev", "_ZNKSt6vectorIfE4sizeEv"}) ==
          "acme::Kernel, vtable of acme::Base, free, std::vector");
    CHECK(message({"_Z", "_ZN", "_Z99x", "_ZNSt"}) == "_Z, _ZN, _Z99x, _ZNSt");
    CHECK(message({"a", "b", "c", "d", "opdock_register", "e", "f"}) == "a, b, c, d and 2 more");
    CHECK(message({"_Z3runIfEvT_", "_Z3runIdEvT_"}) == "run");
    CHECK(message({"_ZZN4acme3runEvE5count"}) == "variable in acme::run");
    std::vector<std::string> many;
    for (int i = 100; i < 164; ++i) { // the most that the host names
        many.push_back("f" + std::to_string(i));
    }
    CHECK(message(many) == "f100, f101, f102, f103 and at least 60 more");
}

TEST_CASE("a request says what to check") {
    const Request request =
        tool.read({"liba.so", "--op", "gelu", "--op", "relu", "--seed", "3", "--timeout", "2m"}).request;
    CHECK_FALSE(request.lists);
    CHECK(request.ops == std::vector<std::string>{"gelu", "relu"});
    CHECK(request.seed == 3);
    CHECK(request.timeout == 120);
    for (const std::vector<std::string> &wrong : std::vector<std::vector<std::string>>{{},
                                                                                       {"--op", "gelu"},
                                                                                       {"liba.so", "--case", "3"},
                                                                                       {"liba.so", "--glibc", "new"},
                                                                                       {"liba.so", "--threads", "1"}}) {
        CHECK_THROWS_AS(tool.read(wrong), UsageError);
    }
}
