#include "trust/trusted_keys.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

namespace fs = std::filesystem;

// Sorted by name.
std::vector<std::string> key_files(const std::string &folder, std::vector<std::string> &warnings) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.ends_with(".pub") || name.starts_with('.')) {
            continue;
        }
        if (name.find('\n') != std::string::npos) {
            warnings.push_back(
                fmt::format("The key {} in '{}' is not used: its name contains a line break", quote(name), folder));
        } else {
            files.push_back(entry->path().string());
        }
    }
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
        warnings.push_back(fmt::format("The folder of trusted keys '{}' is not used: {}", folder, error.message()));
    }
    std::sort(files.begin(), files.end());
    if (files.size() > most_trusted_keys) {
        warnings.push_back(fmt::format("'{}' holds {} keys; those after the first {} are not used", folder,
                                       files.size(), most_trusted_keys));
        files.resize(most_trusted_keys);
    }
    return files;
}

} // namespace

std::vector<std::string> trust_folders(const Environment &environment, const std::string &system_folder) {
    std::vector<std::string> folders = {system_folder};
    if (!environment.user_config_dir.empty()) {
        folders.push_back(environment.user_config_dir + "/opdock/trust.d");
    }
    return folders;
}

TrustedKeys read_trusted_keys(const std::vector<std::string> &folders, PathRules &rules) {
    TrustedKeys trusted;
    trusted.folders = folders;
    for (const std::string &folder : folders) {
        for (const std::string &file : key_files(folder, trusted.warnings)) {
            if (const auto fault = rules.judge(file)) {
                trusted.warnings.push_back(fmt::format("The key '{}' is not used: {}.\nRun `{}` once you know that "
                                                       "the key is the right one.",
                                                       file, fault->what, fault->remedy));
                continue;
            }
            try {
                trusted.keys.push_back({read_public_key(file), file});
            } catch (const Error &error) {
                trusted.warnings.push_back(fmt::format("A key is not used: {}", error.what()));
            }
        }
    }
    return trusted;
}

} // namespace opdock::core
