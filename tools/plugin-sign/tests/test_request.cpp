#include "request.hpp"

#include <doctest/doctest.h>

using namespace opdock::plugin_sign;
using opdock::cli::UsageError;

namespace {

Request parse_request(const std::vector<std::string> &arguments) {
    return tool.read(arguments).request;
}

std::string command_of(const std::vector<std::string> &arguments) {
    const auto asked = tool.read(arguments);
    return asked.command != nullptr ? asked.command->name : asked.text;
}

} // namespace

TEST_CASE("each command takes what it is about, as an absolute path") {
    const Request keygen = parse_request({"keygen", "/k/acme", "--no-passphrase"});
    CHECK(command_of({"keygen", "/k/acme"}) == "keygen");
    CHECK(keygen.subjects == std::vector<std::string>{"/k/acme"});
    CHECK(keygen.no_passphrase);
    const Request sign = parse_request({"sign", "--key", "/k/acme.key", "/p/libacme.so", "--passphrase-file", "/k/p"});
    CHECK(command_of({"sign", "--key", "/k/acme.key", "/p/libacme.so"}) == "sign");
    CHECK(sign.subjects == std::vector<std::string>{"/p/libacme.so"});
    CHECK(sign.key == "/k/acme.key");
    CHECK(sign.passphrase_file == "/k/p");
    const Request verify =
        parse_request({"verify", "/p/../p/libacme.so", "--pub", "/a.pub", "--pub", "/b.pub", "--json"});
    CHECK(command_of({"verify", "/p/libacme.so"}) == "verify");
    CHECK(verify.subjects == std::vector<std::string>{"/p/libacme.so"});
    CHECK(verify.public_keys == std::vector<std::string>{"/a.pub", "/b.pub"});
    CHECK(verify.json);
    CHECK(command_of({"digest", "a"}) == "digest");
    CHECK(parse_request({"digest", "a", "--format", "json"}).json);
    CHECK(parse_request({"verify", "/x.so", "--trusted", "/etc/keys"}).trusted == "/etc/keys");
    CHECK(parse_request({"digest", "a", "b"}).subjects == std::vector<std::string>{"a", "b"});
}

TEST_CASE("help and version need nothing else") {
    CHECK(command_of({"--help"}) == tool.help());
    CHECK(command_of({"sign", "-h"}) == tool.help({"sign"}));
    CHECK(command_of({"--version"}).starts_with("plugin-sign "));
    for (const char *word : {"keygen", "sign", "verify", "digest", "--passphrase-file", "--no-passphrase", "--pub",
                             "--trusted", "--key", "--json", "--version", "--help"}) {
        CAPTURE(word);
        CHECK(tool.help().find(word) != std::string::npos);
    }
    CHECK(tool.help().find("words") == std::string::npos);
}

TEST_CASE("wrong usage says what is wrong") {
    const auto refuses = [](const std::vector<std::string> &arguments, const char *message) {
        CHECK_THROWS_WITH_AS(parse_request(arguments), message, UsageError);
    };
    refuses({}, "expected a command: keygen, sign, verify or digest");
    refuses({"sing", "x"}, "unknown command 'sing'; did you mean 'sign'?");
    refuses({"keygen"}, "keygen expects the NAME of the key");
    refuses({"sign", "a.so", "b.so", "--key", "k"}, "sign expects the FILE.so or plugin.json");
    refuses({"sign", "a.so"}, "sign expects --key NAME.key");
    refuses({"digest"}, "digest expects at least one FILE");
    refuses({"verify", "a.so", "--key", "k"}, "--key has no meaning with verify");
    refuses({"sign", "a.so", "--key", "k", "--json"}, "--json has no meaning with sign");
    refuses({"sign", "a.so", "--key", "k", "--format", "json"}, "--format json has no meaning with sign");
    refuses({"sign", "a.so", "--key", "k", "--no-passphrase"}, "--no-passphrase has no meaning with sign");
    refuses({"keygen", "a", "--no-passphrase", "--passphrase-file", "p"},
            "--passphrase-file and --no-passphrase contradict each other");
    refuses({"verify", "a.so", "--pub", "k", "--trusted", "d"},
            "--pub and --trusted both say whom you trust; give one");
    refuses({"verify", ""}, "a path is empty");
    refuses({"digest", "a", ""}, "a path is empty");
    CHECK_THROWS_AS(parse_request({"verify", "a.so", "--trust", "d"}), UsageError); // no abbreviations
}
