#include "trust/file_signature.hpp"

#include <sodium.h>

#include "files/bounded_file.hpp"
#include "files/keyed_lines.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr const char *signature_schema = "opdock.signature/1";

FileSignature parse_signature(KeyedLines &lines) {
    FileSignature signature;
    lines.expect_line(signature_schema);
    signature.line = lines.line();
    lines.hex_of("library", signature.library);
    const std::string_view manifest = lines.value_of("manifest", "(64 digits of 0-9a-f, or '-')");
    if (manifest != "-" && !parse_hex(manifest, signature.manifest.emplace())) {
        lines.fail("expected 64 digits of 0-9a-f, or '-', after 'manifest', found " + quote(manifest));
    }
    std::array<unsigned char, 8> id{};
    lines.hex_of("key", id);
    signature.key_id = hex(id);
    lines.hex_of("signature", signature.bytes);
    return signature;
}

} // namespace

std::string FileSignature::signed_text() const {
    return std::string(signature_schema) + "\nlibrary " + hex(library) + "\nmanifest " +
           (manifest ? hex(*manifest) : "-") + "\nkey " + key_id + "\n";
}

bool FileSignature::is_made_with(const PublicKey &key) const {
    prepare_sodium();
    const std::string text = signed_text();
    return crypto_sign_verify_detached(bytes.data(), reinterpret_cast<const unsigned char *>(text.data()), text.size(),
                                       key.bytes.data()) == 0;
}

std::vector<FileSignature> parse_signatures(std::string_view text, const std::string &path) {
    KeyedLines lines(text, path);
    std::vector<FileSignature> signatures;
    do {
        if (lines.at_end() && !signatures.empty()) {
            return signatures;
        }
        signatures.push_back(parse_signature(lines));
    } while (signatures.size() <= most_signatures);
    lines.fail("more than " + std::to_string(most_signatures) + " signatures");
}

std::vector<FileSignature> read_signatures(const std::string &path) {
    return parse_signatures(read_bounded_file(path, OPDOCK_LOAD_FAILED, most_signature_bytes), path);
}

std::string print(const std::vector<FileSignature> &signatures) {
    std::string text;
    for (const FileSignature &signature : signatures) {
        text += (text.empty() ? "" : "\n") + signature.signed_text() + "signature " + hex(signature.bytes) + "\n";
    }
    return text;
}

} // namespace opdock::core
