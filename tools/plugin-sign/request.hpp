// What the command line of plugin-sign asks for.
#pragma once

#include <string>
#include <vector>

#include "cli/tool.hpp"

namespace opdock::plugin_sign {

struct Request {
    std::vector<std::string> subjects; // NAME of keygen, else files; absolute but for digest, which prints them
    std::string key;                   // sign
    std::vector<std::string> public_keys;
    std::string trusted; // verify: the folder of trusted keys; "" for the usual ones
    std::string passphrase_file;
    bool no_passphrase = false;
    bool json = false;
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_sign
