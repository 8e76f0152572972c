// What an implementation says of itself that decides whether it may serve a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/token.hpp"

namespace opdock::core {

struct Candidate {
    std::string impl_id;
    Kind kind = Kind::default_;
    std::string vendor; // empty for kinds without one
    // Whom lists of vendors mean, whatever the kind: of the plugin's note. Empty for what the program registered, whose
    // `vendor` it is then.
    std::string plugin_vendor;
    // Of opdock's plugins or of the program: no list of allowed vendors concerns its kinds default and reference.
    bool own = true;
    // From opdock's own folder of plugins, from a plugin that the policy names as a default, or of the program: what a
    // note says of its vendor is not enough for the token "flagos".
    bool comes_with_opdock = true;
    std::int32_t priority = 0;
    std::uint32_t flags = 0;                        // what it promises: OPDOCK_IMPL_
    std::string device;                             // kind
    std::vector<std::vector<std::uint32_t>> dtypes; // allowed tuples of packed dtypes; empty: `allowed_dtypes`
    // For each dtype variable, the dtypes that its own plugin's declaration allows: another plugin's may allow more.
    // Empty beside `dtypes`, and where everything is allowed.
    std::vector<std::vector<std::uint32_t>> allowed_dtypes;
    std::vector<std::string> architectures; // "sm_90a" exact, "sm_80+" this or newer; empty: all
};

} // namespace opdock::core
