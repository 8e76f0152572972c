#include "op-call/named.hpp"

#include "cli/exit.hpp"

namespace opdock::op_call {

std::vector<Named> parse_named(const std::vector<std::string> &arguments, const std::string &option,
                               const std::string &form, bool text_required) {
    std::vector<Named> result;
    for (const std::string &argument : arguments) {
        const size_t equals = argument.find('=');
        const bool has_text = equals != std::string::npos && equals + 1 < argument.size();
        if (equals == 0 || argument.empty() || (!has_text && (text_required || equals != std::string::npos))) {
            throw cli::UsageError(option + " '" + argument + "': expected " + form);
        }
        result.push_back({argument.substr(0, equals), has_text ? argument.substr(equals + 1) : ""});
    }
    return result;
}

} // namespace opdock::op_call
