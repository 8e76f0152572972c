// Small configuration files, read as a whole.
#pragma once

#include <cstddef>
#include <string>

#include "opdock/opdock.h"

namespace opdock::core {

// Maximum size of a configuration file: more is a mistake or an attack.
inline constexpr std::size_t most_file_bytes = std::size_t{1024} * 1024;

// The text of a regular file. Does not block on a FIFO or read a device. Throws Error(status); if the file is too long,
// with the line and column of the limit.
std::string read_bounded_file(const std::string &path, opdock_status status, std::size_t most_bytes = most_file_bytes);

} // namespace opdock::core
