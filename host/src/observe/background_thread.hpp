// A thread of the host that works at intervals and on request. It blocks every signal, so that none of the
// program's handlers runs on it, and ends after the work under way.
//
// It waits on a number in the process instead of a descriptor or a lock: a signal handler may make a request, a program
// may close unknown descriptors, and a forked child must not inherit what a thread of its parent held.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace opdock::core {

class BackgroundThread {
  public:
    // Exceptions are dropped: the work is tried again the next time.
    using Work = std::function<void()>;
    // Works only on request.
    static constexpr auto no_interval = std::chrono::nanoseconds::max();

    // Starts it. `name` appears in debuggers and `ps -L`; 15 characters at most. Throws
    // std::system_error if the process may have no more threads.
    BackgroundThread(std::string name, std::chrono::nanoseconds interval, Work work);
    // Ends it after the work under way, without working once more.
    ~BackgroundThread();
    BackgroundThread(const BackgroundThread &) = delete;
    BackgroundThread &operator=(const BackgroundThread &) = delete;

    // Makes it work at once, or once more after the work under way; once for all requests made before
    // it starts. Also safe in signal handlers.
    void ask() noexcept;
    // The same for every background thread of the process.
    static void ask_all() noexcept;

    // To be called in a forked child, which has none of its parent's threads. Nothing runs from here on.
    void start_over_in_child();
    // Starts it in such a child; does nothing if already started. A host calls it when the child first calls an op,
    // since most children only run another program. False if the process may have no more threads: then nothing runs.
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
