// The files NAME.key and NAME.pub, for the command line tools that create and use them.
#pragma once

#include <string>

#include "keys/secret_key.hpp"

namespace opdock::keys {

// Source of a passphrase: a file, none, or by default the user at the terminal.
struct PassphraseFrom {
    std::string file;
    bool none = false; // the new key has no passphrase
};

// Writes NAME.key and NAME.pub, where `path` is NAME with its folder, and returns the message for the user. Throws
// cli::UsageError for an invalid name, cli::Failure if such a file exists.
std::string make_key_files(const std::string &path, const PassphraseFrom &from);

// Throws cli::Failure like read_secret_key.
SecretKey read_key_file(const std::string &path, const PassphraseFrom &from);

} // namespace opdock::keys
