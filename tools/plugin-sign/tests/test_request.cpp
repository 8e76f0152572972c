#include "request.hpp"

#include <doctest/doctest.h>

#include "cli/exit.hpp"

using namespace opdock::plugin_sign;
using opdock::cli::UsageError;

TEST_CASE("each command takes what it is about, as an absolute path") {
    const Request keygen = parse_request({"keygen", "/k/acme", "--no-passphrase"});
    CHECK(keygen.action == Action::keygen);
    CHECK(keygen.subjects == std::vector<std::string>{"/k/acme"});
    CHECK(keygen.no_passphrase);
    const Request sign = parse_request({"sign", "--key", "/k/acme.key", "/p/libacme.so", "--passphrase-file", "/k/p"});
    CHECK(sign.action == Action::sign);
    CHECK(sign.subjects == std::vector<std::string>{"/p/libacme.so"});
    CHECK(sign.key == "/k/acme.key");
    CHECK(sign.passphrase_file == "/k/p");
    const Request verify =
        parse_request({"verify", "/p/../p/libacme.so", "--pub", "/a.pub", "--pub", "/b.pub", "--json"});
    CHECK(verify.action == Action::verify);
    CHECK(verify.subjects == std::vector<std::string>{"/p/libacme.so"});
    CHECK(verify.public_keys == std::vector<std::string>{"/a.pub", "/b.pub"});
    CHECK(verify.json);
    CHECK(parse_request({"digest", "a", "--format", "json"}).json);
    CHECK(parse_request({"verify", "/x.so", "--trusted", "/etc/keys"}).trusted == "/etc/keys");
    CHECK(parse_request({"digest", "a", "b"}).subjects == std::vector<std::string>{"a", "b"});
}

TEST_CASE("help and version need nothing else") {
    CHECK(parse_request({"--help"}).action == Action::help);
    CHECK(parse_request({"sign", "-h"}).action == Action::help);
    CHECK(parse_request({"--version"}).action == Action::version);
    for (const char *word : {"keygen", "sign", "verify", "digest", "--passphrase-file", "--no-passphrase", "--pub",
                             "--trusted", "--key", "--json", "--version", "--help"}) {
        CAPTURE(word);
        CHECK(help_text().find(word) != std::string::npos);
    }
    CHECK(help_text().find("words") == std::string::npos);
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
            "--pub and --trusted are two answers to whom you trust; give one");
    refuses({"verify", ""}, "a path is empty");
    CHECK_THROWS_AS(parse_request({"verify", "a.so", "--trust", "d"}), UsageError); // no abbreviations
}
