// The file of a plugin while it is judged.
//
// Read with pread through one descriptor and never mapped, so that a file that shrinks meanwhile is an error and not a
// SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace opdock::core {

// A regular file, open for reading. Throws Rejected when it is none or cannot be read.
class PluginFile {
  public:
    explicit PluginFile(const std::filesystem::path &path);
    ~PluginFile();
    PluginFile(const PluginFile &) = delete;
    PluginFile &operator=(const PluginFile &) = delete;

    // Without its folders, as messages name it.
    const std::string &name() const { return name_; }
    std::uint64_t size() const { return size_; }

    // Fills all of `bytes`.
    void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  private:
    std::string name_;
    int descriptor_ = -1;
    std::uint64_t size_ = 0;
};

} // namespace opdock::core
