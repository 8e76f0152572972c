// Checks that the dynamic loader mapped the file that was judged. The loader opens files by name, and returns a loaded
// library if it knows the name.
#pragma once

#include <cstddef>
#include <string>

#include "files/plugin_file.hpp"

namespace opdock::core {

// Maps one page of the file, without touching it, so that /proc/self/maps identifies the file in the same terms as the
// loader's mappings: on some filesystems (overlayfs, btrfs) stat returns different numbers.
class MappedFile {
  public:
    // Throws Rejected.
    explicit MappedFile(const PluginFile &file);
    ~MappedFile();
    MappedFile(const MappedFile &) = delete;
    MappedFile &operator=(const MappedFile &) = delete;

    // `handle`: from dlopen. Also false if the kernel gives no information.
    bool is_what_was_loaded(void *handle) const;

  private:
    void *page_;
};

// The dynamic loader's name of a loaded library. `handle`: from dlopen.
std::string name_of_loaded(void *handle);

// The build id in the memory of a loaded library; empty if it has none.
std::string build_id_of_loaded(void *handle);

} // namespace opdock::core
