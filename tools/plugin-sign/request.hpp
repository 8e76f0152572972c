// The command line of plugin-sign.
#pragma once

#include <string>
#include <vector>

#include "cli/tool.hpp"

namespace opdock::plugin_sign {

struct Request {
    std::vector<std::string> subjects; // keygen: NAME, else files; absolute except for digest, which prints them
    std::string key;                   // sign
    std::vector<std::string> public_keys;
    std::string trusted; // verify: the folder of trusted keys; "" for the default ones
    std::string passphrase_file;
    bool no_passphrase = false;
    bool json = false;
};

extern const cli::Tool<Request> tool;

} // namespace opdock::plugin_sign
