#include "inspect/library_place.hpp"

#include <new>
#include <system_error>

#include <dlfcn.h>

namespace opdock::core {

std::filesystem::path library_directory() {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void *>(&library_directory), &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code failed;
    const std::filesystem::path library = std::filesystem::canonical(info.dli_fname, failed);
    if (failed == std::errc::not_enough_memory) {
        throw std::bad_alloc(); // the library is there, and so may be its probe
    }
    return failed ? std::filesystem::path() : library.parent_path();
}

} // namespace opdock::core
