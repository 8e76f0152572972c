// Allocations that fail when a test requests it. Linking this replaces malloc and its family for the host and every
// library that it uses, including the C library and the dynamic loader. Under AddressSanitizer, whose malloc cannot be
// replaced, it replaces operator new and SQLite's allocator instead.
#pragma once

#include <cstdint>

namespace opdock::stress {

enum class Failing { once, from_then_on };

// From now on counts the calling thread's allocations, and makes the `nth` (from 1) fail; 0: none.
void fail_allocation(std::uint64_t nth, Failing how);
// Ends this. Returns the number of allocations.
std::uint64_t stop_failing_allocations();

// Number of allocated blocks of all threads that are not freed. 0 if they are not counted: under AddressSanitizer,
// which finds leaks by itself.
std::int64_t live_blocks();

} // namespace opdock::stress
