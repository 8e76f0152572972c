// The files NAME.key and NAME.pub, for the command line tools that make and use them.
#pragma once

#include <string>

#include "keys/secret_key.hpp"

namespace opdock::keys {

// Where a passphrase comes from: a file, nobody, or by default whoever sits at the terminal.
struct PassphraseFrom {
    std::string file;
    bool none = false; // of a new key
};

// Writes NAME.key and NAME.pub, `path` being NAME with its folder, and returns what there is to say of them. Throws
// cli::UsageError for a name that no key has, cli::Failure where there is one of that name.
std::string make_key_files(const std::string &path, const PassphraseFrom &from);

// Throws cli::Failure as read_secret_key does.
SecretKey read_key_file(const std::string &path, const PassphraseFrom &from);

} // namespace opdock::keys
