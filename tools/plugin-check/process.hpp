// A process that runs a plugin's code, and the channel between it and plugin-check (message.hpp).
#pragma once

#include <chrono>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"

namespace opdock::plugin_check {

using Clock = std::chrono::steady_clock;

// Closes plugin-check's memory and descriptors to the processes that it starts, where the system allows it, and makes
// it the parent of whatever they leave behind.
void keep_to_itself();

// Prevents a process of root's, and whatever it executes, from reaching into processes that keep to themselves, or into
// the kernel.
void give_up_reach();

class Process {
  public:
    // Starts `program --worker job` in a session of its own. Throws cli::Failure.
    Process(const std::string &program, const std::string &job);
    // Ends the process and everything that it left behind.
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    enum class News { packet, silence, end };

    // Returns false if nobody listens any more.
    bool send(const std::string &packet);
    // Waits for the next packet until the deadline.
    News next(std::string &packet, Clock::time_point deadline);
    int exchange() const { return exchange_.get(); }

    // Ends the requests.
    void hang_up() { socket_.close(); }
    // True if it ends in time, whatever it leaves behind.
    bool ends_within(double seconds) const;
    // Returns the way it ended. Ends what it left behind, too.
    int wait();
    void end();

    // The last lines of stderr.
    std::string said() const;

  private:
    core::Descriptor errors_;
    core::Descriptor exchange_;
    core::Descriptor socket_;
    pid_t process_ = -1;
};

} // namespace opdock::plugin_check
