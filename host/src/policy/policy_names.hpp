// Names in a policy that nothing loaded has. Checked once plugins are known: a warning each, or an error in strict
// mode, unless the policy is fulfilled anyway. In an enforced policy, misspelt names are errors.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/policy.hpp"

namespace opdock::core {

struct KnownNames {
    std::map<std::string, std::set<std::string, std::less<>>, std::less<>> impl_ids; // of each declared op
    std::set<std::string, std::less<>> vendors; // of implementations of kind vendor, and registered vendors
    // Vendors of plugins without implementations of kind vendor: no order token names them.
    std::set<std::string, std::less<>> other_vendors;
    std::set<std::string, std::less<>> device_types = {}; // folded; DLPack's names may be omitted
};

struct UnknownName {
    std::string problem; // a sentence with the place of the name and the nearest known name
    // True if the policy holds despite the unknown name: a missing denied vendor serves nothing, other vendors of an
    // allow list may serve instead of a missing one, and a missing device is not used.
    bool fulfilled = false;
    // True if the name cannot be right: a non-standard op without a vendor's prefix. Names with one (acme.fancy), and
    // device types, may come with a plugin that another process or another machine loads.
    bool misspelt = false;
};

// Returned in a stable order.
std::vector<UnknownName> unknown_names(const Policy &policy, const KnownNames &known);

} // namespace opdock::core
