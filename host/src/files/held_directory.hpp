// A folder that is held open, from the moment a plugin in it is judged until the plugin is loaded.
//
// The dynamic loader is given names in it through /proc/self/fd, so that $ORIGIN means the folder and nobody can put
// another in its place.
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

// Tells folders apart, whatever their paths.
struct FolderIdentity {
    dev_t device = 0;
    ino_t inode = 0; // no folder has this

    bool operator==(const FolderIdentity &) const = default;
};

// Follows links; nothing when there is no folder at this path.
std::optional<FolderIdentity> identity_of_folder(const std::string &path);

class HeldDirectory {
  public:
    HeldDirectory(Descriptor descriptor, std::string path);

    int descriptor() const { return descriptor_.get(); }
    const FolderIdentity &identity() const { return identity_; }
    const std::string &path() const { return path_; }
    // Without links, as it was when it was opened.
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

// A file by the folder that it really lies in, and its name there, which is no link unless somebody makes it one.
struct HeldFile {
    HeldDirectoryPtr directory;
    std::string name;
};

// The path at which it really lies, whatever links and dots it was found by: by this one it is remembered. A long one
// is cut and has a digest in it.
std::string remembered_path(const HeldFile &file);

// One descriptor for each folder in use, however many plugins lie in it; one that is kept for good serves every host.
class HeldDirectories {
  public:
    // The folder a file lies in. Throws Rejected.
    HeldDirectoryPtr of(const std::filesystem::path &file);
    // Where a file lies when the links that it is named by are followed, once and for all: whoever changes one of them
    // later changes nothing of it. Throws Rejected, not because the file itself is not there.
    HeldFile follow(std::filesystem::path file);

  private:
    std::map<std::string, std::weak_ptr<const HeldDirectory>> held_; // by path
};

// For good: the loader remembers the name of what it loaded, and another folder's descriptor with the same number would
// give it the wrong plugin.
class KeptDirectory {
  public:
    // Takes what keeping needs, so that it cannot fail once the plugin is there.
    explicit KeptDirectory(HeldDirectoryPtr directory);
    ~KeptDirectory();
    KeptDirectory(const KeptDirectory &) = delete;
    KeptDirectory &operator=(const KeptDirectory &) = delete;

    void keep() noexcept;

    // The folder when it is kept already under this path, or null.
    static HeldDirectoryPtr find(const HeldDirectory &directory);

  private:
    struct Kept;
    static std::atomic<Kept *> newest; // a list without a lock, which a forked child could inherit
    std::unique_ptr<Kept> kept_;
};

} // namespace opdock::core
