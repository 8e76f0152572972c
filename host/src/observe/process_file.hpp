// A file about a process that the host writes: where a variable of the environment says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "text/setting_text.hpp"

namespace opdock::core {

class ProcessFile {
  public:
    // `name` is an absolute path; %p in it stands for the number of the process. `place` is the variable. Throws
    // Error(OPDOCK_INVALID_POLICY).
    ProcessFile(std::string_view name, const Place &place);

    // The file of the process that asks. Nothing in a forked child that has no %p to tell its file from its parent's:
    // such a child writes none.
    std::optional<std::string> path() const;

  private:
    std::string name_;
    pid_t first_process_; // the one that read the variable
};

} // namespace opdock::core
