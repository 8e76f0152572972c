// A file as a lock between processes. The system releases the lock when its process ends in any way; no file is left
// behind.
#pragma once

#include <optional>
#include <string>

#include "files/descriptor.hpp"

namespace opdock::plugin_pack {

class LockFile {
  public:
    enum class Absent { is_made, is_nothing };

    // Returns nothing if another process holds the lock, if the file is absent and must not be created, or if its
    // folder is absent. Throws cli::Failure.
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
    core::Descriptor descriptor_; // empty after a move
};

} // namespace opdock::plugin_pack
