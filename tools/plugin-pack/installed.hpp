// Packages that are installed, each as a folder below one for plugins:
//
//     PLUGINS/Acme_A1-train-megatron/
//         opdock-installed.json     which of the packages is in force
//         3.opdock, 2.opdock        that one and earlier ones, by serial
//         libacme/plugin.json ...   its files
//
// and packages as they lie in any folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "package.hpp"
#include "request.hpp"

namespace opdock::plugin_pack {

// Where packages are installed: the folder that the request names, the system's or the user's. Throws cli::Failure when
// the user has none.
std::string plugin_folder(const Request &request);

// That folder, which has to be there when the request names it; where it names none, the user's and the system's.
std::vector<std::string> plugin_folders(const Request &request);

struct Installed {
    std::string name;    // of the folder
    std::string folder;  // absolute
    std::string package; // the file that is in force; empty where that cannot be told
    uint64_t serial = 0;
    std::string fault; // why it cannot be told, for people
};

// By name.
std::vector<Installed> installed_in(const std::string &plugins);
std::optional<Installed> find_installed(const std::string &plugins, const std::string &name);

// The serials, highest first, of packages that are kept beside the one in force.
std::vector<uint64_t> kept_serials(const Installed &installed);

// What it writes to `installed_mark`.
std::string print_mark(uint64_t serial);

// "3.opdock"
std::string package_file_name(uint64_t serial);

struct FoundPackage {
    std::string path;
    OpenedPackage opened; // its manifest alone
    std::string fault;    // why it was not opened, for people; empty when it was
};

// Packages in these folders and in folders in them, hidden ones apart; by path. Only manifests are read.
std::vector<FoundPackage> find_packages(const std::vector<std::string> &folders, const Trust &trust);

} // namespace opdock::plugin_pack
