#include "package.hpp"

#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "encryption.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"

using namespace opdock;
using namespace opdock::plugin_pack;

namespace {

struct Key {
    keys::SecretKey secret{{}, keys::Secret((core::prepare_sodium(), size_t{crypto_sign_SECRETKEYBYTES}))};

    explicit Key(const std::string &name) {
        secret.public_key.name = name;
        crypto_sign_keypair(secret.public_key.bytes.data(), secret.bytes.data());
    }
    Trust trust() const {
        Trust trust;
        trust.keys.keys = {{secret.public_key, secret.public_key.name + ".pub"}};
        trust.keys.folders = {"trust.d"};
        return trust;
    }
};

Package framework_package() {
    Package package;
    package.device_type = "Acme_A1";
    package.tasks = {"inference", "train"};
    package.serial = 7;
    package.message = "first";
    package.models = {"llama"};
    Backend backend;
    backend.name = "framework";
    backend.format = "sha1";
    backend.changes.commit = std::string(40, 'a');
    backend.changes.tree = std::string(40, 'b');
    const std::string zeros(40, '0');
    for (int i = 0; i < 20; ++i) {
        const std::string path = i == 3 ? "n\xe4me" : "dir/" + std::to_string(i);
        backend.changes.list.push_back({i == 4 ? 'R' : 'M', i == 4 ? "old" : path, path, 0100644, 0100755, zeros, zeros,
                                        "diff --git a/x b/x\n" + std::to_string(i * 7919) + "\n"});
    }
    backend.changes.converted = {{"crlf.txt", "a\r\n"}};
    package.backends = {backend};
    package.attachments = {{"plugin", "libacme.so",
                            std::string("\x7f"
                                        "ELF\0\0",
                                        6)},
                           {"license", "LICENSE", "ours"}};
    return package;
}

// The contents of the members.
std::vector<std::string> unpacked(const std::string &packed, const std::vector<ExpectedMember> &expected) {
    Unpacker unpacker(packed);
    std::vector<std::string> contents;
    for (const ExpectedMember &one : expected) {
        std::string &content = contents.emplace_back();
        unpacker.next(one, [&](std::string_view piece) { content += piece; });
    }
    unpacker.end();
    return contents;
}

int code_of(const std::string &text, const Trust &trust) {
    try {
        open(parse_package(text, "p.opdock"), trust);
    } catch (const cli::Failure &failure) {
        return failure.code;
    }
    return 0;
}

} // namespace

TEST_CASE("a package comes back as it went in, and the same package is the same bytes") {
    const Key key("acme");
    const std::string text = print(framework_package(), &key.secret);
    CHECK(print(framework_package(), &key.secret) == text);
    const Trust trust = key.trust();
    const OpenedPackage opened = open(parse_package(text, "p.opdock"), trust);
    REQUIRE(opened.key.has_value());
    CHECK(opened.key->key.name == "acme");
    CHECK(print(opened.package, &key.secret) == text);
    CHECK(opened.package.backends.at(0).changes.list.at(3).path == "n\xe4me");
    CHECK(opened.package.attachments.at(0).content.size() == 6);
}

TEST_CASE("every change of one byte is refused, and every truncation") {
    const Key key("acme");
    const Trust trust = key.trust();
    const std::string text = print(framework_package(), &key.secret);
    for (size_t at = 0; at < text.size(); ++at) {
        CAPTURE(at);
        std::string changed = text;
        changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
        CHECK(code_of(changed, trust) == exit_not_trusted);
    }
    for (size_t size = 0; size < text.size(); size += 13) {
        CAPTURE(size);
        CHECK(code_of(text.substr(0, size), trust) == exit_not_trusted);
    }
    CHECK(code_of(text + "x", trust) == exit_not_trusted);
    CHECK(code_of(text, trust) == 0);
}

TEST_CASE("another key, a forged one and none are refused, and none is taken only where that is allowed") {
    const Key key("acme");
    const Key other("other");
    const std::string text = print(framework_package(), &key.secret);
    CHECK_THROWS_WITH_AS(open(parse_package(text, "p.opdock"), other.trust()),
                         doctest::Contains("which is not a trusted key (trust.d)"), cli::Failure);
    Trust confused = other.trust(); // the id of one key with the bytes of another
    const std::string stolen = print(framework_package(), &other.secret);
    std::string forged = text;
    forged.replace(forged.find("key ") + 4, 16, stolen.substr(stolen.find("key ") + 4, 16));
    CHECK_THROWS_WITH_AS(open(parse_package(forged, "p.opdock"), confused),
                         doctest::Contains("the signature is invalid"), cli::Failure);

    const std::string unsigned_text = print(framework_package(), nullptr);
    Trust trust = key.trust();
    CHECK_THROWS_WITH_AS(open(parse_package(unsigned_text, "p.opdock"), trust), doctest::Contains("it is not signed"),
                         cli::Failure);
    trust.allow_unsigned = true;
    CHECK_FALSE(open(parse_package(unsigned_text, "p.opdock"), trust).key.has_value());
    std::string stripped = text; // a removed signature counts as none
    stripped.replace(stripped.find("signature ") + 10, 128, "-");
    CHECK(code_of(stripped, trust) == exit_not_trusted);
}

TEST_CASE("an encrypted package says for whom and where, and only its recipients read the rest") {
    const Key key("acme");
    const Key customer("customer"), second("second"), stranger("stranger");
    const Trust trust = key.trust();
    Package package = framework_package();
    package.attachments[0].content.assign(300'000, 'p'); // several pieces
    const std::string text = print(package, &key.secret, {customer.secret.public_key, second.secret.public_key});
    CHECK(text.find("dir/1") == std::string::npos);
    CHECK(print(package, &key.secret, {customer.secret.public_key}) !=
          print(package, &key.secret, {customer.secret.public_key}));
    const OpenedPackage closed = open(parse_package(text, "p.opdock"), trust);
    CHECK_FALSE(closed.is_open);
    CHECK(closed.recipients ==
          std::vector<std::string>{customer.secret.public_key.id(), second.secret.public_key.id()});
    CHECK(closed.package.device_type == "Acme_A1");
    CHECK(closed.package.backends.at(0).changes.list.empty());
    for (const Key *reader : {&customer, &second}) {
        const OpenedPackage opened = open(parse_package(text, "p.opdock"), trust, &reader->secret);
        CHECK(opened.is_open);
        CHECK(print(opened.package, &key.secret) == print(package, &key.secret));
    }
    CHECK_THROWS_WITH_AS(open(parse_package(text, "p.opdock"), trust, &stranger.secret),
                         doctest::Contains("it is encrypted for other keys"), cli::Failure);
    for (size_t at = 0; at < text.size(); at += 997) {
        CAPTURE(at);
        std::string changed = text;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        CHECK(code_of(changed, trust) == exit_not_trusted);
    }
}

TEST_CASE("encrypted bytes that were changed, cut, put in another order or added to are refused") {
    const Key key("reader");
    const std::string plain(200'000, 'x');
    const Encrypted encrypted = encrypt(plain, {key.secret.public_key});
    CHECK(decrypt(encrypted, key.secret) == plain);
    CHECK(decrypt(encrypt("", {key.secret.public_key}), key.secret).empty());
    constexpr size_t piece = (64 << 10) + 17;
    const auto refused = [&](std::string bytes) {
        CHECK_THROWS_AS(decrypt({encrypted.recipients, std::move(bytes)}, key.secret), cli::Failure);
    };
    const std::string &bytes = encrypted.bytes;
    refused("");
    refused(bytes.substr(0, 10));
    refused(bytes.substr(0, 24));
    refused(bytes.substr(0, 24 + piece));
    refused(bytes.substr(0, bytes.size() - 1));
    refused(bytes + "x");
    refused(bytes.substr(0, 24) + bytes.substr(24 + piece, piece) + bytes.substr(24, piece) +
            bytes.substr(24 + 2 * piece));
    std::string changed = bytes;
    changed[100] = static_cast<char>(changed[100] ^ 1);
    refused(changed);
}

TEST_CASE("what a signer got wrong is refused: paths, names, kinds") {
    const Key key("acme");
    const Trust trust = key.trust();
    for (const char *path :
         {"/etc/passwd", "../up", "a/../b", "a//b", "", ".git/config", "a/.GIT/hooks/x", "GIT~1/x", "a/.", "a/"}) {
        CAPTURE(path);
        Package package = framework_package();
        package.backends[0].changes.list[0].path = path;
        CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
        package = framework_package();
        package.backends[0].changes.list[0].old_path = path;
        CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
        package = framework_package();
        package.backends[0].changes.converted[0].first = path;
        CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
        package = framework_package();
        package.attachments[0].name = path;
        CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
        package = framework_package();
        package.backends[0].name = path;
        CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
    }
    for (const char *device : {"acme_A1", "Acme", "Acme_", "_A1", "Acme_A_1", "Acme_../..", "Acme/_A1", "A\nB_C"}) {
        CAPTURE(device);
        CHECK_FALSE(is_device_type(device));
        Package package = framework_package();
        package.device_type = device;
        CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
    }
    CHECK(is_device_type("Acme_A1"));
    Package package = framework_package();
    package.serial = most_serial + 1;
    CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
    package = framework_package();
    package.tasks = {"mine"};
    CHECK(code_of(print(package, &key.secret), trust) == exit_not_trusted);
}

TEST_CASE("an archive gives what was listed and nothing else, however large it says it is") {
    const std::vector<Member> members = {{"a", "1"}, {"b", std::string(1 << 20, '\0')}};
    const std::string packed = pack(members);
    CHECK(packed.size() < 4096);
    const ExpectedMember a{"a", 1, core::sha256_of("1")}, b{"b", 1 << 20, core::sha256_of(members[1].content)};
    CHECK(unpacked(packed, {a, b}).at(1) == members[1].content);
    const auto refusal = [](const std::string &text, const std::vector<ExpectedMember> &expected) {
        try {
            unpacked(text, expected);
        } catch (const cli::Failure &failure) {
            CHECK(failure.code == exit_not_trusted);
            return std::string(failure.what());
        }
        return std::string();
    };
    CHECK(refusal(packed, {a}) == "the package holds more than its manifest lists");
    CHECK(refusal(packed, {a, {"b", 5, b.sha256}}) ==
          "the member b of the package has 1048576 bytes, but the package lists 5");
    CHECK(refusal(packed, {b, a}) == "the content of the package differs from its manifest: expected b");
    CHECK(refusal(packed, {a, b, {"c", 0, {}}}) == "the package ends before its member c");
    CHECK(refusal(packed, {a, {"b", 1 << 20, a.sha256}}) == "the member b is not the one that was signed");
    CHECK_FALSE(refusal("", {a}).empty());
}
