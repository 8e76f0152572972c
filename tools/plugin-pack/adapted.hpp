// The adapted tree of a backend, made from a package and a repository.
#pragma once

#include <memory>

#include "package.hpp"
#include "request.hpp"
#include "workshop.hpp"

namespace opdock::plugin_pack {

struct Adapted {
    Backend backend; // with the base commit; the name of a submodule is "megatron/third_party/x"
    std::unique_ptr<const Workshop> workshop;
    std::vector<std::string> conflicts; // paths where the changes conflict with the commit
    std::vector<Adapted> submodules = {};
    std::vector<std::string> absent = {}; // unchanged submodules that the repository lacks
    std::string path = {};                // of a submodule in its outer tree
    std::string folder = {};              // its checkout
};

// The place that the request gives for the backend of this name; null if there is none.
const BackendPlace *find_place(const std::string &name, const Request &request);

// Throws cli::Failure if the request names a backend that the package does not adapt.
void require_backends(const Package &package, const Request &request);

// The same, and returns the backends that the request names. Reports the package's other ones on standard error.
std::vector<const Backend *> requested_backends(const Package &package, const Request &request);

// Throws cli::Failure if the package is still encrypted.
void require_open(const OpenedPackage &opened, const Request &request);

// Applies the changes to their base commit and, if `place` has a commit, merges the result with that one. Works in the
// folder `scratch`; "" is the folder for temporary files. Throws cli::Failure, with exit_conflict if a patch does not
// fit its base commit, or the resulting tree is not the one that the package names.
Adapted adapt(const Backend &backend, const BackendPlace &place, const std::string &scratch = {});

// Returns exit_fine, or throws cli::Failure with the paths of conflicts.
int finish_with(const std::vector<Adapted> &all);

// "v1.2 (0123456789ab)"
std::string commit_text(const Backend &backend);

} // namespace opdock::plugin_pack
