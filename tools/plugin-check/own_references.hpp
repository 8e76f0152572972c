// opdock's own reference implementations, installed or built with the library that this tool runs on.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "opdock/opdock.hpp"

namespace opdock::plugin_check {

// A host with these references and nothing else, whatever plugins could be found otherwise. Without the references the
// host knows no op, and `missing` says why.
struct OwnReferences {
    explicit OwnReferences(const std::function<void(const std::string &)> &log);

    // Declares an op that several implementations may have. Throws as declare_op does.
    void declare(const std::string &signature);

    std::string missing;
    Host host;

  private:
    std::set<std::string> declared_; // signatures
};

} // namespace opdock::plugin_check
