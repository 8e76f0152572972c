// DEFLATE (RFC 1951): unpacks data from Python's zlib. Without a library, a plugin needs only libc and libstdc++.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::triton {

// Unpacks `packed` to `size` bytes. Throws std::runtime_error if the data is damaged or has another size.
std::string inflate(std::string_view packed, std::size_t size);

} // namespace opdock::triton
