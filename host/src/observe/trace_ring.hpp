// A process's own trace, written while it runs: mapped memory of a file, which is there whatever ends the process.
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
    // The file has all its bytes before this returns: a disk that is full is an error here, and no signal (SIGBUS) when
    // a call is written. Throws Error(OPDOCK_INVALID_ARGUMENT) that names the file, also where another trace is being
    // written to it.
    TraceRing(std::string path, TraceSize size);
    // Leaves the file as it is.
    ~TraceRing();
    TraceRing(const TraceRing &) = delete;
    TraceRing &operator=(const TraceRing &) = delete;

    const std::string &path() const { return path_; }
    // False for memory that nobody sees, and in a copy of the process that was made without libc's fork.
    bool has_own_file() const;
    const TickClock &clock() const { return clock_; }
    // One at a time, while threads write calls. Returns the entry's number; undescribed_call where there is no room.
    uint32_t describe(const std::array<std::string_view, trace_texts> &texts);

    // [any thread] `cursor` is the thread's own.
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
        // Atomic, as two threads are at one place where one of them was asleep while the others went round once.
        store(record.number, made.number);
        store(record.begin, made.begin);
        store(record.duration, made.duration);
        store(record.call, made.call);
        store(record.thread, made.thread);
        store(record.status, made.status);
        store(record.check, check_of(made));
    }
    // The number of the call that the thread wrote last.
    static uint64_t number_of_last(const TraceCursor &cursor) { return cursor.next; }
    // Dropped where a later call has taken the place.
    void set_device_time(uint64_t number, uint64_t nanoseconds);

    // What the file holds, for trace_file.hpp.
    std::string_view bytes() const { return {memory_, static_cast<size_t>(bytes_)}; }
    // Removes the file.
    void remove();

    // In a forked child, whose memory is the parent's file: puts memory that nobody sees in its place, with the same
    // descriptions.
    void leave_to_parent();
    // Puts a file in the place of such memory. Throws as the constructor does.
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
    // Opens the file, for this process alone, with all its bytes.
    static Descriptor open_file(const std::string &path, uint64_t bytes);
    // Puts it in the place of the memory, with the same descriptions. No file: memory that nobody sees.
    void replace_memory(Descriptor file);
    void fill_header();

    std::string path_;
    const uint64_t n_records_;
    const uint64_t text_bytes_;
    const uint64_t bytes_;
    TickClock clock_;
    std::atomic<uint64_t> id_; // changes when another file takes the place
    uint32_t n_entries_ = 0;
    Descriptor file_; // locked as long as it is open
    char *memory_ = nullptr;
};

} // namespace opdock::core
