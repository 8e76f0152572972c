#include "temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/exit.hpp"

namespace opdock::plugin_pack {

TemporaryFolder::TemporaryFolder(const std::string &parent) {
    std::error_code error;
    const std::string folder =
        parent.empty() ? std::filesystem::absolute(std::filesystem::temp_directory_path(error)).string() : parent;
    path_ = folder + "/.opdock-pack-XXXXXX";
    if (error || mkdtemp(path_.data()) == nullptr) {
        throw cli::Failure("no folder can be made in '" + folder +
                           "': " + (error ? error.message() : std::generic_category().message(errno)));
    }
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code error; // what cannot be removed stays
    std::filesystem::remove_all(path_, error);
}

} // namespace opdock::plugin_pack
