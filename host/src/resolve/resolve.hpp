// Selects and orders the implementations that may serve an op, and says why the others may not: a pure function.
//
// The rules, in order: device type, dtypes, architecture, allow and deny lists, required contracts, health, the order's
// tokens, availability. The first rule that drops an implementation is reported. The rest is sorted by the first token
// that names it, then by priority (highest first), then by impl_id (in descending alphabetical order).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "load/candidate.hpp"
#include "load/token.hpp"
#include "policy/policy_stack.hpp"

namespace opdock::core {

// Availability on this machine. An implementation that has not been queried is unknown, and stays in the chain.
struct Availability {
    enum Answer { yes, no, unknown };
    Answer answer = unknown;
    std::string reason; // for no
};

// Failures remove an implementation from the op's chain on a device.
struct Health {
    bool in_chain = true;
    std::string reason; // for false: "failed 3 times in a row, last with: ..."
};

struct Contender {
    const Candidate *candidate;
    Availability availability = {};
    Health health = {};
};

// The key for which a call is resolved.
struct Key {
    std::string device_type;
    std::int32_t device_index = 0;
    std::vector<std::uint32_t> dtypes; // packed, of the signature's dtype variables in order
    bool any_dtypes = false;           // for listings: implementations of any dtypes
    std::string architecture;          // of the device; empty if its type has none or it is unknown
    bool any_architecture = false;     // for listings: the device was not queried
    bool ordered_architectures = false;
};

enum class Rule { device, dtypes, architecture, allow_vendors, deny_vendors, contract, health, order, availability };

// "device", "allow_vendors", ...
std::string_view rule_name(Rule rule);

struct Kept {
    std::size_t id; // index of the contender
    std::string impl_id;
    Kind kind;
    std::string vendor;
    Token token;      // the first token of the order that names it
    std::string rule; // the rule as a sentence: "'vendor' in the order of PLUGIN_PREFER"
    Availability::Answer availability;
};

struct Dropped {
    std::size_t id; // index of the contender
    std::string impl_id;
    Rule rule;
    std::string reason; // with its source: "vendor 'acme' is denied by PLUGIN_DENY_VENDORS"
};

struct Decision {
    std::vector<Kept> chain;      // in the order of attempts
    std::vector<Dropped> dropped; // sorted by impl_id
    OpPolicy policy;
};

Decision resolve(std::span<const Contender> contenders, const Key &key, OpPolicy policy);

// Returns why the vendor may serve nothing, so that none of its code is run; empty if it may serve.
std::string refusal_of_vendor(const Candidate &candidate, const OpPolicy &policy);

// "cuda:0, dtypes bf16,f32".
std::string key_text(const Key &key);

// A text of several lines for people:
//
//     rmsnorm_fwd on cpu:0, dtypes f32,f32, order vendor|default|reference (PLUGIN_PREFER), not strict (built-in)
//       1  vendor.acme     'vendor' in the order of PLUGIN_PREFER
//       2  default.cpu     'default' in the order of PLUGIN_PREFER
//       -  vendor.beta     deny_vendors: vendor 'beta' is denied by PLUGIN_DENY_VENDORS
std::string decision_text(std::string_view op, const Key &key, const Decision &decision);

} // namespace opdock::core
