#include "state.hpp"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "cli/exit.hpp"
#include "temporary_directory.hpp"

using namespace opdock::plugin_bisect;
using nlohmann::json;
using opdock::test::TemporaryDirectory;

namespace {

const json of_search = {{"schema", "opdock.plugin-bisect.state/1"}, {"command", {"a"}}, {"score", ""}};

json run(const std::string &policy, uint64_t repeat, uint64_t number) {
    return {{"policy", policy}, {"repeat", repeat}, {"number", number}, {"exit_code", 0}, {"timed_out", false},
            {"score", nullptr}, {"seconds", 1.5},   {"out", "o"},       {"err", "e"},     {"served", json::array()}};
}

std::string message_of(const std::string &path, const json &of) {
    try {
        const State state(path, of);
    } catch (const opdock::cli::Failure &failure) {
        return failure.what();
    }
    return "";
}

bool says(const std::string &text, const std::string &part) {
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("finished runs are found again by policy and repeat") {
    const TemporaryDirectory folder;
    const std::string path = (folder.path() / "state").string();
    {
        State state(path, of_search);
        CHECK(state.folder() == path + ".runs");
        CHECK(std::filesystem::is_directory(state.folder()));
        state.add(run("gelu=reference", 1, 1));
        state.add(run("gelu=reference", 2, 2));
    }
    const State again(path, of_search);
    CHECK(again.runs() == 2);
    REQUIRE(again.find("gelu=reference", 2) != nullptr);
    CHECK(again.find("gelu=reference", 2)->at("number") == 2);
    CHECK(again.find("gelu=reference", 3) == nullptr);
    CHECK(again.find("", 1) == nullptr);
}

TEST_CASE("a line that was being written when the process ended is left out, and the next one follows what is whole") {
    const TemporaryDirectory folder;
    const std::string path = (folder.path() / "state").string();
    {
        State state(path, of_search);
        state.add(run("a", 1, 1));
    }
    std::ofstream(path, std::ios::app) << R"({"policy":"b","rep)";
    {
        State state(path, of_search);
        CHECK(state.runs() == 1);
        state.add(run("c", 1, 2));
    }
    CHECK(State(path, of_search).runs() == 2);
}

TEST_CASE("the state of another search, what is none, and one in use are refused") {
    const TemporaryDirectory folder;
    const std::string path = (folder.path() / "state").string();
    {
        const State state(path, of_search);
        CHECK(says(message_of(path, of_search), "another plugin-bisect is using it"));
    }
    json other = of_search;
    other["command"] = {"b"};
    CHECK(says(message_of(path, other), "its 'command' differs"));
    CHECK(says(message_of(folder.write("text", "hello\n").string(), of_search), "it is not a state of plugin-bisect"));
    CHECK(says(message_of(folder.write("word", "hello").string(), of_search), "it is not a state of plugin-bisect"));
    std::ofstream(path, std::ios::app) << "{}\n";
    CHECK(says(message_of(path, of_search), "it is damaged"));
}

TEST_CASE("without a file the state lies in a folder of its own") {
    const State one("", of_search);
    const State other("", of_search);
    CHECK(one.folder() != other.folder());
    CHECK(std::filesystem::exists(one.path()));
    for (const State *state : {&one, &other}) {
        std::filesystem::remove_all(state->folder());
    }
}
