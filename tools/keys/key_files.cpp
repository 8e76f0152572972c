#include "keys/key_files.hpp"

#include <filesystem>
#include <optional>

#include "cli/exit.hpp"
#include "cli/printable.hpp"
#include "cli/written_file.hpp"
#include "keys/passphrase.hpp"

namespace opdock::keys {

std::string make_key_files(const std::string &path, const PassphraseFrom &from) {
    core::PublicKey key;
    key.name = std::filesystem::path(path).filename().string();
    if (!core::is_key_name(key.name)) {
        throw cli::UsageError("a key's name has at most 64 letters, digits and ._@+-, found '" + key.name + "'");
    }
    cli::refuse_to_overwrite(path + ".key");
    cli::refuse_to_overwrite(path + ".pub");
    std::optional<Secret> passphrase;
    if (!from.file.empty()) {
        passphrase = passphrase_from_file(from.file);
    } else if (!from.none) {
        passphrase = passphrase_from_terminal("the new key '" + key.name + "'", Times::twice);
    }
    std::string secret = make_secret_key(key, passphrase ? &*passphrase : nullptr);
    cli::NewFile secret_file(path + ".key", 0600);
    cli::NewFile public_file(path + ".pub", 0644);
    secret_file.write(secret);
    sodium_memzero(secret.data(), secret.size());
    public_file.write(print(key));
    secret_file.keep();
    public_file.keep();
    return cli::printable(path) + ".key: the secret key; keep it private" +
           (passphrase ? "" : "; it has no passphrase") + "\n" + cli::printable(path) + ".pub: " + key.text() +
           ", for those who trust you\n";
}

SecretKey read_key_file(const std::string &path, const PassphraseFrom &from) {
    return read_secret_key(path, [&] {
        return from.file.empty() ? passphrase_from_terminal(path, Times::once) : passphrase_from_file(from.file);
    });
}

} // namespace opdock::keys
