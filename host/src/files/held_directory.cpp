#include "files/held_directory.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/digest.hpp"
#include "files/reject.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

namespace {

std::string folder_of(const std::filesystem::path &file) {
    if (file.is_relative()) {
        return folder_of(std::filesystem::absolute(file));
    }
    return file.native().substr(0, std::max<std::size_t>(1, file.native().rfind('/')));
}

} // namespace

std::optional<FolderIdentity> identity_of_folder(const std::string &path) {
    struct stat status = {};
    return ::stat(path.c_str(), &status) == 0 ? std::optional(FolderIdentity{status.st_dev, status.st_ino})
                                              : std::nullopt;
}

HeldDirectory::HeldDirectory(Descriptor descriptor, std::string path)
    : descriptor_(std::move(descriptor)), path_(std::move(path)), real_path_(path_) {
    struct stat status = {};
    if (::fstat(descriptor_.get(), &status) == 0) {
        identity_ = {status.st_dev, status.st_ino};
    }
    std::array<char, PATH_MAX> real{};
    const std::string link = fmt::format("/proc/self/fd/{}", descriptor_.get());
    if (const ssize_t length = ::readlink(link.c_str(), real.data(), real.size()); length > 0) {
        real_path_.assign(real.data(), static_cast<std::size_t>(length));
    }
}

std::string HeldDirectory::name_for_loader(const std::string &file) const {
    return fmt::format("/proc/self/fd/{}/{}", descriptor_.get(), file);
}

std::string remembered_path(const HeldFile &file) {
    constexpr std::size_t most = 600, kept = 200, digits = 32; // records of it have limited room
    const std::string &folder = file.directory->real_path();
    std::string path = folder == "/" ? "/" + file.name : folder + "/" + file.name;
    if (path.size() > most) {
        path = fmt::format("{}...{}/{}", path.substr(0, kept), hex(sha256_of(path)).substr(0, digits), file.name);
    }
    return path;
}

HeldDirectoryPtr HeldDirectories::of(const std::filesystem::path &file) {
    const std::string path = folder_of(file);
    std::weak_ptr<const HeldDirectory> &slot = held_[path];
    if (HeldDirectoryPtr held = slot.lock()) {
        return held;
    }
    Descriptor descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (descriptor.get() < 0) {
        const int code = errno;
        held_.erase(path);
        throw Rejected(code == ENOENT || code == ENOTDIR ? RejectCode::not_found : RejectCode::unreadable,
                       fmt::format("the folder '{}' cannot be opened: {}.\nCheck the path and its permissions.", path,
                                   std::generic_category().message(code)));
    }
    auto held = std::make_shared<const HeldDirectory>(std::move(descriptor), path);
    if (HeldDirectoryPtr kept = KeptDirectory::find(*held)) {
        held = std::move(kept);
    }
    slot = held;
    return held;
}

HeldFile HeldDirectories::follow(std::filesystem::path file) {
    constexpr int most_links = 40; // the kernel's limit
    for (int links = 0;; ++links) {
        HeldFile held{of(file), file.filename().string()};
        std::array<char, PATH_MAX> target{};
        const ssize_t length =
            ::readlinkat(held.directory->descriptor(), held.name.c_str(), target.data(), target.size());
        if (length < 0) { // not a link, as is the case for ".." and for paths that end in '/'
            return held;
        }
        if (links == most_links || length == static_cast<ssize_t>(target.size())) {
            throw Rejected(RejectCode::unreadable,
                           fmt::format("'{}' is a link that leads through more than {} other links, or to a name that "
                                       "is too long.\nSpecify the file itself.",
                                       held.name, most_links));
        }
        const std::string_view leads_to(target.data(), static_cast<std::size_t>(length));
        if (leads_to.find('\n') != std::string_view::npos) {
            throw Rejected(RejectCode::bad_name,
                           fmt::format("'{}' is a link to {}, a name that contains a line break; rename it.", held.name,
                                       quote(leads_to)));
        }
        // An absolute target replaces the folder.
        file = std::filesystem::path(held.directory->path()) / leads_to;
    }
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

HeldDirectoryPtr KeptDirectory::find(const HeldDirectory &directory) {
    for (const Kept *one = newest.load(); one != nullptr; one = one->older) {
        if (one->directory->path() == directory.path() && one->directory->identity() == directory.identity()) {
            return one->directory;
        }
    }
    return nullptr;
}

} // namespace opdock::core
