#include "package_file.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "changes.hpp"
#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "exit_codes.hpp"
#include "files/digest.hpp"

namespace opdock::plugin_pack {
namespace {

constexpr std::string_view schema = "opdock.package/1";
// For 4,000 recipients; the rest of a manifest is short.
constexpr size_t most_manifest_bytes = size_t{1} << 20;
constexpr size_t most_header_bytes = 1024;

std::string signed_text(const std::string &key_id, const std::string &manifest) {
    return std::string(schema) + "\nkey " + key_id + "\nmanifest " + core::hex(core::sha256_of(manifest)) + "\n";
}

// The lines before the manifest.
class Header {
  public:
    Header(std::string_view text, const std::string &path) : text_(text), path_(path) {}

    PackageFile read() {
        PackageFile file;
        file.path = path_;
        if (!value_of(schema).empty()) {
            fail();
        }
        file.key_id = value_of("key ");
        const std::string_view signature = value_of("signature ");
        if (signature != "-") {
            file.signature.emplace();
            if (!core::parse_hex(signature, *file.signature)) {
                fail();
            }
        }
        if ((file.key_id == "-") != !file.signature) {
            fail();
        }
        const std::string_view length = value_of("manifest ");
        const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), manifest_bytes_);
        if (error != std::errc() || std::to_string(manifest_bytes_) != length) {
            fail();
        }
        if (manifest_bytes_ > most_manifest_bytes) {
            throw cli::Failure(path_ + ": its manifest has " + size_text(manifest_bytes_) + ", but may have at most " +
                                   size_text(most_manifest_bytes),
                               exit_not_trusted);
        }
        return file;
    }
    size_t manifest_bytes() const { return manifest_bytes_; }
    // The text from the manifest on.
    std::string_view rest() const { return text_; }
    [[noreturn]] void fail() const {
        throw cli::Failure(path_ + ": this is not a package of plugin-pack, or it is damaged", exit_not_trusted);
    }

  private:
    std::string_view value_of(std::string_view word) {
        const size_t end = text_.substr(0, most_header_bytes).find('\n');
        if (end == std::string_view::npos || !text_.starts_with(word)) {
            fail();
        }
        const std::string_view value = text_.substr(word.size(), end - word.size());
        text_.remove_prefix(end + 1);
        return value;
    }
    std::string_view text_;
    const std::string &path_;
    size_t manifest_bytes_ = 0;
};

// Reads up to this many bytes of the file.
void read_until(cli::Input &file, std::string &text, size_t bytes) {
    size_t size = text.size();
    text.resize(std::max(size, bytes));
    for (size_t got = 1; got != 0 && size < text.size(); size += got) {
        got = file.read(text.data() + size, text.size() - size);
    }
    text.resize(size);
}

} // namespace

std::string PackageFile::text() const {
    return std::string(schema) + "\nkey " + key_id + "\nsignature " + (signature ? core::hex(*signature) : "-") +
           "\nmanifest " + std::to_string(manifest.size()) + "\n" + manifest + payload;
}

std::string print_package(const std::string &manifest, const std::string &payload, const keys::SecretKey *key) {
    if (manifest.size() > most_manifest_bytes) { // too large to be read
        throw cli::Failure("the manifest of the package has " + size_text(manifest.size()) +
                           ", but a manifest may have at most " + size_text(most_manifest_bytes));
    }
    PackageFile file{"", key == nullptr ? "-" : key->public_key.id(), std::nullopt, manifest, payload};
    if (key != nullptr) {
        const std::string text = signed_text(file.key_id, manifest);
        crypto_sign_detached(file.signature.emplace().data(), nullptr,
                             reinterpret_cast<const unsigned char *>(text.data()), text.size(), key->bytes.data());
    }
    return file.text();
}

PackageFile parse_package(std::string text, const std::string &path) {
    Header header(text, path);
    PackageFile file = header.read();
    if (header.manifest_bytes() > header.rest().size()) {
        header.fail();
    }
    file.manifest = header.rest().substr(0, header.manifest_bytes());
    text.erase(0, text.size() - header.rest().size() + header.manifest_bytes());
    file.payload = std::move(text);
    return file;
}

PackageFile read_package(const std::string &path) {
    cli::Input file(path);
    std::string text;
    read_until(file, text, most_header_bytes);
    Header(text, path).read(); // before reading the rest, which may be no package
    file.read_rest(text, most_package_bytes);
    return parse_package(std::move(text), path);
}

PackageFile read_package_head(const std::string &path) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) { // reading a pipe could block for ever
        throw cli::Failure(path + ": it cannot be read");
    }
    cli::Input file(path);
    std::string text;
    read_until(file, text, most_header_bytes);
    Header header(text, path);
    PackageFile head = header.read();
    const size_t begin = text.size() - header.rest().size();
    read_until(file, text, begin + header.manifest_bytes());
    if (text.size() < begin + header.manifest_bytes()) {
        header.fail();
    }
    head.manifest = text.substr(begin, header.manifest_bytes());
    return head;
}

std::optional<core::TrustedKey> check_signature(const PackageFile &file, const Trust &trust) {
    if (!file.signature) {
        if (trust.allow_unsigned) {
            return std::nullopt;
        }
        throw cli::Failure(file.path + ": it is not signed; --allow-unsigned accepts it anyway", exit_not_trusted);
    }
    const auto &keys = trust.keys.keys;
    const auto known = std::find_if(keys.begin(), keys.end(),
                                    [&](const core::TrustedKey &one) { return one.key.id() == file.key_id; });
    if (known == keys.end()) {
        std::string folders;
        for (const std::string &folder : trust.keys.folders) {
            folders += (folders.empty() ? "" : ", ") + folder;
        }
        throw cli::Failure(file.path + ": it is signed with the key " + file.key_id + ", which is not a trusted key (" +
                               folders +
                               "); --pub NAME.pub trusts it once, its file in one of these folders permanently",
                           exit_not_trusted);
    }
    const std::string text = signed_text(file.key_id, file.manifest);
    if (crypto_sign_verify_detached(file.signature->data(), reinterpret_cast<const unsigned char *>(text.data()),
                                    text.size(), known->key.bytes.data()) != 0) {
        throw cli::Failure(file.path + ": the signature is invalid: the package is damaged or was changed",
                           exit_not_trusted);
    }
    return *known;
}

} // namespace opdock::plugin_pack
