// The room in the plugin's file that plugin-pack fills.
#pragma once

#include <cstddef>
#include <span>

namespace tvm_ffi {

// Empty where nobody filled it. Throws std::runtime_error when it holds more than there is room for.
std::span<const std::byte> filled_room();

} // namespace tvm_ffi
