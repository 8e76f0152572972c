// The room in the plugin's file that plugin-pack fills.
#pragma once

#include <cstddef>
#include <span>

namespace tvm_ffi {

// Empty if nothing was filled in. Throws std::runtime_error if the size exceeds the room.
std::span<const std::byte> filled_room();

} // namespace tvm_ffi
