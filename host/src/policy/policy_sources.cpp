#include "policy/policy_sources.hpp"

#include <cerrno>
#include <filesystem>

#include <fmt/format.h>
#include <sys/stat.h>

#include "files/path_rules.hpp"
#include "policy/policy_yaml.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {
namespace {

PolicyPtr shared(Policy policy) {
    return std::make_shared<const Policy>(std::move(policy));
}

// True only if the file is certainly missing: an unreadable file, such as a link to a disk that is not mounted, or a
// file in a folder that is such a link, may hold an enforced policy. A file in place of the folder may be a misplaced
// policy.
bool is_absent(const std::string &path) {
    struct stat status = {};
    std::filesystem::path place = path;
    while (lstat(place.c_str(), &status) != 0) {
        if (errno != ENOENT || !place.has_relative_path()) {
            return false;
        }
        place = place.parent_path();
    }
    return place != path && stat(place.c_str(), &status) == 0;
}

// Errors in the file name only the file; this adds the variable, which may have been set long ago.
PolicyFile read_named_file(const std::string &path, const std::string &variable) {
    try {
        return read_policy_file(path, Enforce::refuse);
    } catch (const Error &error) {
        throw Error(error.status(), variable + ": " + error.what());
    }
}

// Whoever may write to a file could change what it trusts: such a file grants no trust. Its requirements stay in force,
// since ignoring them would admit what the file excludes. Returns what was ignored, "" for nothing.
std::string drop_trust_of(Policy &policy) {
    std::string dropped;
    if (policy.trust && policy.trust->value != Trust::require) {
        dropped = fmt::format("trust ({})", policy.trust->source);
        policy.trust.reset();
    }
    if (policy.trusted_sha256) {
        dropped += fmt::format("{}trusted_sha256 ({})", dropped.empty() ? "" : ", ", policy.trusted_sha256->source);
        policy.trusted_sha256.reset();
    }
    if (policy.default_plugins) {
        dropped += fmt::format("{}default_plugins ({})", dropped.empty() ? "" : ", ", policy.default_plugins->source);
        policy.default_plugins.reset();
    }
    return dropped;
}

// Applies the rules for trusted keys to files that have trust items; ignores all other files.
void judge_place(const std::string &path, PolicyFile &file, std::vector<std::string> &faults) {
    const auto speaks_of_trust = [](const Policy &policy) {
        return policy.trust || policy.trusted_sha256 || policy.default_plugins;
    };
    if (!speaks_of_trust(file.policy) && !speaks_of_trust(file.enforce)) {
        return;
    }
    const auto fault = PathRules().judge(path);
    if (!fault) {
        return;
    }
    std::string ignored = drop_trust_of(file.enforce);
    const std::string more = drop_trust_of(file.policy);
    ignored += (ignored.empty() || more.empty() ? "" : ", ") + more;
    faults.push_back(fmt::format(
        "Somebody else could change the trust settings of the policy file '{}': {}.\n"
        "Ignored: {}.\n"
        "Expected that only root and the user who runs this process may write there. Run `{}` once you have checked "
        "its contents.",
        path, fault->what, ignored.empty() ? "nothing, because the file only requires trust" : ignored, fault->remedy));
}

} // namespace

LoadedPolicy load_policy(const Environment &environment, const std::string &system_file) {
    LoadedPolicy loaded;
    std::vector<std::string> &warnings = loaded.warnings;
    std::vector<std::string> faults;
    loaded.stack.environment = shared(policy_from_environment(environment));
    if (const std::string *path = environment.find(Variable::config)) {
        if (!path->starts_with('/') || path->find('\n') != std::string::npos) {
            reject(environment.place(Variable::config), 0,
                   "expected the absolute path of a policy file, found " + quote(*path));
        }
        PolicyFile file = read_named_file(*path, environment.name(Variable::config));
        judge_place(*path, file, faults);
        loaded.stack.config = shared(std::move(file.policy));
        warnings.insert(warnings.end(), file.unknown_keys.begin(), file.unknown_keys.end());
    }
    if (!is_absent(system_file)) {
        PolicyFile file = read_policy_file(system_file, Enforce::accept);
        if (!file.unknown_enforced.empty()) {
            throw Error(OPDOCK_INVALID_POLICY,
                        fmt::format("{}\nExpected only known keys at the top level and below 'enforce' in the "
                                    "machine's policy file: a misspelt key would not be enforced.",
                                    file.unknown_enforced.front()));
        }
        judge_place(system_file, file, faults);
        loaded.stack.system = shared(std::move(file.policy));
        loaded.stack.enforce = shared(std::move(file.enforce));
        warnings.insert(warnings.end(), file.unknown_keys.begin(), file.unknown_keys.end());
    }
    if (!warnings.empty() && loaded.stack.strict()) {
        std::string message = "strict mode does not allow unknown keys:";
        for (const std::string &warning : warnings) {
            message += "\n  " + warning;
        }
        throw Error(OPDOCK_INVALID_POLICY, message);
    }
    if (!faults.empty() && loaded.stack.strict()) {
        throw Error(OPDOCK_INVALID_POLICY,
                    fmt::format("{}\nStrict mode does not use the trust settings of such a file.", faults.front()));
    }
    warnings.insert(warnings.end(), faults.begin(), faults.end());
    return loaded;
}

} // namespace opdock::core
