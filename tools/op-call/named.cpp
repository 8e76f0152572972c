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

void add_named(cli::CommandLine &line, const std::string &name, const char *value, std::vector<Named> &into,
               const char *help, const std::string &form, bool text_required) {
    const auto take = [=, &into](const std::vector<std::string> &texts) {
        into = parse_named(texts, "--" + name, form, text_required);
    };
    line.each(name.c_str(), value, take, help);
}

void add_sources(cli::CommandLine &line, const char *name, std::vector<Named> &into, const char *help,
                 const char *forms) {
    add_named(line, name, "NAME=SOURCE", into, help, std::string("NAME=SOURCE\n  ") + forms);
}

void add_shapes(cli::CommandLine &line, std::vector<Named> &into, const char *help) {
    const char *const form = "NAME=DTYPE[DIMS]";
    add_named(line, "shape", form, into, help, std::string(form) + ", such as input=f32[64,1024]");
}

void add_attributes(cli::CommandLine &line, std::vector<Named> &into, const char *help) {
    add_named(line, "attr", "NAME=VALUE", into, help, "NAME=VALUE");
}

} // namespace opdock::op_call
