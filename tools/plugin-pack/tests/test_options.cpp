// The help of plugin-pack.
#include "request.hpp"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

using namespace opdock::plugin_pack;

TEST_CASE("the help fits a terminal of 80 columns") {
    std::istringstream text(tool.help());
    for (std::string line; std::getline(text, line);) {
        CAPTURE(line);
        CHECK(line.size() <= 80);
    }
}

TEST_CASE("the usage of each command that trusts keys says how to name one") {
    const std::string text = tool.help();
    const std::string usage = text.substr(0, text.find("\n\n"));
    for (const auto &command : tool.commands) {
        CAPTURE(command.name);
        const bool trusts = std::any_of(command.options.begin(), command.options.end(),
                                        [](const std::string &option) { return option == "pub"; });
        const size_t begin = usage.find(std::string("plugin-pack ") + command.name + " ");
        REQUIRE(begin != std::string::npos);
        const std::string own = usage.substr(begin, usage.find("\n       plugin-pack", begin) - begin);
        CHECK((own.find("[--pub NAME.pub]") != std::string::npos) == trusts);
    }
}

TEST_CASE("the help of patch has --backend in brackets, and what a package without one is") {
    const std::string text = tool.help({"patch"});
    CHECK(text.starts_with("Usage: plugin-pack patch [--backend [NAME=]DIR@COMMIT]... --device-type TYPE\n"));
    CHECK(text.find("Without --backend the package only has plugins and their files.") != std::string::npos);
}

TEST_CASE("the help of each command has its usage and what it does") {
    for (const auto &command : tool.commands) {
        CAPTURE(command.name);
        const std::string name = command.name;
        const std::string text = tool.help({name});
        CHECK(text.starts_with("Usage: plugin-pack " + name + " "));
        CHECK(text.find("\n\n  " + name) != std::string::npos);
        for (const char *option : command.options) {
            CHECK(text.find("\n  --" + std::string(option) + " ") != std::string::npos);
        }
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            CHECK(line.size() <= 80);
        }
    }
}
