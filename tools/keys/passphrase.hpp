// Sources of a passphrase: a file, or the user at the terminal.
#pragma once

#include <string>

#include "keys/secret.hpp"

namespace opdock::keys {

enum class Times { once, twice };

// The first line of the file, which others must not be able to read. It may be a pipe. Throws cli::Failure.
Secret passphrase_from_file(const std::string &path);

// Asks on the terminal of the process, without echo. Throws cli::Failure if there is no terminal, or the two entries
// differ.
Secret passphrase_from_terminal(const std::string &what_for, Times times);

} // namespace opdock::keys
