// A file about a process, written by the host to a path from an environment variable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "text/setting_text.hpp"

namespace opdock::core {

class ProcessFile {
  public:
    // `name` is an absolute path, in which %p stands for the process id. `place` is the variable.
    // Throws Error(OPDOCK_INVALID_POLICY).
    ProcessFile(std::string_view name, const Place &place);

    // The file of the calling process. Nothing in a forked child whose name has no %p to distinguish
    // its file from its parent's: such a child writes none.
    std::optional<std::string> path() const;

  private:
    std::string name_;
    pid_t first_process_; // the one that read the variable
};

} // namespace opdock::core
