#include "cli/variables.hpp"

#include <algorithm>

#include "cli/exit.hpp"
#include "text/environment.hpp"
#include "text/spelling.hpp"

namespace opdock::cli {
namespace {

std::string &chosen_prefix() {
    static std::string prefix = "PLUGIN_";
    return prefix;
}

} // namespace

const std::string &variable_prefix() {
    return chosen_prefix();
}

void use_variable_prefix(const std::string &prefix) {
    if (!core::is_variable_prefix(prefix)) {
        throw UsageError("--prefix " + core::quote(prefix) +
                         ": expected letters, digits and '_', not starting with a digit, such as TE_FL_");
    }
    chosen_prefix() = prefix;
}

std::string variable_name(std::string_view stem) {
    const auto &all = core::all_variables;
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto &one) { return one.stem == stem; });
    return found == all.end() ? variable_prefix() + std::string(stem)
                              : core::variable_name(found->id, variable_prefix());
}

std::vector<std::string> variable_names() {
    std::vector<std::string> names;
    names.reserve(core::all_variables.size());
    for (const core::VariableInfo &one : core::all_variables) {
        names.push_back(core::variable_name(one.id, variable_prefix()));
    }
    return names;
}

} // namespace opdock::cli
