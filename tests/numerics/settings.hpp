// The command line of `numerics`, beside doctest's own options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace numerics {

struct Settings {
    std::vector<std::string> modules; // --module FILE, any number of times
    std::filesystem::path cases;      // --cases FOLDER: what write_cases.py wrote
    std::string op;                   // --op NAME and --impl ID: only these
    std::string impl_id;
    bool list = false; // --list: print "OP IMPL_ID" lines and stop
    // --any-values: they are written for devices, whose starts and indices no host looks at, and refuse none; cases in
    // which these are wrong are left out.
    bool any_values = false;
};

const Settings &settings();

} // namespace numerics
