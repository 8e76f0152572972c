#include "keys/secret_key.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/exit.hpp"
#include "files/bounded_file.hpp"
#include "files/digest.hpp"
#include "files/keyed_lines.hpp"

namespace opdock::keys {
namespace {

constexpr const char *schema = "opdock.secret-key/1";
constexpr std::uint64_t passes = crypto_pwhash_argon2id_OPSLIMIT_MODERATE;
constexpr std::uint64_t memory = crypto_pwhash_argon2id_MEMLIMIT_MODERATE;
// Upper bounds for the parameters in a file: higher ones are a mistake or an attack.
constexpr std::uint64_t most_passes = 32;
constexpr std::uint64_t most_memory = std::uint64_t{1} << 30;

constexpr std::size_t seed_bytes = crypto_sign_SEEDBYTES;
constexpr std::size_t box_bytes = seed_bytes + crypto_secretbox_MACBYTES;
using Salt = std::array<unsigned char, crypto_pwhash_argon2id_SALTBYTES>;
using Nonce = std::array<unsigned char, crypto_secretbox_NONCEBYTES>;

struct Cost {
    std::uint64_t passes;
    std::uint64_t memory;
};

Secret key_from(const Secret &passphrase, const Salt &salt, const Cost &cost) {
    Secret key(crypto_secretbox_KEYBYTES);
    if (crypto_pwhash(key.data(), key.size(), passphrase.text(), passphrase.size(), salt.data(), cost.passes,
                      static_cast<std::size_t>(cost.memory), crypto_pwhash_ALG_ARGON2ID13) != 0) {
        throw cli::Failure(fmt::format("not enough memory: processing the passphrase takes {} MiB", cost.memory >> 20));
    }
    return key;
}

// Empty for a key without a passphrase.
std::optional<Cost> parse_cost(core::KeyedLines &lines) {
    constexpr std::string_view expected = "argon2id (passes) (bytes of memory)', or 'kdf none";
    const std::string_view value = lines.value_of("kdf", expected);
    if (value == "none") {
        return std::nullopt;
    }
    constexpr std::string_view name = "argon2id ";
    Cost cost{};
    const char *const end = value.data() + value.size();
    if (value.starts_with(name)) {
        const auto [blank, first_error] = std::from_chars(value.data() + name.size(), end, cost.passes);
        if (first_error == std::errc() && blank != end && *blank == ' ') {
            const auto [stop, second_error] = std::from_chars(blank + 1, end, cost.memory);
            const bool in_range = cost.passes >= crypto_pwhash_argon2id_OPSLIMIT_MIN && cost.passes <= most_passes &&
                                  cost.memory >= crypto_pwhash_argon2id_MEMLIMIT_MIN && cost.memory <= most_memory;
            if (second_error == std::errc() && stop == end && in_range) {
                return cost;
            }
        }
    }
    lines.fail(fmt::format("expected 'kdf {}' with at most {} passes and {} bytes, found '{}'", expected, most_passes,
                           most_memory, value.substr(0, 80)));
}

// Called before the permissions are checked: those of a public key are correct.
void refuse_public_key(const std::string &path, const std::string &text) {
    if (text.starts_with("opdock.public-key/")) {
        throw cli::Failure(path + ": this is a public key; expected its secret key, which "
                                  "`plugin-sign keygen` wrote to NAME.key beside NAME.pub");
    }
}

void refuse_if_others_may_read(const std::string &path) {
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) {
        return; // reading it reports the error
    }
    if (status.st_uid != ::geteuid() || (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        throw cli::Failure(
            fmt::format("{}: a secret key must belong to you, and no other user may read it (its owner is {}, its mode "
                        "{:04o}); run `chmod 600` if nobody has read it, else make a new key",
                        path, status.st_uid, status.st_mode & 07777u));
    }
}

// Wiped on destruction: without a passphrase, the text is the key.
class FileText {
  public:
    explicit FileText(const std::string &path)
        : text(core::read_bounded_file(path, OPDOCK_LOAD_FAILED, core::most_key_bytes)) {}
    ~FileText() { sodium_memzero(text.data(), text.size()); }
    FileText(const FileText &) = delete;
    FileText &operator=(const FileText &) = delete;

    std::string text;
};

} // namespace

std::string make_secret_key(core::PublicKey &public_key, const Secret *passphrase) {
    Secret seed(seed_bytes);
    randombytes_buf(seed.data(), seed.size());
    Secret secret(crypto_sign_SECRETKEYBYTES);
    crypto_sign_seed_keypair(public_key.bytes.data(), secret.data(), seed.data());

    Salt salt{};
    Nonce nonce{};
    std::string cost = "none";
    std::string sealed;
    if (passphrase != nullptr) {
        randombytes_buf(salt.data(), salt.size());
        randombytes_buf(nonce.data(), nonce.size());
        const Secret key = key_from(*passphrase, salt, {passes, memory});
        std::array<unsigned char, box_bytes> box{};
        crypto_secretbox_easy(box.data(), seed.data(), seed.size(), nonce.data(), key.data());
        cost = fmt::format("argon2id {} {}", passes, memory);
        sealed = core::hex(box);
    } else {
        sealed = core::hex({seed.data(), seed.size()});
    }
    return fmt::format("{}\nname {}\npublic {}\nkdf {}\nsalt {}\nnonce {}\nsecret {}\n", schema, public_key.name,
                       core::hex(public_key.bytes), cost, core::hex(salt), core::hex(nonce), sealed);
}

SecretKey read_secret_key(const std::string &path, const AskPassphrase &ask) {
    const FileText file(path);
    refuse_public_key(path, file.text);
    refuse_if_others_may_read(path);
    core::KeyedLines lines(file.text, path);
    SecretKey result{{}, Secret(crypto_sign_SECRETKEYBYTES)};
    core::PublicKey stated;
    Salt salt{};
    Nonce nonce{};
    Secret seed(seed_bytes);
    (void)lines.at_end();
    lines.expect_line(schema);
    stated.name = lines.value_of("name", "(a name)");
    if (!core::is_key_name(stated.name)) {
        lines.fail("expected a name of at most 64 letters, digits and ._@+-");
    }
    lines.hex_of("public", stated.bytes);
    const std::optional<Cost> cost = parse_cost(lines);
    lines.hex_of("salt", salt);
    if (!cost && salt != Salt{}) {
        lines.fail("expected zeros after 'salt', as there is no passphrase (kdf none)");
    }
    lines.hex_of("nonce", nonce);
    if (!cost && nonce != Nonce{}) {
        lines.fail("expected zeros after 'nonce', as there is no passphrase (kdf none)");
    }
    if (cost) {
        std::array<unsigned char, box_bytes> box{};
        lines.hex_of("secret", box);
        const Secret key = key_from(ask(), salt, *cost);
        if (crypto_secretbox_open_easy(seed.data(), box.data(), box.size(), nonce.data(), key.data()) != 0) {
            throw cli::Failure(path + ": the passphrase is wrong, or the file was changed");
        }
    } else {
        lines.hex_of("secret", seed);
    }
    result.public_key = stated;
    crypto_sign_seed_keypair(result.public_key.bytes.data(), result.bytes.data(), seed.data());
    if (result.public_key.bytes != stated.bytes) {
        throw cli::Failure(path + ": its public key does not match its secret key; the file was changed");
    }
    return result;
}

} // namespace opdock::keys
