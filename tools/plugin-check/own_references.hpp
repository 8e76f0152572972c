// opdock's own reference implementations: those that are installed, or built, with the library that this tool runs on.
#pragma once

#include <functional>
#include <string>

#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// A host with them and nothing else, whatever there is to be found by the rules for plugins. Without them, and then
// `missing` says why, it knows no op.
struct OwnReferences {
    explicit OwnReferences(const std::function<void(const std::string &)> &log);

    std::string missing;
    Host host;
};

} // namespace opdock::plugin_check
