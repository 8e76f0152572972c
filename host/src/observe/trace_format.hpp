// The file of a trace while its process runs: a header page, a ring of calls, and the texts that these refer to.
//
//   TraceHeader, in the first `trace_header_bytes`
//   n_records x TraceRecord      number n is at index n modulo n_records, so that the latest calls are kept
//   text_bytes                   entries: uint32_t size, then `size` bytes, padded to a multiple of 4
//
// An entry describes a distinct call: its op, implementation, device, arguments and config, each ended by a NUL. Calls
// refer to entries by their index in the file. Everything is in the machine's byte order. A process may be killed
// between any two stores: records have a checksum, and entries count up to `text_used`, which is stored after them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace opdock::core {

inline constexpr std::array<char, 8> trace_magic = {'o', 'p', 'd', 'o', 'c', 'k', 'T', '1'};
inline constexpr uint64_t trace_header_bytes = 4096;
inline constexpr size_t trace_texts = 5; // in an entry
// Stands for every call that there was no room to describe. It is the first entry of every file.
inline constexpr uint32_t undescribed_call = 0;

struct TraceHeader { // NOLINT(clang-analyzer-optin.performance.Padding): cache lines are apart on purpose
    std::array<char, 8> magic;
    uint32_t record_bytes;
    uint32_t reserved;
    uint64_t n_records; // a power of two
    uint64_t text_bytes;
    uint64_t process;
    uint64_t start_ticks;
    int64_t start_nanoseconds; // monotonic clock at start_ticks
    double nanoseconds_per_tick;
    // On separate cache lines: calling threads write the first one.
    alignas(64) uint64_t claimed; // record numbers taken by threads
    alignas(64) uint64_t text_used;
};
static_assert(sizeof(TraceHeader) <= trace_header_bytes);

struct TraceRecord {
    uint64_t number; // from 1
    uint64_t begin;  // ticks
    uint64_t duration;
    uint32_t call; // index of the entry that describes it
    uint32_t thread;
    int32_t status;
    uint32_t reserved;
    uint64_t check;              // covers everything above
    uint64_t device_nanoseconds; // stored later, and only if the device reports it
    uint64_t device_check;       // covers device_nanoseconds and number
};
static_assert(sizeof(TraceRecord) == 64); // a cache line

// The place of a thread's next call. Threads take several numbers at a time, so they rarely share a cache line.
struct TraceCursor {
    uint64_t ring = 0; // TraceRing::id
    uint64_t next = 0;
    uint64_t end = 0;
    uint32_t thread = 0;
};

constexpr uint64_t check_of(const TraceRecord &record) {
    constexpr uint64_t odd = 0x9e3779b97f4a7c15;
    const uint64_t small = uint64_t{record.call} << 32U | record.thread;
    const auto status = static_cast<uint32_t>(record.status);
    return (std::rotl(record.number, 17) ^ std::rotl(record.begin, 31) ^ std::rotl(record.duration, 47) ^ small ^
            std::rotl(uint64_t{status}, 7)) *
           odd;
}

constexpr uint64_t device_check_of(uint64_t number, uint64_t nanoseconds) {
    constexpr uint64_t odd = 0xc2b2ae3d27d4eb4f;
    return (nanoseconds ^ std::rotl(number, 29)) * odd;
}

} // namespace opdock::core
