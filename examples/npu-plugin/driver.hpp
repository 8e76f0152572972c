// The runtime library of a made-up accelerator, in place of a vendor's. Its memory is the machine's, and work queued on
// a stream has run when the call returns.
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

// The value of NOVA_DEVICES; 2 if it is not set.
int device_count();

void make_current(int device);
int current_device();

inline constexpr std::size_t memory = std::size_t{1} << 30; // per device, in bytes

// Aligned to 256 bytes. Null if there is not enough memory.
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
