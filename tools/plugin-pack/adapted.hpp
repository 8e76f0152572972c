// The adapted tree of a backend, from a package and a repository.
#pragma once

#include <memory>

#include "package.hpp"
#include "request.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {

struct Adapted {
    Backend backend; // with the commit that it is made of; of a submodule: its name is "megatron/third_party/x"
    std::unique_ptr<const Workshop> workshop;
    std::vector<std::string> conflicts; // paths in which the changes and the commit do not go together
    std::vector<Adapted> submodules = {};
    std::vector<std::string> absent = {}; // submodules without changes that the repository does not have
    std::string path = {};                // of a submodule in the tree around it
    std::string folder = {};              // its checkout
};

// Where the request says that the backend of this name is; null when it does not.
const BackendPlace *find_place(const std::string &name, const Request &request);

// Throws cli::Failure when the request names a backend that the package does not adapt.
void require_backends(const Package &package, const Request &request);

// The same, and those of the package that the request names. Others are said on the standard error.
std::vector<const Backend *> requested_backends(const Package &package, const Request &request);

// Throws cli::Failure when the package is still encrypted.
void require_open(const OpenedPackage &opened, const Request &request);

// The changes made to the commit that they are for, or, where `place` has one, merged with that. Works in the folder
// `scratch`; "" is that for temporary files. Throws cli::Failure, with exit_conflict when a patch does not fit the
// commit that it is for, or makes another tree than the package says.
Adapted adapt(const Backend &backend, const BackendPlace &place, const std::string &scratch = {});

// Fine, unless there were conflicts: throws cli::Failure with their paths.
int finish_with(const std::vector<Adapted> &all);

// "v1.2 (0123456789ab)"
std::string commit_text(const Backend &backend);

} // namespace opdock::plugin_pack
