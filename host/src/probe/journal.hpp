// Records what this process is doing with a plugin's code, so that the next process knows if this one dies of it:
// trying the plugin in a separate process, opening it, and the first call of each implementation.
//
// A mapped file of a few pages in the cache folder: writing an entry is a memory write, and the entry survives any end
// of the process. The process holds a lock on the file while it lives.
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
    FileIdentity file = {}; // of the file that is opened or tried
};

// A process that died, and its last activity.
struct Death {
    std::int64_t process = 0;
    JournalEntry entry;
};

class Journal {
    struct Slot;

  public:
    // An entry that exists until this object is closed or destroyed. If the thread ended in the plugin's code
    // (pthread_exit, pthread_cancel) and did not close it, an entry for opening stays until the process ends, because
    // the loader's lock is held forever. An entry for a call stays if the thread was the only one: the process ends
    // with it.
    class Open {
      public:
        Open() = default;
        Open(Open &&other) noexcept : slot_(std::exchange(other.slot_, nullptr)), process_(other.process_) {}
        Open &operator=(Open &&) = delete;
        ~Open();

        // To be called when the plugin's code has returned or thrown. In a forked copy of the process that this code
        // made, the entry remains the original process's, whose work is not finished.
        void close() noexcept;

        // Does the work, then closes the entry.
        template<class Work>
        void during(Work work) {
            try {
                work();
            } catch (const std::exception &) { // not the unwinding of a thread that ends
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

    // An empty folder: writes nothing. The file is created with the first entry; if that fails, nothing is written, and
    // the failure is reported to `log`, which must outlive this. Null: not reported.
    explicit Journal(std::string folder, const Log *log = nullptr);
    // Changes nothing while an entry is open: exit() called by a plugin also gets here.
    ~Journal();
    Journal(const Journal &) = delete;
    Journal &operator=(const Journal &) = delete;

    // [any thread] If there is no free slot, the entry is omitted.
    Open write(const JournalEntry &entry);

    // In a forked child, before other threads start: leaves the file to the parent.
    void leave_to_parent();

    // Reads and removes the files of dead processes in the folder; returns nothing if others may write to the folder.
    static std::vector<Death> collect(const std::string &folder);

  private:
    struct File;
    File *file();
    void warn(int code) const;

    const std::string folder_;
    const Log *const log_;
    std::mutex mutex_; // guards the creation of the file
    std::atomic<File *> file_{nullptr};
    bool tried_ = false;
    std::string name_;
    int descriptor_ = -1;
};

} // namespace opdock::core
