#include "library_place.hpp"

#include <system_error>

#include <dlfcn.h>

namespace opdock::core {

std::filesystem::path library_directory() {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void *>(&library_directory), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code ignored;
    const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, ignored);
    return ignored ? std::filesystem::path() : library.parent_path();
}

} // namespace opdock::core
