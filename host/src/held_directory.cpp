#include "held_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reject.hpp"

namespace opdock::core {

HeldDirectory::~HeldDirectory() {
    ::close(descriptor_);
}

std::string HeldDirectory::name_for_loader(const std::string &file) const {
    return fmt::format("/proc/self/fd/{}/{}", descriptor_, file);
}

HeldDirectoryPtr HeldDirectories::of(const std::filesystem::path &file) {
    const std::string path = file.is_absolute()
                                 ? file.native().substr(0, std::max<std::size_t>(1, file.native().rfind('/')))
                                 : std::filesystem::absolute(file).parent_path().string();
    std::weak_ptr<const HeldDirectory> &slot = held_[path];
    if (HeldDirectoryPtr held = slot.lock()) {
        return held;
    }
    const int descriptor = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) {
        const int code = errno;
        held_.erase(path);
        throw Rejected(code == ENOENT || code == ENOTDIR ? RejectCode::not_found : RejectCode::unreadable,
                       fmt::format("the folder '{}' cannot be opened: {}.\nCheck the path and its permissions.", path,
                                   std::generic_category().message(code)));
    }
    HeldDirectoryPtr held = KeptDirectory::find(path, descriptor);
    if (held != nullptr) {
        ::close(descriptor);
    } else {
        try {
            held = std::make_shared<const HeldDirectory>(descriptor, path);
        } catch (...) {
            ::close(descriptor);
            throw;
        }
    }
    slot = held;
    return held;
}

struct KeptDirectory::Kept {
    HeldDirectoryPtr directory;
    Kept *older;
};

std::atomic<KeptDirectory::Kept *> KeptDirectory::newest{nullptr};

KeptDirectory::KeptDirectory(HeldDirectoryPtr directory)
    : kept_(std::make_unique<Kept>(Kept{std::move(directory), nullptr})) {}

KeptDirectory::~KeptDirectory() = default;

void KeptDirectory::keep() noexcept {
    for (const Kept *one = newest.load(); one != nullptr; one = one->older) {
        if (one->directory == kept_->directory) {
            return;
        }
    }
    Kept *const kept = kept_.release();
    kept->older = newest.load();
    while (!newest.compare_exchange_weak(kept->older, kept)) {
    }
}

HeldDirectoryPtr KeptDirectory::find(const std::string &path, int descriptor) {
    struct stat wanted = {};
    if (::fstat(descriptor, &wanted) != 0) {
        return nullptr;
    }
    for (const Kept *one = newest.load(); one != nullptr; one = one->older) {
        struct stat kept = {};
        if (one->directory->path() == path && ::fstat(one->directory->descriptor(), &kept) == 0 &&
            kept.st_dev == wanted.st_dev && kept.st_ino == wanted.st_ino) {
            return one->directory;
        }
    }
    return nullptr;
}

} // namespace opdock::core
