#include "trust/public_key.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include "signer.hpp"
#include "temporary_directory.hpp"
#include "thrown_error.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::Signer;

TEST_CASE("a public key is read as it is printed, with comments around it") {
    const PublicKey key = Signer("acme-2026").key();
    const PublicKey read = parse_public_key("# of acme\n\n" + print(key) + "# fetched in May\n", "acme.pub");
    CHECK(read.name == "acme-2026");
    CHECK(read.bytes == key.bytes);
    CHECK(read.id() == key.id());
    CHECK(key.id().size() == 16);
    CHECK(key.text() == "key 'acme-2026' (" + key.id() + ")");
}

TEST_CASE("a wrong public key is an error with its line") {
    const std::string key = print(Signer("acme").key());
    const auto message = [](const std::string &text) {
        return message_of([&] { parse_public_key(text, "/k/acme.pub"); });
    };
    CHECK(message("") == "/k/acme.pub:1: the file ends too early");
    CHECK(message("opdock.secret-key/1\n") ==
          "/k/acme.pub: this is a secret key; expected the public key that belongs to it: NAME.pub beside NAME.key");
    CHECK(message("opdock.public-key/2\n") ==
          "/k/acme.pub:1: expected 'opdock.public-key/1', found 'opdock.public-key/2'");
    CHECK(message("opdock.public-key/1\nname a b\n") ==
          "/k/acme.pub:2: expected a name of at most 64 letters, digits and ._@+-, found 'a b'");
    CHECK(message("opdock.public-key/1\nname a\nkey 12\n") ==
          "/k/acme.pub:3: expected 64 digits of 0-9a-f after 'key', found '12'");
    CHECK(message("opdock.public-key/1\nkey a\n").starts_with("/k/acme.pub:2: expected 'name (a name)', found"));
    CHECK(message(key + key) ==
          "/k/acme.pub:3: expected nothing after the key; put further keys into files of their own");
    CHECK(message(key.substr(0, key.size() - 1)) == "/k/acme.pub:3: the file ends in the middle of this line");
    CHECK(message(std::string(600, 'x') + "\n") == "/k/acme.pub:1: a line has 600 characters; at most 512 are allowed");
    CHECK(message(std::string(513, 'x') + "\n") == "/k/acme.pub:1: a line has 513 characters; at most 512 are allowed");
    CHECK(message("opdock.public-key/1\n" + std::string(600, 'x') + "\n") ==
          "/k/acme.pub:2: a line has 600 characters; at most 512 are allowed");
    CHECK(message(std::string(512, 'x') + "\n").starts_with("/k/acme.pub:1: expected 'opdock.public-key/1', found"));
}

TEST_CASE("the file of a public key has at most 4096 bytes") {
    const opdock::test::TemporaryDirectory folder;
    std::string text = print(Signer("acme").key());
    while (text.size() < most_key_bytes) {
        text += "#" + std::string(std::min<std::size_t>(most_key_bytes - text.size() - 1, 100), '\n');
    }
    REQUIRE(text.size() == 4096);
    CHECK(read_public_key(folder.write("acme.pub", text)).name == "acme");
    CHECK(message_of([&] {
              read_public_key(folder.write("acme.pub", text + "\n"));
          }).ends_with("the file is longer than 4096 bytes; shorten it"));
}

TEST_CASE("a name of a key cannot lead out of a folder or spoil a terminal") {
    for (const char *wrong : {"", "a/b", "a b", "a\x1b[31m", "a\n", "\xc3\xa4"}) {
        CAPTURE(wrong);
        CHECK_FALSE(is_key_name(wrong));
    }
    CHECK(is_key_name(std::string(64, 'a')));
    CHECK_FALSE(is_key_name(std::string(65, 'a')));
    CHECK(is_key_name("release+2026@acme.example_-."));
    CHECK(is_key_name("09AZaz"));
}
