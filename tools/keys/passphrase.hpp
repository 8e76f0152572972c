// Where a passphrase comes from: a file, or whoever sits at the terminal.
#pragma once

#include <string>

#include "keys/secret.hpp"

namespace opdock::keys {

enum class Times { once, twice };

// The first line of the file. Others must not be allowed to read it. It may be a pipe. Throws cli::Failure.
Secret passphrase_from_file(const std::string &path);

// Asked on the terminal of the process, without being shown. Throws cli::Failure when there is none, or when the second
// is not the first.
Secret passphrase_from_terminal(const std::string &what_for, Times times);

} // namespace opdock::keys
