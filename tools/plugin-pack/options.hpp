// What may stand on the command line of plugin-pack, and its help.
#pragma once

#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include "request.hpp"

namespace opdock::plugin_pack {

struct Command {
    const char *name;
    Action action;
    const char *subject; // what it is about; null: nothing
    std::vector<const char *> options;
    bool can_find_subject = false; // where it is not given
};

const std::vector<Command> &commands();

boost::program_options::options_description describe_options();

// Of the command that the first of `words` is, else of all.
std::string help_text(const std::vector<std::string> &words = {});

} // namespace opdock::plugin_pack
