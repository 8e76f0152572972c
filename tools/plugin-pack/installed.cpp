#include "installed.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <set>

#include <nlohmann/json.hpp>

#include "cli/exit.hpp"
#include "cli/text_file.hpp"
#include "strict_json.hpp"
#include "text/environment.hpp"
#include "text/error.hpp"

namespace opdock::plugin_pack {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char *system_plugins = "/usr/local/lib/opdock/plugins";

// "" for a user without a home.
std::string user_plugins() {
    const std::string data = core::capture_environment("PLUGIN_").user_data_dir;
    return data.empty() ? "" : data + "/opdock/plugins";
}

// Names in a folder, sorted, without hidden ones and those with line feeds, which hosts ignore as well. Empty if
// `folder` is not a folder, or is unreadable.
std::vector<std::string> names_in(const fs::path &folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::string name = entry->path().filename().string();
        if (!name.starts_with('.') && name.find('\n') == std::string::npos) {
            names.push_back(std::move(name));
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

Installed read_installed(const std::string &plugins, const std::string &name) {
    Installed installed{name, plugins + "/" + name, "", 0, ""};
    const std::string mark = installed.folder + "/" + installed_mark;
    try {
        const std::string text = cli::read_text(mark, size_t{1} << 20);
        installed.serial = JsonText(text, mark, {2, 100}).root().at("serial").number(1, most_serial);
        installed.package = installed.folder + "/" + package_file_name(installed.serial);
    } catch (const cli::Failure &failure) {
        installed.fault = failure.what();
    } catch (const core::Error &error) {
        installed.fault = std::string(error.what()) + "; plugin-pack did not write this file";
    }
    return installed;
}

bool is_installed(const std::string &folder) {
    std::error_code error;
    return fs::is_regular_file(fs::symlink_status(fs::path(folder) / installed_mark, error));
}

} // namespace

std::string plugin_folder(const Request &request) {
    if (!request.folder.empty()) {
        return request.folder;
    }
    std::string folder = request.system ? system_plugins : user_plugins();
    if (folder.empty()) {
        throw cli::Failure("you have no home directory for plugins; give --folder or --system");
    }
    return folder;
}

std::vector<std::string> plugin_folders(const Request &request) {
    if (!request.folder.empty() && !fs::is_directory(request.folder)) {
        throw cli::Failure(request.folder + ": there is no such folder");
    }
    if (!request.folder.empty() || request.system) {
        return {plugin_folder(request)};
    }
    std::vector<std::string> folders = {system_plugins};
    if (const std::string user = user_plugins(); !user.empty()) {
        folders.insert(folders.begin(), user);
    }
    return folders;
}

std::vector<Installed> installed_in(const std::string &plugins) {
    std::vector<Installed> all;
    for (const std::string &name : names_in(plugins)) {
        if (is_installed((fs::path(plugins) / name).string())) {
            all.push_back(read_installed(plugins, name));
        }
    }
    return all;
}

std::optional<Installed> find_installed(const std::string &plugins, const std::string &name) {
    return is_installed(plugins + "/" + name) ? std::optional(read_installed(plugins, name)) : std::nullopt;
}

std::vector<uint64_t> kept_serials(const Installed &installed) {
    std::vector<uint64_t> serials;
    for (const std::string &name : names_in(installed.folder)) {
        uint64_t serial = 0;
        std::from_chars(name.data(), name.data() + name.size(), serial);
        std::error_code error;
        if (serial != 0 && serial != installed.serial && name == package_file_name(serial) &&
            fs::is_regular_file(fs::symlink_status(fs::path(installed.folder) / name, error))) {
            serials.push_back(serial);
        }
    }
    std::sort(serials.begin(), serials.end(), std::greater());
    return serials;
}

std::string print_mark(uint64_t serial) {
    return json{{"schema", "opdock.installed/1"}, {"serial", serial}}.dump() + "\n";
}

std::string package_file_name(uint64_t serial) {
    return std::to_string(serial) + package_ending;
}

std::vector<FoundPackage> find_packages(const std::vector<std::string> &folders, const Trust &trust) {
    std::vector<FoundPackage> found;
    const auto add = [&](const fs::path &file) {
        const std::string path = file.string();
        std::error_code error;
        if (!fs::is_regular_file(path, error)) {
            return; // reading a pipe could block for ever
        }
        FoundPackage package{path, {}, ""};
        try {
            package.opened = open_manifest(read_package_head(path), trust);
        } catch (const cli::Failure &failure) {
            package.fault = failure.what();
        }
        found.push_back(std::move(package));
    };
    for (const std::string &folder : folders) {
        for (const std::string &name : names_in(folder)) {
            const fs::path path = fs::path(folder) / name;
            if (name.ends_with(package_ending)) {
                add(path);
                continue;
            }
            for (const std::string &inner : names_in(path)) {
                if (inner.ends_with(package_ending)) {
                    add(path / inner);
                }
            }
        }
    }
    return found;
}

} // namespace opdock::plugin_pack
