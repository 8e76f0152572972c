#include "room.hpp"

#include <array>
#include <stdexcept>

#include "contents.hpp"

namespace tvm_ffi {
namespace {

struct Room {
    std::array<char, sizeof mark> begin;
    std::uint32_t size;
    std::array<std::byte, room_bytes> bytes;
};
static_assert(sizeof(Room) == sizeof mark + sizeof(std::uint32_t) + room_bytes);

constexpr Room empty_room() {
    Room room = {};
    for (std::size_t i = 0; i < sizeof mark; ++i) {
        room.begin[i] = mark[i];
    }
    return room;
}

[[gnu::used]] constinit const Room room = empty_room();

} // namespace

std::span<const std::byte> filled_room() {
    const Room *filled = &room;
    asm volatile("" : "+r"(filled)); // without this, the compiler would assume that it is empty
    if (filled->size > room_bytes) {
        throw std::runtime_error("its contents are damaged");
    }
    return std::span(filled->bytes).first(filled->size);
}

} // namespace tvm_ffi
