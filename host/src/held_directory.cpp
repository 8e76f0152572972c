#include "held_directory.hpp"

#include <algorithm>
#include <atomic>
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
    auto held = std::make_shared<const HeldDirectory>(descriptor, path);
    slot = held;
    return held;
}

namespace {

struct Kept {
    HeldDirectoryPtr directory;
    Kept *older;
};

// A list without a lock, which a forked child could inherit.
std::atomic<Kept *> newest{nullptr};

} // namespace

void keep_held(HeldDirectoryPtr directory) {
    auto *kept = new Kept{std::move(directory), newest.load()};
    while (!newest.compare_exchange_weak(kept->older, kept)) {
    }
}

} // namespace opdock::core
