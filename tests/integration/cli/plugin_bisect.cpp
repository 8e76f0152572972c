// plugin-bisect on a program that calls 64 ops, some of which a vendor computes wrongly.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

using namespace opdock::test;
using nlohmann::json;
using Texts = std::vector<std::string>;

namespace {

struct PluginBisect : Tool {
    PluginBisect() : Tool(PLUGIN_BISECT, {fixture("many_ops")}) {
        with("TMPDIR", home().path().string());
        with("PATH", "/usr/bin:/bin");
    }

    std::string path(const std::string &name) const { return (home().path() / name).string(); }
    Texts command(const Texts &options, const Texts &words = {CALLS_MANY}) const {
        Texts all = options;
        all.emplace_back("--");
        all.insert(all.end(), words.begin(), words.end());
        return all;
    }
    json document(int code, const Texts &options = {}, const Texts &words = {CALLS_MANY}) const {
        Texts all = {"--json"};
        all.insert(all.end(), options.begin(), options.end());
        const Finished finished = run(command(all, words));
        INFO(finished.err);
        REQUIRE(finished.code == code);
        return json::parse(finished.out);
    }
};

std::set<Texts> culprits_of(const json &document) {
    std::set<Texts> all;
    for (const json &culprit : document.at("culprits")) {
        Texts members;
        for (const json &member : culprit.at("members")) {
            members.push_back(member.at("op").get<std::string>() + " " + member.at("impl_id").get<std::string>());
        }
        all.insert(members);
    }
    return all;
}

std::string many(int place) {
    return "many.op" + std::to_string(place) + " vendor.many";
}

// A script that appends a line to `count` each time, and sets $n to the number of lines before.
Texts counting(const std::string &count, const std::string &then) {
    return {"sh", "-c", "n=$(cat " + count + " 2>/dev/null | wc -l); echo >>" + count + "; " + then};
}

} // namespace

TEST_CASE("one implementation that is wrong is found among 64, and replacing it alone makes the command good") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "37");
    const json document = bisect.document(0);
    CHECK(document["schema"] == "opdock.plugin-bisect/1");
    CHECK(document["result"] == "found");
    CHECK(document["ops_from"] == "log");
    CHECK(document["suspects"].size() == 64);
    CHECK(culprits_of(document) == std::set<Texts>{{many(37)}});
    CHECK(document["culprits"][0]["named_after"] <= 8);
    CHECK(document["runs"] <= 10);
    CHECK(document["remedy"] == json{{"PLUGIN_PER_OP", "many.op37=impl:reference.many"}});
    CHECK(document["remedy_tested"]);
    CHECK(document["as_it_is"]["runs"][0]["exit_code"] == 1);
    CHECK(document["replaced"]["runs"][0]["exit_code"] == 0);
    for (const json &trial : document["trials"]) {
        CHECK(std::filesystem::exists(trial["runs"][0]["err"].get<std::string>()));
    }

    Tool subject(CALLS_MANY, {fixture("many_ops")});
    subject.with("MANY_WRONG", "37");
    CHECK(subject.run({}).code == 1);
    subject.with("PLUGIN_PER_OP", document["remedy"]["PLUGIN_PER_OP"].get<std::string>());
    CHECK(subject.run({}).code == 0);
}

TEST_CASE("two implementations that are wrong are found within 20 runs") {
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    for (int round = 0; round < 3; ++round) {
        const int one = static_cast<int>(random() % 32);
        const int other = 32 + static_cast<int>(random() % 32);
        CAPTURE(one);
        CAPTURE(other);
        PluginBisect bisect;
        bisect.with("MANY_WRONG", std::to_string(one) + "," + std::to_string(other));
        const json document = bisect.document(0);
        CHECK(culprits_of(document) == std::set<Texts>{{many(one)}, {many(other)}});
        CHECK(document["runs"] <= 20);
    }
}

TEST_CASE("the first culprit alone takes 8 runs of 64 suspects") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "63");
    const json document = bisect.document(0, {"--first"});
    CHECK(culprits_of(document) == std::set<Texts>{{many(63)}});
    CHECK(document["runs"] <= 8);
    CHECK_FALSE(document["remedy_tested"]);
}

TEST_CASE("two that are wrong only together are no single op") {
    PluginBisect bisect;
    bisect.with("MANY_TOGETHER", "11,50");
    const json document = bisect.document(4);
    CHECK(document["result"] == "no-single-op");
    CHECK(culprits_of(document) == std::set<Texts>{{many(11), many(50)}});
    const Finished finished = bisect.run(bisect.command({}));
    CHECK(finished.code == 4);
    CHECK(contains(finished.out, "No single op: these are bad together"));
}

TEST_CASE("prepared calls are seen as well, and of a program that shows no log each op is suspected") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "3");
    const json prepared = bisect.document(0, {}, {CALLS_MANY, "prepared"});
    CHECK(prepared["ops_from"] == "log");
    CHECK(culprits_of(prepared) == std::set<Texts>{{many(3)}});
    const json silent = bisect.document(0, {}, {CALLS_MANY, "silent"});
    CHECK(silent["ops_from"] == "plugins");
    CHECK(silent["suspects"].size() == 64);
    CHECK(culprits_of(silent) == std::set<Texts>{{many(3)}});
}

TEST_CASE("a command that is good, and one whose fault is elsewhere, have no culprit") {
    PluginBisect bisect;
    CHECK(bisect.document(3)["result"] == "good-as-it-is");
    CHECK(contains(bisect.run(bisect.command({"--score", "x", "--at-least", "1"}, {"true"})).err,
                   "no number was printed"));
    const json elsewhere = bisect.document(3, {}, {"sh", "-c", CALLS_MANY "; exit 7"});
    CHECK(elsewhere["result"] == "not-in-ops");
    CHECK(elsewhere["runs"] == 2);
    CHECK(bisect.document(3, {}, {"false"})["result"] == "not-in-ops");
    CHECK(bisect.document(3, {"--op", "gelu"}, {"sh", "-c", CALLS_MANY "; exit 7"})["result"] == "no-suspects");
}

TEST_CASE("a policy of the program's own, which no variable can change, is an error that says so") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "7");
    check_error(bisect.run(bisect.command({}, {CALLS_MANY, "own-policy"})), 1,
                "'vendor.many' serves 'many.op7' despite PLUGIN_PER_OP=");
}

TEST_CASE("a score is bad below its threshold, and --op leaves the other ops as they are") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "20,21");
    const Texts score = {"--score", "right: ([0-9]+)", "--at-least", "64"};
    const Texts evaluate = {"sh", "-c", CALLS_MANY "; true"};
    const json document = bisect.document(0, score, evaluate);
    CHECK(culprits_of(document) == std::set<Texts>{{many(20)}, {many(21)}});
    CHECK(document["as_it_is"]["mean"] == 62);
    Texts one = score;
    one.insert(one.end(), {"--op", "many.op20", "--op", "many.op1"});
    const json narrow = bisect.document(3, one, evaluate);
    CHECK(narrow["result"] == "not-in-ops");
    CHECK(narrow["suspects"].size() == 2);
    const json failing = bisect.document(0, score); // it exits with 1, so its number does not count
    CHECK(failing["as_it_is"]["mean"].is_null());
    CHECK(culprits_of(failing) == culprits_of(document));
}

TEST_CASE("45 and 46 right answers of 50 are no significant difference") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "5");
    const Texts evaluate = {"sh", "-c", CALLS_MANY " && echo accuracy 46 || echo accuracy 45"};
    const Texts options = {"--score", "accuracy (.*)", "--of", "50"};
    const json document = bisect.document(3, options, evaluate);
    CHECK(document["result"] == "not-significant");
    CHECK(document["replaced"]["p"] == doctest::Approx(1));
    CHECK(document["criterion"]["test"] == "Fisher's exact test");
    CHECK(document["runs"] == 2);
    const Finished finished = bisect.run(bisect.command(options, evaluate));
    CHECK(finished.code == 3);
    CHECK(contains(finished.out,
                   "The command gives 45 of 50 as it is, and 46 of 50 with all 64 suspects replaced\n(p = 1,"));

    const json clear = bisect.document(0, options, {"sh", "-c", CALLS_MANY " && echo accuracy 46 || echo accuracy 25"});
    CHECK(culprits_of(clear) == std::set<Texts>{{many(5)}});
    CHECK(clear["replaced"]["p"] < 0.05);
}

TEST_CASE("a score that spreads is told by its repeats") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "9");
    const std::string noise = "noise=$((n * 7 % 5)); ";
    const Texts evaluate =
        counting(bisect.path("count"), noise + CALLS_MANY " && echo loss 1.$noise || echo loss 2.$noise");
    const json document = bisect.document(0, {"--score", "loss ([0-9.]+)", "--repeats", "4"}, evaluate);
    CHECK(culprits_of(document) == std::set<Texts>{{many(9)}});
    CHECK(document["criterion"]["test"] == "Welch's t-test");
    CHECK(document["as_it_is"]["runs"].size() == 4);
    for (const json &trial : document["trials"]) {
        CHECK(trial["p"] < 0.05);
    }
    // Runs with the same spread but no difference.
    const Texts same = counting(bisect.path("other"), noise + CALLS_MANY "; echo loss 1.$noise");
    CHECK(bisect.document(3, {"--score", "loss ([0-9.]+)", "--repeats", "4"}, same)["result"] == "not-significant");
}

TEST_CASE("a run that takes too long is ended with what it started, and is bad") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "2");
    const json document = bisect.document(0, {"--first", "--timeout", "10s", "--op", "many.op1", "--op", "many.op2"},
                                          {"sh", "-c", CALLS_MANY " || (sleep 1000 & sleep 1000)"});
    CHECK(culprits_of(document) == std::set<Texts>{{many(2)}});
    CHECK(document["as_it_is"]["runs"][0]["timed_out"]);
    CHECK(document["as_it_is"]["runs"][0]["exit_code"] == 137);
}

TEST_CASE("a search that was killed goes on with the runs that it finished") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "40");
    const std::string state = bisect.path("search.state");
    const std::string count = bisect.path("count");
    const Texts command = bisect.command({"--json", "--state", state}, counting(count, CALLS_MANY));
    CHECK(bisect.run_and_interrupt(command, "run 4: ", SIGKILL).code == 128 + SIGKILL);
    const Finished finished = bisect.run(command);
    INFO(finished.err);
    REQUIRE(finished.code == 0);
    const json document = json::parse(finished.out);
    CHECK(culprits_of(document) == std::set<Texts>{{many(40)}});
    CHECK(document["remembered"] >= 4);
    CHECK(document["state"] == state);

    const json again = json::parse(bisect.run(command).out);
    CHECK(again["remembered"] == again["runs"]);
    CHECK(culprits_of(again) == culprits_of(document));
    check_error(bisect.run(bisect.command({"--state", state}, {"true"})), 1, "its 'command' differs");
}

TEST_CASE("an interrupted search says what goes on from there") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "40");
    const Texts command = bisect.command({}, {"sh", "-c", CALLS_MANY " || (sleep 0.2; false)"});
    const Finished finished = bisect.run_and_interrupt(command, "run 3: ", SIGTERM);
    CHECK(finished.code == 128 + SIGTERM);
    CHECK(contains(finished.out, "Interrupted: --state "));
}

TEST_CASE("progress is told for each run, with the policy and what is left") {
    PluginBisect bisect;
    bisect.with("MANY_WRONG", "0");
    const Finished finished = bisect.run(bisect.command({}));
    CHECK(finished.code == 0);
    CHECK(contains(finished.err, "run 1: bad  exit code 1  as it is"));
    CHECK(contains(finished.err, "run 2: good  exit code 0  all replaced"));
    CHECK(contains(finished.err, "run 3: bad  exit code 1  all but 32 of 64 suspects replaced"));
    CHECK(contains(finished.err, "  at most "));
    CHECK(contains(finished.out, "\nBAD\n  many.op0  vendor.many\n"));
    CHECK(contains(finished.out, "  PLUGIN_PER_OP='many.op0=impl:reference.many'\n"));
    CHECK_FALSE(contains(finished.err, "\r"));
}

TEST_CASE("what cannot be run, and an order that is none, are errors before anything is searched") {
    PluginBisect bisect;
    check_error(bisect.run({}), 2, "expected the command after '--'");
    check_error(bisect.run(bisect.command({}, {"/nowhere/evaluate"})), 1,
                "cannot start the command '/nowhere/evaluate'");
    check_error(bisect.run(bisect.command({"--good", "refrence"})), 1, "did you mean 'reference'?");
    const Finished finished = bisect.run(bisect.command({"--json"}, {"/nowhere/evaluate"}));
    CHECK(json::parse(finished.out)["schema"] == "opdock.plugin-bisect.error/1");
}
