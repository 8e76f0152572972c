// Properties of an implementation that decide whether it may serve a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/token.hpp"

namespace opdock::core {

struct Candidate {
    std::string impl_id;
    Kind kind = Kind::default_;
    std::string vendor; // empty for kinds without a vendor
    // The vendor that vendor lists refer to, for every kind: from the plugin's note. Empty for implementations that the
    // program registered; then it is `vendor`.
    std::string plugin_vendor;
    // True for opdock's plugins and the program: vendor allow lists do not apply to their kinds default and reference.
    bool own = true;
    // True for opdock's own plugin folder, plugins that the policy names as defaults, and the program. The token
    // "flagos" requires this, because anybody can put a vendor name into a note.
    bool comes_with_opdock = true;
    std::int32_t priority = 0;
    std::uint32_t flags = 0;                        // its promises: OPDOCK_IMPL_
    std::string device;                             // kind
    std::vector<std::vector<std::uint32_t>> dtypes; // allowed tuples of packed dtypes; empty: `allowed_dtypes`
    // For each dtype variable, the dtypes that its own plugin's declaration allows: other plugins' declarations may
    // allow more. Empty if `dtypes` is set, and if every dtype is allowed.
    std::vector<std::vector<std::uint32_t>> allowed_dtypes;
    std::vector<std::string> architectures; // "sm_90a": exactly this, "sm_80+": this or newer; empty: all
};

} // namespace opdock::core
