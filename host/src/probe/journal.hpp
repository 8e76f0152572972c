// What this process is doing with a plugin's code at the moment, where the next process finds it when this one dies of
// it: trying the plugin in a process of its own, opening it, and the first call of each implementation.
//
// A file of a few pages in the cache folder, mapped: writing an entry is writing memory, and what was written outlives
// the process, however it ends. While the process lives it holds a lock on the file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/file_identity.hpp"
#include "text/log.hpp"

namespace opdock::core {

struct JournalEntry {
    enum class Doing : std::uint32_t { opening = 1, calling = 2, trying = 3 };
    Doing doing = Doing::opening;
    std::string path; // of the plugin
    std::string op;   // of a call
    std::string impl_id;
    FileIdentity file = {}; // of what is opened or tried
};

// What a process that is gone was doing when it went.
struct Death {
    std::int64_t process = 0;
    JournalEntry entry;
};

class Journal {
    struct Slot;

  public:
    // An entry that stands as long as this lives, or until it is closed. Where it was not closed because the thread
    // ended in the plugin's code (pthread_exit, pthread_cancel), that of opening stands until the process ends: the
    // loader's lock is held for good. That of a call stands where the thread was the only one: the process ends with
    // it.
    class Open {
      public:
        Open() = default;
        Open(Open &&other) noexcept : slot_(std::exchange(other.slot_, nullptr)), process_(other.process_) {}
        Open &operator=(Open &&) = delete;
        ~Open();

        // The plugin's code returned, or threw. In a copy of the process that this code made, the entry stays the
        // process's own, as what it does is not over there.
        void close() noexcept;

        // Does the work, after which the entry is closed.
        template<class Work>
        void during(Work work) {
            try {
                work();
            } catch (const std::exception &) { // and not what unwinds a thread that ends
                close();
                throw;
            }
            close();
        }

      private:
        friend class Journal;
        Open(Slot *slot, int process) : slot_(slot), process_(process) {}
        Slot *slot_ = nullptr;
        int process_ = 0;
    };

    // An empty folder: nothing is written. The file is made with the first entry; where it cannot be, there is none,
    // and `log`, which must live as long, is told. Null: nobody is.
    explicit Journal(std::string folder, const Log *log = nullptr);
    // Leaves everything as it is while an entry is open: exit() that a plugin calls gets here too.
    ~Journal();
    Journal(const Journal &) = delete;
    Journal &operator=(const Journal &) = delete;

    // [any thread] Where there is no room for one more the entry is left out.
    Open write(const JournalEntry &entry);

    // In a forked child, before its other threads: the file is the parent's.
    void leave_to_parent();

    // Reads and removes what processes that are gone left in the folder; nothing where others may write to it.
    static std::vector<Death> collect(const std::string &folder);

  private:
    struct File;
    File *file();
    void warn(int code) const;

    const std::string folder_;
    const Log *const log_;
    std::mutex mutex_; // of making the file
    std::atomic<File *> file_{nullptr};
    bool tried_ = false;
    std::string name_;
    int descriptor_ = -1;
};

} // namespace opdock::core
