// DEFLATE (RFC 1951): unpacks what Python's zlib packs. No library, so that a plugin needs libc and libstdc++ alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace opdock::triton {

// The `size` bytes that `packed` stands for. Throws std::runtime_error where it stands for something else.
std::string inflate(std::string_view packed, std::size_t size);

} // namespace opdock::triton
