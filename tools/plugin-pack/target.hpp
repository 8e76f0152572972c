// A folder that is replaced as a whole: whoever looks finds the old one or the new one, also when the process is
// killed.
#pragma once

#include <optional>
#include <string>

#include "lock_file.hpp"

namespace opdock::plugin_pack {

class Target {
  public:
    // Takes a lock beside the folder, so that two processes do not replace it at once, and removes what one that was
    // killed left behind. The lock goes with it. Throws cli::Failure: when another process has the lock, and when there
    // is a folder that is not empty and lacks the file `mark`, by which a folder of this tool is known.
    Target(std::string path, std::string mark);
    ~Target();
    Target(const Target &) = delete;
    Target &operator=(const Target &) = delete;

    // An empty folder beside the target, to be filled, and one for what is needed meanwhile.
    std::string staging() const { return folder_ + "/new"; }
    std::string scratch() const { return folder_ + "/work"; }
    // Puts it in the target's place. What was there is gone.
    void replace();
    // Takes away what is in its place.
    void remove();

  private:
    std::string path_;
    std::string mark_;
    std::string folder_; // beside it, of both
    std::optional<LockFile> lock_;
};

} // namespace opdock::plugin_pack
