// A process in which a plugin's code runs, and how plugin-check talks with it (message.hpp).
#pragma once

#include <chrono>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"

namespace opdock::plugin_check {

using Clock = std::chrono::steady_clock;

// Closes plugin-check's memory and descriptors to the processes it starts, where the system lets it, and makes it the
// parent of whatever they leave behind.
void keep_to_itself();

// A process of root's can no longer reach into those that keep to themselves, or into the kernel; nor can what it
// executes.
void give_up_reach();

class Process {
  public:
    // Starts `program --worker job` in a session of its own. Throws cli::Failure.
    Process(const std::string &program, const std::string &job);
    // Ends it and all that it left behind.
    ~Process();
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;

    enum class News { packet, silence, end };

    // False when nobody listens any more.
    bool send(const std::string &packet);
    // Waits for the next packet until then.
    News next(std::string &packet, Clock::time_point deadline);
    int exchange() const { return exchange_.get(); }

    // There are no more requests.
    void hang_up() { socket_.close(); }
    // Whatever it leaves behind.
    bool ends_within(double seconds) const;
    // How it ended. What it left behind ends too.
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
