// Allocations that fail when a test says so. Linking this replaces malloc and its family, for the host and every
// library that it uses, the C library and the dynamic loader included; under AddressSanitizer, whose malloc cannot be
// replaced, it replaces operator new and SQLite's allocator.
#pragma once

#include <cstdint>

namespace opdock::stress {

enum class Failing { once, from_then_on };

// From here on the calling thread's allocations are counted, and the `nth` (counted from 1) fails; 0: none.
void fail_allocation(std::uint64_t nth, Failing how);
// No longer. Returns how many there were.
std::uint64_t stop_failing_allocations();

// How many blocks are allocated and not freed, of all threads; 0 where that is not counted (AddressSanitizer, which
// finds what is lost by itself).
std::int64_t live_blocks();

} // namespace opdock::stress
