// A thread of the host that works at intervals and when it is asked to. It blocks every signal, so that none of the
// program's handlers runs on it, and ends within the work that is under way.
//
// It waits on one number of the process instead of a descriptor or a lock: a signal handler may ask, a program may
// close descriptors that it does not know, and a forked child inherits nothing that a thread of its parent held.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace opdock::core {

class BackgroundThread {
  public:
    // What it throws is dropped: the work is tried again the next time.
    using Work = std::function<void()>;
    // Works only when it is asked.
    static constexpr auto no_interval = std::chrono::nanoseconds::max();

    // Starts it. `name` is what debuggers and `ps -L` show, 15 characters at most. Throws std::system_error where the
    // process may have no more threads.
    BackgroundThread(std::string name, std::chrono::nanoseconds interval, Work work);
    // Waits until work that is under way is done, and ends it. It does not work once more.
    ~BackgroundThread();
    BackgroundThread(const BackgroundThread &) = delete;
    BackgroundThread &operator=(const BackgroundThread &) = delete;

    // It works at once, or once more after the work under way; once for all who asked before it began. Also from signal
    // handlers.
    void ask() noexcept;
    // The same for every background thread of the process.
    static void ask_all() noexcept;

    // To be called in a forked child, which has none of its parent's threads. From here on nothing runs.
    void start_over_in_child();
    // Starts it in such a child; does nothing when that was done. A host calls it when the child first calls an op, as
    // most children only run another program. False when the process may have no more threads: nothing runs then.
    bool start_in_child() noexcept;

  private:
    struct Running;
    void abandon() noexcept;

    const std::string name_;
    const std::chrono::nanoseconds interval_;
    const Work work_;
    std::unique_ptr<Running> running_;
};

} // namespace opdock::core
