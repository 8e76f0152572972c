#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/exit.hpp"
#include "cli/written_file.hpp"
#include "commands.hpp"
#include "passphrase.hpp"
#include "secret_key.hpp"

namespace opdock::plugin_sign {

int keygen(const Request &request) {
    const std::string &path = request.subjects.front();
    core::PublicKey key;
    key.name = std::filesystem::path(path).filename().string();
    if (!core::is_key_name(key.name)) {
        throw cli::UsageError("a key's name has at most 64 letters, digits and ._@+-, found '" + key.name + "'");
    }
    cli::refuse_to_overwrite(path + ".key");
    cli::refuse_to_overwrite(path + ".pub");
    std::optional<Secret> passphrase;
    if (!request.passphrase_file.empty()) {
        passphrase = passphrase_from_file(request.passphrase_file);
    } else if (!request.no_passphrase) {
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
    std::cout << path << ".key: secret, keep it" << (passphrase ? "" : "; it has no passphrase") << '\n'
              << path << ".pub: " << key.text() << ", for those who trust you\n";
    return cli::exit_fine;
}

} // namespace opdock::plugin_sign
