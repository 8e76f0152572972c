// A file by which processes keep out of each other's way. The system lets go of it when its process ends, however that
// was; nothing of it stays.
#pragma once

#include <optional>
#include <string>

#include "files/descriptor.hpp"

namespace opdock::plugin_pack {

class LockFile {
  public:
    enum class Absent { is_made, is_nothing };

    // Nothing when another process has it, when it is absent and is not to be made, and when its folder is absent.
    // Throws cli::Failure.
    static std::optional<LockFile> take(const std::string &path, Absent absent);

    LockFile(LockFile &&) noexcept = default;
    LockFile &operator=(LockFile &&) = delete;
    LockFile(const LockFile &) = delete;
    LockFile &operator=(const LockFile &) = delete;
    ~LockFile(); // removes the file

  private:
    LockFile(std::string path, core::Descriptor descriptor)
        : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

    std::string path_;
    core::Descriptor descriptor_; // none: of what was moved
};

} // namespace opdock::plugin_pack
