#include "inspect/library_versions.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string_view>

#include <link.h>

#include "files/reject.hpp"
#include "inspect/elf_dynamic.hpp"

namespace opdock::core {
namespace {

std::filesystem::path loaded_file(const std::string &name) {
    struct Wanted {
        const std::string &name;
        std::filesystem::path path;
        std::exception_ptr failure;
    } wanted{name, {}, {}};
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t /*size*/, void *data) {
            auto &looked_for = *static_cast<Wanted *>(data);
            // No exception may pass through the C library, which cannot be unwound: the process would end.
            try {
                const std::string_view path = info->dlpi_name;
                if (path.substr(path.rfind('/') + 1) != looked_for.name) { // npos + 1 is 0
                    return 0;
                }
                looked_for.path = path;
            } catch (...) {
                looked_for.failure = std::current_exception();
            }
            return 1;
        },
        &wanted);
    if (wanted.failure) {
        std::rethrow_exception(wanted.failure);
    }
    return wanted.path;
}

// "GLIBC_" for "GLIBC_2.34".
std::string_view kind_of(std::string_view version) {
    return version.substr(0, std::min(version.find_first_of("0123456789"), version.size()));
}

} // namespace

const std::vector<std::string> &LibraryVersions::of(const std::string &library) {
    const auto known = known_.find(library);
    if (known != known_.end()) {
        return known->second;
    }
    std::vector<std::string> versions;
    const std::filesystem::path path = loaded_file(library);
    if (!path.empty()) {
        try {
            const PluginFile file(path);
            versions = versions_defined(ElfImage(file));
        } catch (const Rejected &) { // the loader accepted it nevertheless
        }
    }
    return known_.emplace(library, std::move(versions)).first->second;
}

bool LibraryVersions::lacks(const std::string &library, const std::string &version) {
    const std::vector<std::string> &versions = of(library);
    return !versions.empty() && std::find(versions.begin(), versions.end(), version) == versions.end();
}

std::string LibraryVersions::newest_like(const std::string &library, const std::string &version) {
    std::string newest;
    for (const std::string &one : of(library)) {
        if (kind_of(one) == kind_of(version) && ::strverscmp(newest.c_str(), one.c_str()) < 0) {
            newest = one;
        }
    }
    return newest;
}

} // namespace opdock::core
