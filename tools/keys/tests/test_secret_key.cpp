#include "keys/secret_key.hpp"

#include <cstring>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "cli/exit.hpp"
#include "files/digest.hpp"
#include "temporary_directory.hpp"
#include "text/error.hpp"

using namespace opdock;
using namespace opdock::keys;
using opdock::test::TemporaryDirectory;

namespace {

Secret passphrase(const std::string &text) {
    core::prepare_sodium();
    Secret secret(text.size());
    std::memcpy(secret.data(), text.data(), text.size());
    return secret;
}

Secret nobody_asks() {
    FAIL("a passphrase was asked for");
    return passphrase("");
}

// A key file, with the required mode.
struct KeyFile {
    TemporaryDirectory directory;
    std::string path;

    explicit KeyFile(const std::string &text) : path(directory.write("acme.key", text).string()) { mode(0600); }
    void mode(mode_t mode) const { REQUIRE(::chmod(path.c_str(), mode) == 0); }
    SecretKey read(const AskPassphrase &ask = nobody_asks) const { return read_secret_key(path, ask); }
    std::string refusal(const AskPassphrase &ask = nobody_asks) const {
        try {
            (void)read(ask);
        } catch (const std::exception &error) {
            return error.what();
        }
        return "";
    }
};

core::PublicKey named(const std::string &name) {
    core::prepare_sodium();
    core::PublicKey key;
    key.name = name;
    return key;
}

bool can_sign(const SecretKey &key) {
    const unsigned char text[] = {1, 2, 3};
    std::array<unsigned char, crypto_sign_BYTES> signature{};
    crypto_sign_detached(signature.data(), nullptr, text, sizeof text, key.bytes.data());
    return crypto_sign_verify_detached(signature.data(), text, sizeof text, key.public_key.bytes.data()) == 0;
}

} // namespace

TEST_CASE("a secret key without a passphrase is read as it was made") {
    core::PublicKey made = named("acme");
    const KeyFile file(make_secret_key(made, nullptr));
    const SecretKey read = file.read();
    CHECK(read.public_key.bytes == made.bytes);
    CHECK(read.public_key.name == "acme");
    CHECK(can_sign(read));
}

TEST_CASE("a secret key with a passphrase needs that one") {
    core::PublicKey made = named("acme");
    const Secret right = passphrase("correct horse");
    const std::string text = make_secret_key(made, &right);
    CHECK(text.find("\nkdf argon2id 3 268435456\n") != std::string::npos);
    const KeyFile file(text);
    CHECK(can_sign(file.read([] { return passphrase("correct horse"); })));
    CHECK(file.refusal([] { return passphrase("correct horsf"); }) ==
          file.path + ": the passphrase is wrong, or the file was changed");
    CHECK(file.refusal([] { return passphrase(""); }).ends_with("the passphrase is wrong, or the file was changed"));
}

TEST_CASE("two keys with one passphrase have nothing in common") {
    core::PublicKey first = named("acme");
    core::PublicKey second = named("acme");
    CHECK(make_secret_key(first, nullptr) != make_secret_key(second, nullptr));
    CHECK(first.bytes != second.bytes);
}

TEST_CASE("a secret key that others may read is refused") {
    core::PublicKey made = named("acme");
    const KeyFile file(make_secret_key(made, nullptr));
    for (const mode_t mode : {0644, 0640, 0604, 0620, 0601}) {
        file.mode(mode);
        CAPTURE(mode);
        CHECK(file.refusal().find("no other user may read it") != std::string::npos);
    }
    file.mode(0400);
    CHECK(can_sign(file.read()));
}

TEST_CASE("a changed or cut secret key is an error") {
    core::PublicKey made = named("acme");
    const std::string text = make_secret_key(made, nullptr);
    for (std::size_t size = 0; size < text.size(); size += 7) {
        CAPTURE(size);
        CHECK(KeyFile(text.substr(0, size)).refusal().find("acme.key:") != std::string::npos);
    }
    const auto with = [&](const std::string &from, const std::string &to) {
        std::string changed = text;
        changed.replace(changed.find(from), from.size(), to);
        return KeyFile(changed).refusal();
    };
    CHECK(with(core::hex(made.bytes), std::string(64, '0')).find("does not match its secret key") != std::string::npos);
    CHECK(with("kdf none", "kdf argon2id 3 99999999999").find("acme.key:4: expected 'kdf argon2id") !=
          std::string::npos);
    CHECK(with("kdf none", "kdf argon2id 999 268435456").find("acme.key:4: expected") != std::string::npos);
    CHECK(with("kdf none", "kdf argon2id 3 1").find("acme.key:4: expected") != std::string::npos);
    CHECK(with("kdf none", "kdf scrypt").find("acme.key:4: expected") != std::string::npos);
    CHECK(with("salt 0", "salt 1").find("acme.key:5: expected zeros after 'salt'") != std::string::npos);
    CHECK(with("nonce 0", "nonce 1").find("acme.key:6: expected zeros after 'nonce'") != std::string::npos);
    CHECK(KeyFile("-----BEGIN\n").refusal().find("acme.key:1: expected 'opdock.secret-key/1'") != std::string::npos);
}
