// The order for one call where the policy has `measured`: of those that the tokens after it name, the one that was the
// fastest on calls of the same bucket goes first.
#pragma once

#include <optional>
#include <string>

#include "dispatch/call_host.hpp"
#include "resolve/catalog.hpp"
#include "resolve/resolve.hpp"
#include "signature/call_shape.hpp"
#include "tune/standings.hpp"

namespace opdock::core {

// The bucket of a call, for all implementations of its op alike.
struct CallBucket {
    std::string dtypes; // "bf16,f32"
    std::string key;    // "n=4096 rows=1024"
    std::string text;   // how numbers are bucketed
};
// Nothing on a device that nobody knows.
std::optional<CallBucket> bucket_of(const CallHost &host, const CallShape &shape);

// The move in the decision's chain that this call's bucket asks for. Nothing where the policy has no `measured`, the
// bucket was not measured, or the host is frozen.
std::optional<Lead> measured_lead(const CallHost &host, const CatalogOp &op, const Decision &decision,
                                  const CallShape &shape);

} // namespace opdock::core
