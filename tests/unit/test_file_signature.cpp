#include "trust/file_signature.hpp"

#include <doctest/doctest.h>

#include "files/reject.hpp"
#include "signer.hpp"
#include "temporary_directory.hpp"
#include "text/error.hpp"
#include "thrown_error.hpp"
#include "trust/trust.hpp"

using namespace opdock::core;
using opdock::test::message_of;
using opdock::test::Signer;

namespace {

const Digest library = sha256_of(std::string_view("the library"));
const Digest manifest = sha256_of(std::string_view("the manifest"));

struct Trusting {
    TrustedKeys keys;
    SignedFiles files;

    explicit Trusting(const PublicKey &key, std::optional<Digest> with = {}) {
        keys.keys.push_back({key, "/keys/acme.pub"});
        files.name = "libacme.so";
        files.library = library;
        files.manifest = with;
    }
    bool accepts(const std::string &text) const {
        try {
            const auto judged = judge_signatures(files, parse_signatures(text, "s"), keys);
            (void)check_judged(files, judged, keys);
            return true;
        } catch (const Rejected &) {
            return false;
        } catch (const Error &) {
            return false;
        }
    }
};

} // namespace

TEST_CASE("what is signed is what stands above the signature") {
    const Signer acme("acme");
    const FileSignature signature = acme.sign(library, manifest);
    CHECK(signature.signed_text() == "opdock.signature/1\nlibrary " + hex(library) + "\nmanifest " + hex(manifest) +
                                         "\nkey " + acme.key().id() + "\n");
    CHECK(print({signature}) == signature.signed_text() + "signature " + hex(signature.bytes) + "\n");
    CHECK(acme.sign(library).signed_text().find("\nmanifest -\n") != std::string::npos);
    CHECK(signature.is_made_with(acme.key()));
    CHECK_FALSE(signature.is_made_with(Signer("acme").key()));
}

TEST_CASE("signatures are read as they are printed") {
    const Signer acme("acme");
    const Signer globex("globex");
    const auto read =
        parse_signatures("# released in May\n" + print({acme.sign(library), globex.sign(library, manifest)}), "s");
    REQUIRE(read.size() == 2);
    CHECK(read[0].line == 2);
    CHECK(read[1].line == 8);
    CHECK(read[0].is_made_with(acme.key()));
    CHECK(read[1].is_made_with(globex.key()));
    CHECK(read[1].manifest == manifest);
}

TEST_CASE("a file of signatures has at most 64 of them, and 64 KiB") {
    const Signer acme("acme");
    std::vector<FileSignature> signatures(64, acme.sign(library));
    std::string text = print(signatures);
    CHECK(parse_signatures(text, "s").size() == 64);
    text.resize(65536, '\n');
    const opdock::test::TemporaryDirectory folder;
    CHECK(read_signatures(folder.write("s", text)).size() == 64);
    CHECK(message_of([&] {
              read_signatures(folder.write("s", text + "\n"));
          }).ends_with("the file is longer than 65536 bytes; shorten it"));
    signatures.push_back(signatures[0]);
    CHECK(message_of([&] { parse_signatures(print(signatures), "s"); }).ends_with("more than 64 signatures"));
}

TEST_CASE("one valid signature by a trusted key is enough, wherever it stands") {
    const Signer acme("acme");
    const Signer other("other");
    const Trusting trusting(acme.key());
    const Digest old = sha256_of(std::string_view("the library before"));
    CHECK(trusting.accepts(print({other.sign(library), acme.sign(library)})));
    CHECK(trusting.accepts(print({acme.sign(old), acme.sign(library)})));
    CHECK_FALSE(trusting.accepts(print({other.sign(library)})));
    CHECK_FALSE(trusting.accepts(print({acme.sign(old)})));
}

TEST_CASE("a signature cut short at any byte is none") {
    const Signer acme("acme");
    const Trusting trusting(acme.key(), manifest);
    const std::string text = print({acme.sign(library, manifest)});
    REQUIRE(trusting.accepts(text));
    for (std::size_t size = 0; size < text.size(); ++size) {
        CAPTURE(size);
        CHECK_FALSE(trusting.accepts(text.substr(0, size)));
    }
}

TEST_CASE("a signature with any bit turned round is none") {
    const Signer acme("acme");
    const Trusting trusting(acme.key(), manifest);
    const std::string text = print({acme.sign(library, manifest)});
    for (std::size_t at = 0; at < text.size(); ++at) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::string turned = text;
            turned[at] = static_cast<char>(static_cast<unsigned char>(turned[at]) ^ (1u << bit));
            CAPTURE(at);
            CAPTURE(bit);
            CHECK_FALSE(trusting.accepts(turned));
        }
    }
}

TEST_CASE("a signature of one manifest is none of another, and says nothing against the library alone") {
    const Signer acme("acme");
    const std::string alone = print({acme.sign(library)});
    const std::string both = print({acme.sign(library, manifest)});
    CHECK(Trusting(acme.key()).accepts(alone));
    CHECK(Trusting(acme.key()).accepts(both));
    CHECK(Trusting(acme.key(), manifest).accepts(both));
    CHECK_FALSE(Trusting(acme.key(), manifest).accepts(alone));
    CHECK_FALSE(Trusting(acme.key(), library).accepts(both));
}

TEST_CASE("a wrong signature file is an error with its line") {
    const Signer acme("acme");
    const std::string one = print({acme.sign(library)});
    const auto message = [](const std::string &text) {
        return message_of([&] { parse_signatures(text, "/p/libacme.so.sig"); });
    };
    CHECK(message("") == "/p/libacme.so.sig:1: the file ends too early");
    CHECK(message("# nothing\n") == "/p/libacme.so.sig:2: the file ends too early");
    CHECK(message("opdock.signature/9\n") ==
          "/p/libacme.so.sig:1: expected 'opdock.signature/1', found 'opdock.signature/9'");
    CHECK(message("opdock.signature/1\nlibrary xyz\n") ==
          "/p/libacme.so.sig:2: expected 64 digits of 0-9a-f after 'library', found 'xyz'");
    CHECK(message(one + "stray\n") == "/p/libacme.so.sig:6: expected 'opdock.signature/1', found 'stray'");
    CHECK(message("opdock.signature/1\r\n") ==
          "/p/libacme.so.sig:1: expected 'opdock.signature/1', found 'opdock.signature/1\\x0d'");
    std::string many;
    for (std::size_t i = 0; i <= most_signatures; ++i) {
        many += one;
    }
    CHECK(message(many).ends_with(": more than 64 signatures"));
}
