// A folder that its destructor removes. If its process is killed, the next process that makes such a folder removes
// it.
#pragma once

#include <optional>
#include <string>

#include "lock_file.hpp"

namespace opdock::plugin_pack {

class TemporaryFolder {
  public:
    // In the folder for temporary files, or in one that the caller removes. Throws cli::Failure.
    explicit TemporaryFolder(const std::string &parent = {});
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::string &path() const { return path_; }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string outer_; // contains the lock, which tells others that it is in use
    std::string path_;
    std::optional<LockFile> lock_;
};

// Removes the folders that killed processes of this user left there, and nothing else.
void remove_abandoned_folders(const std::string &parent);

} // namespace opdock::plugin_pack
