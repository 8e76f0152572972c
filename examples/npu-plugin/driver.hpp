// The runtime library of a made-up accelerator, in place of the one that a vendor has. Its memory is the machine's, and
// what is queued on a stream has run when the call returns.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace nova {

struct Stream {
    int device;
};

struct Event {
    std::chrono::steady_clock::time_point time;
};

// NOVA_DEVICES, 2 without it.
int device_count();

void make_current(int device);
int current_device();

inline constexpr std::size_t memory = std::size_t{1} << 30; // of a device, in bytes

// Aligned to 256 bytes. Null when there is not that much.
void *allocate(std::size_t bytes);
void release(void *pointer);
void copy(void *to, const void *from, std::size_t bytes, Stream *stream);

// Runs kernel(i) for i in 0 <= i < n.
template<class Kernel>
void launch(std::int64_t n, Stream * /*stream*/, Kernel kernel) {
    for (std::int64_t i = 0; i < n; ++i)
        kernel(i);
}

} // namespace nova
