#include "driver.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace nova {
namespace {

constexpr std::align_val_t alignment{256};
thread_local int current = 0;

} // namespace

int device_count() {
    const char *count = std::getenv("NOVA_DEVICES");
    return count == nullptr ? 2 : std::atoi(count);
}

void make_current(int device) {
    current = device;
}

int current_device() {
    return current;
}

void *allocate(std::size_t bytes) {
    return bytes > memory ? nullptr : ::operator new(bytes, alignment, std::nothrow);
}

void release(void *pointer) {
    ::operator delete(pointer, alignment);
}

void copy(void *to, const void *from, std::size_t bytes, Stream * /*stream*/) {
    std::memcpy(to, from, bytes);
}

} // namespace nova
