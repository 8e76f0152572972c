// A folder that goes when it is no longer needed; when its process is killed, with the next one that makes such a
// folder.
#pragma once

#include <optional>
#include <string>

#include "lock_file.hpp"

namespace opdock::plugin_pack {

class TemporaryFolder {
  public:
    // In the folder for temporary files, or in one that somebody else removes. Throws cli::Failure.
    explicit TemporaryFolder(const std::string &parent = {});
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::string &path() const { return path_; }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string outer_; // with the lock, by which others see that it is in use
    std::string path_;
    std::optional<LockFile> lock_;
};

// Removes those that killed processes of this user left there, and nothing else.
void remove_abandoned_folders(const std::string &parent);

} // namespace opdock::plugin_pack
