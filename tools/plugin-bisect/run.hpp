// Runs a command to its end, with its output in files.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace opdock::plugin_bisect {

struct Ended {
    int code = 0; // as in a shell: 128 + signal if a signal ended it
    bool timed_out = false;
    bool interrupted = false; // because `goes_on` returned false
    double seconds = 0;
};

// Uses a session of its own with empty stdin, and ends whatever the command leaves running there. A `timeout` of 0:
// none. `goes_on` is called several times a second. Throws cli::Failure if the command cannot be started.
Ended run_command(const std::vector<std::string> &command, const std::vector<std::string> &environment,
                  const std::string &out, const std::string &err, double timeout,
                  const std::function<bool(double seconds)> &goes_on);

} // namespace opdock::plugin_bisect
