#include "held_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
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
    HeldDirectoryPtr held;
    try {
        held = std::make_shared<const HeldDirectory>(descriptor, path);
    } catch (...) {
        ::close(descriptor);
        throw;
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
    Kept *const kept = kept_.release();
    kept->older = newest.load();
    while (!newest.compare_exchange_weak(kept->older, kept)) {
    }
}

} // namespace opdock::core
