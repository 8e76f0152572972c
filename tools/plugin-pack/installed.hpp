// Installed packages, each as a folder below a folder for plugins:
//
//     PLUGINS/Acme_A1-train-megatron/
//         opdock-installed.json     names the package in force
//         3.opdock, 2.opdock        that package and earlier ones, by serial
//         libacme/plugin.json ...   its files
//
// and packages as files in any folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "package.hpp"
#include "request.hpp"

namespace opdock::plugin_pack {

// The folder where packages are installed: the one that the request names, the system's or the user's. Throws
// cli::Failure if the user has none.
std::string plugin_folder(const Request &request);

// The folder that the request names, which must exist; if it names none, the user's and the system's.
std::vector<std::string> plugin_folders(const Request &request);

struct Installed {
    std::string name;    // of the folder
    std::string folder;  // absolute
    std::string package; // the file in force; empty if unknown
    uint64_t serial = 0;
    std::string fault; // the reason why it is unknown, for people
};

// Sorted by name.
std::vector<Installed> installed_in(const std::string &plugins);
std::optional<Installed> find_installed(const std::string &plugins, const std::string &name);

// The serials, highest first, of packages that are kept beside the one in force.
std::vector<uint64_t> kept_serials(const Installed &installed);

// The content of `installed_mark`.
std::string print_mark(uint64_t serial);

// "3.opdock"
std::string package_file_name(uint64_t serial);

struct FoundPackage {
    std::string path;
    OpenedPackage opened; // only its manifest
    std::string fault;    // the reason why it was not opened, for people; else empty
};

// Packages in these folders and their subfolders, except for hidden ones; sorted by path. Only manifests are read.
std::vector<FoundPackage> find_packages(const std::vector<std::string> &folders, const Trust &trust);

} // namespace opdock::plugin_pack
