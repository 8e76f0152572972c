// opdock's own reference implementations: those that are installed, or built, with the library that this tool runs on.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// A host with them and nothing else, whatever there is to be found by the rules for plugins. Without them, and then
// `missing` says why, it knows no op.
struct OwnReferences {
    explicit OwnReferences(const std::function<void(const std::string &)> &log);

    // For an op that several implementations have. Throws as declare_op does.
    void declare(const std::string &signature);

    std::string missing;
    Host host;

  private:
    std::set<std::string> declared_; // signatures
};

} // namespace opdock::plugin_check
