#include "policy/policy_sources.hpp"

#include <cerrno>

#include <sys/stat.h>

#include "policy/policy_yaml.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

PolicyPtr shared(Policy policy) {
    return std::make_shared<const Policy>(std::move(policy));
}

// Only a file that is certainly not there is passed over: one that cannot be read, such as a link to a disk that is not
// mounted, may hold an enforced policy.
bool is_absent(const std::string &path) {
    struct stat status = {};
    return lstat(path.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

// The file's own errors name the file; whoever set the variable long ago must be reminded of it.
PolicyFile read_named_file(const std::string &path, const std::string &variable) {
    try {
        return read_policy_file(path, Enforce::refuse);
    } catch (const Error &error) {
        throw Error(error.status(), variable + ": " + error.what());
    }
}

} // namespace

LoadedPolicy load_policy(const Environment &environment, const std::string &system_file) {
    LoadedPolicy loaded;
    std::vector<std::string> &warnings = loaded.warnings;
    loaded.stack.environment = shared(policy_from_environment(environment));
    if (const std::string *path = environment.find(Variable::config)) {
        if (!path->starts_with('/')) {
            reject(environment.place(Variable::config), 0,
                   "expected the absolute path of a policy file, found " + quote(*path));
        }
        PolicyFile file = read_named_file(*path, environment.name(Variable::config));
        loaded.stack.config = shared(std::move(file.policy));
        warnings.insert(warnings.end(), file.unknown_keys.begin(), file.unknown_keys.end());
    }
    if (!is_absent(system_file)) {
        PolicyFile file = read_policy_file(system_file, Enforce::accept);
        loaded.stack.system = shared(std::move(file.policy));
        loaded.stack.enforce = shared(std::move(file.enforce));
        warnings.insert(warnings.end(), file.unknown_keys.begin(), file.unknown_keys.end());
    }
    if (!warnings.empty() && loaded.stack.strict()) {
        std::string message = "strict mode takes no unknown keys:";
        for (const std::string &warning : warnings) {
            message += "\n  " + warning;
        }
        throw Error(OPDOCK_INVALID_POLICY, message);
    }
    return loaded;
}

} // namespace opdock::core
