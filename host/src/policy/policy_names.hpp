// Names in a policy that nothing loaded answers to. Found once plugins are known: a warning each, or in strict mode an
// error, except where the policy is fulfilled all the same. Of an enforced policy, an error where they are misspelt.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "policy/policy.hpp"

namespace opdock::core {

struct KnownNames {
    std::map<std::string, std::set<std::string, std::less<>>, std::less<>> impl_ids; // of each op that is declared
    std::set<std::string, std::less<>> vendors; // of implementations of kind vendor, and registered ones
    // Of plugins that bring no such implementation: no token of an order names them.
    std::set<std::string, std::less<>> other_vendors;
    std::set<std::string, std::less<>> device_types = {}; // folded; DLPack's names need not be among them
};

struct UnknownName {
    std::string problem; // a sentence that names where it was written and the nearest known name
    // Who is denied and not there does not serve, who is allowed and not there leaves it to others of the list, and a
    // device that is not there is not used.
    bool fulfilled = false;
    // It cannot be right: an op that is not standard and does not bear a vendor's name. What bears one (acme.fancy),
    // and a device type, may come with a plugin that another process or another machine loads.
    bool misspelt = false;
};

// In a stable order.
std::vector<UnknownName> unknown_names(const Policy &policy, const KnownNames &known);

} // namespace opdock::core
