// A folder that is replaced as a whole: a reader finds either the old or the new folder, even if the process is killed
// meanwhile.
#pragma once

#include <optional>
#include <string>

#include "lock_file.hpp"

namespace opdock::plugin_pack {

class Target {
  public:
    // Takes a lock beside the folder, so that no two processes replace it at once, and removes the remains of killed
    // processes. The destructor releases the lock. Throws cli::Failure if another process has the lock, or if the
    // folder is not empty and lacks the file `mark`, which identifies folders of this tool.
    Target(std::string path, std::string mark);
    ~Target();
    Target(const Target &) = delete;
    Target &operator=(const Target &) = delete;

    // An empty folder beside the target, to be filled, and one for temporary files.
    std::string staging() const { return folder_ + "/new"; }
    std::string scratch() const { return folder_ + "/work"; }
    // Moves it to the target's place. The former content is deleted.
    void replace();
    // Deletes the target.
    void remove();

  private:
    std::string path_;
    std::string mark_;
    std::string folder_; // beside the target; holds both folders
    std::optional<LockFile> lock_;
};

} // namespace opdock::plugin_pack
