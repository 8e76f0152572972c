#include "probe/journal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/descriptor.hpp"
#include "files/file_size_signal.hpp"
#include "files/own_folder.hpp"
#include "files/path_rules.hpp"
#include "probe/child_process.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

constexpr std::uint32_t magic = 0x336a706f; // "opj3"
constexpr std::size_t n_slots = 128;        // number of threads that do one of these at once
constexpr std::size_t text_bytes = 976;
constexpr const char *suffix = ".journal";

// The scope of process numbers: a PID namespace of one boot of one machine.
struct ProcessNumbers {
    std::array<char, 40> boot; // empty if unknown
    std::uint64_t name_space;

    bool operator==(const ProcessNumbers &) const = default;
};

ProcessNumbers numbers_here() {
    ProcessNumbers here = {};
    struct stat status = {};
    const int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): reading such a file does not block
        const ssize_t got = TEMP_FAILURE_RETRY(read(file, here.boot.data(), here.boot.size() - 1));
        close(file);
        if (got > 0 && stat("/proc/self/ns/pid", &status) == 0) {
            here.name_space = status.st_ino;
            return here;
        }
    }
    return {};
}

} // namespace

// Layout in the file.
struct Journal::Slot {
    std::uint32_t doing; // 0: free; written last
    std::uint32_t taken; // nonzero if a thread is writing it or owns its entry
    FileIdentity file;
    std::array<char, text_bytes> text; // path, op and impl_id, each followed by a NUL
};

struct Journal::File {
    std::uint32_t magic;
    std::uint32_t reserved;
    std::int64_t process;
    ProcessNumbers numbers;
    std::array<Slot, n_slots> slots;
};

namespace {

// The lock belongs to the open file and not to the process, so it also excludes other hosts of this process.
bool lock(int descriptor) {
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    return fcntl(descriptor, F_OFD_SETLK, &whole) == 0;
}

// False if unknown.
bool has_ended(std::int64_t process, const ProcessNumbers &numbers, const ProcessNumbers &here) {
    return numbers.name_space != 0 && numbers == here && process > 0 && kill(static_cast<pid_t>(process), 0) != 0 &&
           errno == ESRCH;
}

bool is_only_thread() {
    std::error_code error;
    std::filesystem::directory_iterator thread("/proc/self/task", error);
    return !error && thread.increment(error) == std::filesystem::directory_iterator();
}

// The number of bytes read; -1 if it cannot be read.
ssize_t read_begin(int descriptor, void *into, std::size_t size) {
    return TEMP_FAILURE_RETRY(pread(descriptor, into, size, 0));
}

// True for names like "4711-a1B2c3.journal", as Journal::file makes them.
bool is_named_as_ours(std::string_view name) {
    constexpr std::string_view digits = "0123456789";
    constexpr std::size_t n_random = 6;
    const std::size_t dash = name.find_first_not_of(digits);
    return name.ends_with(suffix) && dash != 0 && dash < name.size() && name[dash] == '-' &&
           name.size() == dash + 1 + n_random + std::strlen(suffix);
}

// True for a regular file of this user.
bool is_own_file(int descriptor) {
    struct stat status = {};
    return fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == own_user();
}

// Parses the three texts of an entry; any bytes are accepted.
JournalEntry entry_of(std::uint32_t doing, const FileIdentity &plugin, std::string_view text) {
    JournalEntry entry;
    entry.doing = static_cast<JournalEntry::Doing>(doing);
    entry.file = plugin;
    for (std::string *part : {&entry.path, &entry.op, &entry.impl_id}) {
        const std::size_t end = std::min(text.find('\0'), text.size());
        *part = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return entry;
}

} // namespace

Journal::Open::~Open() {
    if (slot_ == nullptr) {
        return;
    }
    const auto doing = static_cast<JournalEntry::Doing>(slot_->doing);
    const bool stands =
        doing == JournalEntry::Doing::opening || (doing == JournalEntry::Doing::calling && is_only_thread());
    if (!stands) {
        close();
    }
}

void Journal::Open::close() noexcept {
    Slot *slot = std::exchange(slot_, nullptr);
    if (slot != nullptr && ::getpid() == process_) {
        __atomic_store_n(&slot->doing, 0u, __ATOMIC_RELEASE);
        __atomic_store_n(&slot->taken, 0u, __ATOMIC_RELEASE);
    }
}

Journal::Journal(std::string folder, const Log *log) : folder_(std::move(folder)), log_(log) {}

Journal::~Journal() {
    if (File *file = file_.load()) {
        const bool is_done = std::all_of(file->slots.begin(), file->slots.end(), [](const Slot &slot) {
            return __atomic_load_n(&slot.doing, __ATOMIC_ACQUIRE) == 0;
        });
        if (is_done) {
            munmap(file, sizeof *file);
            unlink(name_.c_str());
            close(descriptor_);
        }
    }
}

Journal::File *Journal::file() {
    if (File *made = file_.load(std::memory_order_acquire)) {
        return made;
    }
    const std::lock_guard lock_of_making(mutex_);
    if (tried_ || folder_.empty()) {
        return file_.load(std::memory_order_acquire);
    }
    tried_ = true;
    if (!make_own_folder(folder_).empty()) {
        return nullptr;
    }
    name_ = fmt::format("{}/{}-XXXXXX{}", folder_, getpid(), suffix);
    const FileSizeSignal no_signal;
    const Descriptor opened(mkostemps(name_.data(), static_cast<int>(std::strlen(suffix)), O_CLOEXEC));
    if (opened.get() < 0) {
        warn(errno);
        return nullptr;
    }
    // Move it up: the program's standard streams may be closed, and its output would then go into the file.
    descriptor_ = moved_up(opened.get());
    // Allocate the space now: on a full disk, writing to a mapping would kill the process.
    int code = descriptor_ < 0 || !lock(descriptor_) || ftruncate(descriptor_, 0) != 0 ? errno : 0;
    code = code != 0 ? code : posix_fallocate(descriptor_, 0, sizeof(File));
    if (code == 0) {
        void *memory = mmap(nullptr, sizeof(File), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
        if (memory != MAP_FAILED) {
            File *made = static_cast<File *>(memory);
            made->process = getpid();
            made->numbers = numbers_here();
            made->magic = magic;
            file_.store(made, std::memory_order_release);
            return made;
        }
        code = errno;
    }
    unlink(name_.c_str());
    close(std::exchange(descriptor_, -1));
    warn(code);
    return nullptr;
}

void Journal::warn(int code) const {
    if (log_ != nullptr) {
        log_->warning(fmt::format("The journal of opened plugins is not kept: '{}': {}. A plugin that ends its process "
                                  "is opened again by the next process.",
                                  visible_line(name_), std::generic_category().message(code)));
    }
}

Journal::Open Journal::write(const JournalEntry &entry) {
    File *into = file();
    if (into == nullptr) {
        return {};
    }
    for (Slot &slot : into->slots) {
        std::uint32_t is_free = 0;
        if (!__atomic_compare_exchange_n(&slot.taken, &is_free, 1u, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            continue;
        }
        std::size_t at = 0;
        for (const std::string *part : {&entry.path, &entry.op, &entry.impl_id}) {
            const std::size_t size = std::min(part->size(), text_bytes - at - 1);
            std::memcpy(slot.text.data() + at, part->data(), size);
            slot.text[at + size] = '\0';
            at = std::min(at + size + 1, text_bytes - 1);
        }
        slot.file = entry.file;
        __atomic_store_n(&slot.doing, static_cast<std::uint32_t>(entry.doing), __ATOMIC_RELEASE);
        return {&slot, ::getpid()};
    }
    return {};
}

void Journal::leave_to_parent() {
    if (File *file = file_.exchange(nullptr)) {
        // Replace it by private memory: the entry during which the process was forked is also closed here. It is never
        // freed. The lock stays with the parent's descriptor.
        void *const own =
            mmap(file, sizeof *file, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        (void)own; // without memory for it, the parent's mapping stays
        close(std::exchange(descriptor_, -1));
    }
    tried_ = false;
}

std::vector<Death> Journal::collect(const std::string &folder) {
    std::vector<Death> deaths;
    if (!fault_of_own_folder(folder).empty()) {
        return deaths; // anybody could have written them
    }
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        if (is_named_as_ours(entry->path().filename().native())) {
            names.push_back(entry->path().native());
        }
    }
    std::sort(names.begin(), names.end());
    const auto file = std::make_unique<File>();
    const ProcessNumbers here = numbers_here();
    for (const std::string &name : names) {
        const Descriptor opened(open(name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        if (opened.get() < 0) {
            continue;
        }
        if (!is_own_file(opened.get())) {
            continue;
        }
        const bool is_locked = !lock(opened.get());
        *file = {};
        const ssize_t got = read_begin(opened.get(), file.get(), sizeof *file);
        const bool is_whole = got == static_cast<ssize_t>(sizeof *file);
        // The owner of the lock is alive, or another process shares its descriptors (CLONE_FILES).
        if (is_locked && !(is_whole && file->magic == magic && has_ended(file->process, file->numbers, here))) {
            continue;
        }
        const bool is_unfinished = got == 0 || (is_whole && file->magic == 0); // its process ended while creating it
        if (!is_unfinished && file->magic != magic) {
            continue; // not a journal
        }
        for (const Slot &slot : file->slots) {
            if (is_whole && slot.doing >= 1 && slot.doing <= 3) {
                deaths.push_back({file->process, entry_of(slot.doing, slot.file, {slot.text.data(), text_bytes})});
            }
        }
        unlink(name.c_str());
    }
    return deaths;
}

} // namespace opdock::core
