#include "observe/trace_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <spdlog/fmt/fmt.h>

#include "files/file_size_signal.hpp"
#include "text/error.hpp"

namespace opdock::core {
namespace {

std::atomic<uint64_t> next_id{1};

[[noreturn]] void fail(const std::string &path, const std::string &why) {
    throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("{}: {}", path, why));
}

[[noreturn]] void fail_errno(const std::string &path, const char *action, int reason) {
    fail(path, fmt::format("{}: {}", action, std::generic_category().message(reason)));
}

// True if the name still refers to the open file: a process that removed it held the lock before.
bool is_named(const std::string &path, const struct stat &opened) {
    struct stat named = {};
    return ::stat(path.c_str(), &named) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

// Only a trace may be overwritten.
void check_content(const std::string &path, int file, const struct stat &status) {
    std::array<char, trace_magic.size()> magic{};
    if (!S_ISREG(status.st_mode)) {
        fail(path, "expected a regular file, or none");
    }
    if (status.st_size != 0 &&
        (TEMP_FAILURE_RETRY(pread(file, magic.data(), magic.size(), 0)) != static_cast<ssize_t>(magic.size()) ||
         (magic != trace_magic && magic != std::array<char, trace_magic.size()>{}))) {
        fail(path,
             "the file exists and is not a trace, so it is not overwritten; move it away, or specify another file");
    }
}

void give_all_bytes(const std::string &path, int file, uint64_t bytes) {
    const FileSizeSignal limited;
    if (::ftruncate(file, 0) != 0) {
        fail_errno(path, "cannot be emptied", errno);
    }
    int reason = EINTR;
    while (reason == EINTR) {
        reason = ::posix_fallocate(file, 0, static_cast<off_t>(bytes));
    }
    if (reason != 0) {
        (void)::ftruncate(file, 0);
        fail_errno(path, fmt::format("cannot have {} bytes", bytes).c_str(), reason);
    }
}

char *map(const std::string &path, void *at, uint64_t bytes, int file) {
    const int where = at != nullptr ? MAP_FIXED : 0;
    const int what = file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = ::mmap(at, bytes, PROT_READ | PROT_WRITE, what | where, file, 0);
    if (memory == MAP_FAILED) {
        fail_errno(path, "cannot be mapped", errno);
    }
    return static_cast<char *>(memory);
}

} // namespace

TraceRing::TraceRing(std::string path, TraceSize size)
    : path_(std::move(path)), n_records_(size.records), text_bytes_(size.text_bytes),
      bytes_(trace_header_bytes + size.records * sizeof(TraceRecord) + size.text_bytes),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)), file_(open_file(path_, bytes_)),
      memory_(map(path_, nullptr, bytes_, file_.get())) {
    // Touches every page before the first call.
    std::memset(memory_, 0, static_cast<size_t>(bytes_ - text_bytes_));
    fill_header();
    (void)describe({"calls that there was no room to describe", "", "", "", ""});
}

TraceRing::~TraceRing() {
    ::munmap(memory_, static_cast<size_t>(bytes_));
}

Descriptor TraceRing::open_file(const std::string &path, uint64_t bytes) {
    constexpr int attempts = 10;
    for (int i = 0; i < attempts; ++i) {
        Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600));
        if (file.get() < 0) {
            fail_errno(path, "cannot be created", errno);
        }
        if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK) {
                fail(path, "another process or host writes its trace to it; put %p in the name, which stands for the "
                           "process id");
            }
            fail_errno(path, "cannot be locked", errno);
        }
        struct stat status = {};
        if (::fstat(file.get(), &status) != 0) {
            fail_errno(path, "cannot be inspected", errno);
        }
        if (!is_named(path, status)) {
            continue; // another process has just finished with it
        }
        check_content(path, file.get(), status);
        give_all_bytes(path, file.get(), bytes);
        return file;
    }
    fail(path, "the file keeps being replaced");
}

void TraceRing::fill_header() {
    TraceHeader &facts = header();
    facts.record_bytes = sizeof(TraceRecord);
    facts.n_records = n_records_;
    facts.text_bytes = text_bytes_;
    facts.process = static_cast<uint64_t>(::getpid());
    facts.start_ticks = clock_.start_ticks();
    facts.start_nanoseconds = clock_.start_nanoseconds();
    facts.nanoseconds_per_tick = clock_.nanoseconds_per_tick();
    std::atomic_signal_fence(std::memory_order_seq_cst);
    facts.magic = trace_magic; // last: a file with it is readable
}

uint32_t TraceRing::describe(const std::array<std::string_view, trace_texts> &texts_of_call) {
    uint32_t size = 0;
    for (const std::string_view text : texts_of_call) {
        size += static_cast<uint32_t>(text.size()) + 1;
    }
    TraceHeader &facts = header();
    const uint64_t used = facts.text_used;
    const uint64_t padded = (uint64_t{sizeof size} + size + 3) / 4 * 4;
    clock_.compare();
    __atomic_store_n(reinterpret_cast<uint64_t *>(&facts.nanoseconds_per_tick),
                     std::bit_cast<uint64_t>(clock_.nanoseconds_per_tick()), __ATOMIC_RELAXED);
    if (padded > text_bytes_ - used) {
        return undescribed_call;
    }
    char *to = texts() + used;
    std::memcpy(to, &size, sizeof size);
    to += sizeof size;
    for (const std::string_view text : texts_of_call) {
        to = std::copy(text.begin(), text.end(), to);
        *to++ = '\0';
    }
    __atomic_store_n(&facts.text_used, used + padded, __ATOMIC_RELEASE);
    return n_entries_++;
}

void TraceRing::claim(TraceCursor &cursor) {
    const uint64_t id = id_.load(std::memory_order_relaxed);
    if (cursor.ring != id) {
        cursor.ring = id;
        cursor.thread = static_cast<uint32_t>(::gettid());
    }
    cursor.next = __atomic_fetch_add(&header().claimed, chunk, __ATOMIC_RELAXED);
    cursor.end = cursor.next + chunk;
}

void TraceRing::set_device_time(uint64_t number, uint64_t nanoseconds) {
    TraceRecord &record = record_of(number - 1);
    if (__atomic_load_n(&record.number, __ATOMIC_RELAXED) == number) {
        store(record.device_nanoseconds, nanoseconds);
        store(record.device_check, device_check_of(number, nanoseconds));
    }
}

bool TraceRing::has_own_file() const {
    const auto &facts = *reinterpret_cast<const TraceHeader *>(memory_);
    return file_.get() >= 0 && facts.process == static_cast<uint64_t>(::getpid());
}

void TraceRing::remove() {
    (void)::unlink(path_.c_str());
    file_.close();
}

void TraceRing::replace_memory(Descriptor file) {
    const std::string entries(texts(), header().text_used);
    map(path_, memory_, bytes_, file.get());
    file_ = std::move(file);
    fill_header();
    std::copy(entries.begin(), entries.end(), texts());
    header().text_used = entries.size();
    id_.store(next_id.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
}

void TraceRing::leave_to_parent() {
    replace_memory(Descriptor()); // the parent's lock remains, since it has the file open too
}

void TraceRing::move_to(std::string path) {
    Descriptor file = open_file(path, bytes_);
    path_ = std::move(path);
    replace_memory(std::move(file));
}

} // namespace opdock::core
