// Checks that the dynamic loader mapped the file that was judged. The loader opens files by name, and answers a request
// for a name that it knows with what it has already.
#pragma once

#include <cstddef>
#include <string>

#include "files/plugin_file.hpp"

namespace opdock::core {

// Has a page of the file mapped, untouched, so that the kernel tells of it in the words in which it tells of what the
// loader mapped: the numbers that stat gives are others on some filesystems (overlayfs, btrfs).
class MappedFile {
  public:
    // Throws Rejected.
    explicit MappedFile(const PluginFile &file);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    // `handle`: from dlopen. False as well when the kernel does not tell.
    bool is_what_was_loaded(void *handle) const;

  private:
    void *page_;
};

// The name that the dynamic loader has of what it loaded. `handle`: from dlopen.
std::string name_of_loaded(void *handle);

// The build id in the memory of what the dynamic loader loaded; empty when it has none.
std::string build_id_of_loaded(void *handle);

} // namespace opdock::core
