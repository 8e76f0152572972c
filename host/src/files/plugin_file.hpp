// A plugin's file while it is being judged.
//
// The file is read with pread through one descriptor and never mapped, so that truncation during the read is an error
// and not a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "files/descriptor.hpp"
#include "files/file_identity.hpp"
#include "files/held_directory.hpp"

namespace opdock::core {

// A regular file, open for reading. Throws Rejected if it is not a regular file or cannot be read.
class PluginFile {
  public:
    explicit PluginFile(const std::filesystem::path &path);
    // Does not follow links.
    PluginFile(const HeldDirectory &directory, const std::string &name);

    // The name without folders, as used in messages.
    const std::string &name() const { return name_; }
    int descriptor() const { return descriptor_.get(); }
    std::uint64_t size() const { return identity_.size; }
    const FileIdentity &identity() const { return identity_; }
    // True if its content or permissions were changed since it was opened.
    bool is_changed() const;

    // Fills all of `bytes`.
    void read(std::uint64_t offset, std::span<std::byte> bytes) const;

  private:
    PluginFile(int directory, const char *path, std::string name, int flags);

    std::string name_;
    Descriptor descriptor_;
    FileIdentity identity_;
};

} // namespace opdock::core
