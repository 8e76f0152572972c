// A folder that is held open from the time a plugin in it is judged until the plugin is loaded.
//
// The dynamic loader gets file names through /proc/self/fd, so that $ORIGIN means this folder and nobody can substitute
// another one.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

#include "files/descriptor.hpp"

namespace opdock::core {

// Identifies a folder independently of its path.
struct FolderIdentity {
    dev_t device = 0;
    ino_t inode = 0; // no folder has inode 0

    bool operator==(const FolderIdentity &) const = default;
};

// Follows links; nullopt if there is no folder at this path.
std::optional<FolderIdentity> identity_of_folder(const std::string &path);

class HeldDirectory {
  public:
    HeldDirectory(Descriptor descriptor, std::string path);

    int descriptor() const { return descriptor_.get(); }
    const FolderIdentity &identity() const { return identity_; }
    const std::string &path() const { return path_; }
    // The path without links, as of when the folder was opened.
    const std::string &real_path() const { return real_path_; }
    // "/proc/self/fd/9/libacme.so"
    std::string name_for_loader(const std::string &file) const;

  private:
    Descriptor descriptor_;
    FolderIdentity identity_;
    std::string path_;
    std::string real_path_;
};

using HeldDirectoryPtr = std::shared_ptr<const HeldDirectory>;

// A file as its real folder and its name there. The name is not a link unless somebody makes it one.
struct HeldFile {
    HeldDirectoryPtr directory;
    std::string name;
};

// The real path of the file, independent of links and dots in the path by which it was found; used as its key. A long
// path is cut and contains a digest.
std::string remembered_path(const HeldFile &file);

// Holds one descriptor for each folder in use, shared by all plugins there; a kept folder serves every host.
class HeldDirectories {
  public:
    // The folder of a file. Throws Rejected.
    HeldDirectoryPtr of(const std::filesystem::path &file);
    // Follows the links of a file's path once: later changes of these links have no effect. Throws Rejected, but not if
    // only the file itself is missing.
    HeldFile follow(std::filesystem::path file);

  private:
    std::map<std::string, std::weak_ptr<const HeldDirectory>> held_; // by path
};

// Permanent: the loader remembers the names of loaded files. If another folder's descriptor got the same number, the
// loader would return the wrong plugin.
class KeptDirectory {
  public:
    // Allocates everything that keeping needs, so that it cannot fail once the plugin is loaded.
    explicit KeptDirectory(HeldDirectoryPtr directory);
    ~KeptDirectory();
    KeptDirectory(const KeptDirectory &) = delete;
    KeptDirectory &operator=(const KeptDirectory &) = delete;

    void keep() noexcept;

    // The kept folder with this path, or null.
    static HeldDirectoryPtr find(const HeldDirectory &directory);

  private:
    struct Kept;
    static std::atomic<Kept *> newest; // a lock-free list, because a forked child could inherit a held lock
    std::unique_ptr<Kept> kept_;
};

} // namespace opdock::core
