// The order for one call where the policy has `measured`: of the implementations matched by the tokens
// after it, the one that was fastest on calls of the same bucket goes first.
#pragma once

#include <optional>
#include <string>

#include "dispatch/call_host.hpp"
#include "resolve/catalog.hpp"
#include "resolve/resolve.hpp"
#include "signature/call_shape.hpp"
#include "tune/standings.hpp"

namespace opdock::core {

// The bucket of a call, the same for all implementations of its op.
struct CallBucket {
    std::string dtypes; // "bf16,f32"
    std::string key;    // "n=4096 rows=1024"
    std::string text;   // how numbers are bucketed
};
// Empty for an unknown device.
std::optional<CallBucket> bucket_of(const CallHost &host, const CallShape &shape);

// The move in the decision's chain for this call's bucket. Empty if the policy has no `measured`, if
// the bucket was not measured, or if the host is frozen.
std::optional<Lead> measured_lead(const CallHost &host, const CatalogOp &op, const Decision &decision,
                                  const CallShape &shape);

} // namespace opdock::core
