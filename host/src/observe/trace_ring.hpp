// A process's own trace, written while it runs: a memory-mapped file, which survives however the process ends.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "files/descriptor.hpp"
#include "observe/tick_clock.hpp"
#include "observe/trace_format.hpp"

namespace opdock::core {

struct TraceSize {
    uint64_t records = uint64_t{1} << 17U;
    uint64_t text_bytes = uint64_t{4} << 20U;
};

class TraceRing {
  public:
    // All bytes of the file are allocated before this returns: a full disk is an error here, and no
    // signal (SIGBUS) when a call is written. Throws Error(OPDOCK_INVALID_ARGUMENT) that names the
    // file, also if another trace is being written to it.
    TraceRing(std::string path, TraceSize size);
    // Keeps the file as it is.
    ~TraceRing();
    TraceRing(const TraceRing &) = delete;
    TraceRing &operator=(const TraceRing &) = delete;

    const std::string &path() const { return path_; }
    // False for anonymous memory, and in a copy of the process made without libc's fork.
    bool has_own_file() const;
    const TickClock &clock() const { return clock_; }
    // One caller at a time, concurrently with add(). Returns the entry's index; undescribed_call if out of room.
    uint32_t describe(const std::array<std::string_view, trace_texts> &texts);

    // [any thread] `cursor` belongs to the thread.
    void add(TraceCursor &cursor, uint32_t call, uint64_t begin, uint64_t end, int32_t status) {
        if (cursor.ring != id_.load(std::memory_order_relaxed) || cursor.next == cursor.end ||
            __atomic_load_n(&header().claimed, __ATOMIC_RELAXED) - cursor.next > n_records_ - chunk) [[unlikely]] {
            claim(cursor);
        }
        TraceRecord &record = record_of(cursor.next++);
        TraceRecord made{};
        made.number = cursor.next;
        made.begin = begin;
        made.duration = end - begin;
        made.call = call;
        made.thread = cursor.thread;
        made.status = status;
        // Atomic, since two threads may write one record if one of them slept while the others went round the ring.
        store(record.number, made.number);
        store(record.begin, made.begin);
        store(record.duration, made.duration);
        store(record.call, made.call);
        store(record.thread, made.thread);
        store(record.status, made.status);
        store(record.check, check_of(made));
    }
    // The number of the last call that the thread wrote.
    static uint64_t number_of_last(const TraceCursor &cursor) { return cursor.next; }
    // Dropped if a later call has overwritten the record.
    void set_device_time(uint64_t number, uint64_t nanoseconds);

    // The contents of the file, for trace_file.hpp.
    std::string_view bytes() const { return {memory_, static_cast<size_t>(bytes_)}; }
    // Removes the file.
    void remove();

    // In a forked child, whose memory is the parent's file: replaces it by anonymous memory with the
    // same descriptions.
    void leave_to_parent();
    // Replaces such memory by a file. Throws like the constructor.
    void move_to(std::string path);

    static constexpr uint64_t chunk = 32; // records

  private:
    template<class Number>
    static void store(Number &to, Number value) {
        __atomic_store_n(&to, value, __ATOMIC_RELAXED);
    }
    TraceHeader &header() { return *reinterpret_cast<TraceHeader *>(memory_); }
    TraceRecord &record_of(uint64_t number) {
        return reinterpret_cast<TraceRecord *>(memory_ + trace_header_bytes)[number & (n_records_ - 1)];
    }
    char *texts() { return memory_ + trace_header_bytes + n_records_ * sizeof(TraceRecord); }
    void claim(TraceCursor &cursor);
    // Opens the file, exclusively for this process, with all bytes allocated.
    static Descriptor open_file(const std::string &path, uint64_t bytes);
    // Maps it in place of the memory, with the same descriptions. Without a file: anonymous memory.
    void replace_memory(Descriptor file);
    void fill_header();

    std::string path_;
    const uint64_t n_records_;
    const uint64_t text_bytes_;
    const uint64_t bytes_;
    TickClock clock_;
    std::atomic<uint64_t> id_; // changes when another file is mapped
    uint32_t n_entries_ = 0;
    Descriptor file_; // locked while open
    char *memory_ = nullptr;
};

} // namespace opdock::core
