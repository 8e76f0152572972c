// Which implementations may serve an op, in which order, and why every other one does not: a pure function.
//
// An implementation passes, in this order: device type, dtypes, architecture, allow and deny lists, what it has to
// promise, health, the order's tokens, availability. The first rule that drops it is the one reported. What is left is
// sorted by the first token that names it, then priority (high first), then impl_id (the last of the alphabet first).
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

// Whether the machine can run it. What nobody has asked yet is unknown, and stays in the chain.
struct Availability {
    enum Answer { yes, no, unknown };
    Answer answer = unknown;
    std::string reason; // of no
};

// Failures take an implementation out of the op's chain on a device.
struct Health {
    bool in_chain = true;
    std::string reason; // of false: "failed 3 times in a row, last with: ..."
};

struct Contender {
    const Candidate *candidate;
    Availability availability = {};
    Health health = {};
};

// What a call is resolved for.
struct Key {
    std::string device_type;
    std::int32_t device_index = 0;
    std::vector<std::uint32_t> dtypes; // packed, of the signature's dtype variables in order
    bool any_dtypes = false;           // for listings: whatever dtypes an implementation takes
    std::string architecture;          // of the device; empty when its type has none or nobody knows
    bool any_architecture = false;     // for listings: of a device that was not asked
    bool ordered_architectures = false;
};

enum class Rule { device, dtypes, architecture, allow_vendors, deny_vendors, contract, health, order, availability };

// "device", "allow_vendors", ...
std::string_view rule_name(Rule rule);

struct Kept {
    std::size_t id; // which of the contenders
    std::string impl_id;
    Kind kind;
    std::string vendor;
    Token token;      // the first of the order that names it
    std::string rule; // the same as a sentence: "'vendor' in the order of PLUGIN_PREFER"
    Availability::Answer availability;
};

struct Dropped {
    std::size_t id; // which of the contenders
    std::string impl_id;
    Rule rule;
    std::string reason; // names what decided: "vendor 'acme' is denied by PLUGIN_DENY_VENDORS"
};

struct Decision {
    std::vector<Kept> chain;      // in the order to be tried
    std::vector<Dropped> dropped; // by impl_id
    OpPolicy policy;
};

Decision resolve(std::span<const Contender> contenders, const Key &key, OpPolicy policy);

// Why its vendor may serve nothing, so that nothing of it is run; empty when it may.
std::string refusal_of_vendor(const Candidate &candidate, const OpPolicy &policy);

// "cuda:0, dtypes bf16,f32".
std::string key_text(const Key &key);

// For people, several lines:
//
//     rmsnorm_fwd on cpu:0, dtypes f32,f32, order vendor|default|reference (PLUGIN_PREFER), not strict (built-in)
//       1  vendor.acme     'vendor' in the order of PLUGIN_PREFER
//       2  default.cpu     'default' in the order of PLUGIN_PREFER
//       -  vendor.beta     deny_vendors: vendor 'beta' is denied by PLUGIN_DENY_VENDORS
std::string decision_text(std::string_view op, const Key &key, const Decision &decision);

} // namespace opdock::core
