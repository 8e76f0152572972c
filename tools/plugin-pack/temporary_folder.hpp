// A folder that goes when it is no longer needed.
#pragma once

#include <string>

namespace opdock::plugin_pack {

class TemporaryFolder {
  public:
    // In the folder for temporary files, or beside what it is to replace. Throws cli::Failure.
    explicit TemporaryFolder(const std::string &parent = {});
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;

    const std::string &path() const { return path_; }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

} // namespace opdock::plugin_pack
