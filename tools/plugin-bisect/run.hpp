// A command, run to its end with its output in files.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace opdock::plugin_bisect {

struct Ended {
    int code = 0; // as a shell has it: 128 + the signal that ended it
    bool timed_out = false;
    bool interrupted = false; // `goes_on` said so
    double seconds = 0;
};

// In a session of its own, with nothing to read; what it leaves running there is ended with it. `timeout` of 0: none.
// `goes_on` is asked several times a second. Throws cli::Failure where it cannot be started.
Ended run_command(const std::vector<std::string> &command, const std::vector<std::string> &environment,
                  const std::string &out, const std::string &err, double timeout,
                  const std::function<bool(double seconds)> &goes_on);

} // namespace opdock::plugin_bisect
