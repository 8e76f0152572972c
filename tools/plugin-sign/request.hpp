// What the command line of plugin-sign asks for.
#pragma once

#include <string>
#include <vector>

namespace opdock::plugin_sign {

enum class Action { keygen, sign, verify, digest, version, help };

struct Request {
    Action action = Action::help;
    std::vector<std::string> words; // with --help: what it is asked about
    std::vector<std::string>
        subjects;    // NAME of keygen, else files; absolute but for digest, which prints what it is given
    std::string key; // sign
    std::vector<std::string> public_keys;
    std::string trusted; // verify: the folder of trusted keys; "" for the usual ones
    std::string passphrase_file;
    bool no_passphrase = false;
    bool json = false;
};

// `arguments` without the program's name. Throws cli::UsageError.
Request parse_request(const std::vector<std::string> &arguments);

// Of the command that the first of `words` is, else of all.
std::string help_text(const std::vector<std::string> &words = {});
std::string version_text();

} // namespace opdock::plugin_sign
