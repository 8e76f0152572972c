// The command line of `numerics`, in addition to doctest's own options.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace numerics {

struct Settings {
    std::vector<std::string> modules; // --module FILE, repeatable
    std::filesystem::path cases;      // --cases FOLDER, written by write_cases.py
    std::string op;                   // --op NAME and --impl ID: run only these
    std::string impl_id;
    bool list = false; // --list: print "OP IMPL_ID" lines and stop
    // --any-values: for implementations made for devices, whose starts and indices no host checks: they accept any.
    // Cases with wrong values are left out.
    bool any_values = false;
};

const Settings &settings();

} // namespace numerics
