// The order for one call where the policy has `measured`: of those that the tokens after it name, the one that was the
// fastest on calls of the same bucket goes first.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/call_host.hpp"
#include "resolve/catalog.hpp"
#include "resolve/resolve.hpp"
#include "signature/call_shape.hpp"
#include "tune/standings.hpp"

namespace opdock::core {

// "n=4096 rows=1024": the bucket of a call, for all implementations of its op alike. Nothing on a device that nobody
// knows.
struct CallBucket {
    std::string key;
    std::string text; // how numbers are bucketed
    std::string dtypes;
};
std::optional<CallBucket> bucket_of(const CallHost &host, const CallShape &shape);

// Which link of the decision's chain moves forward to which place.
struct MeasuredMove {
    size_t from;
    size_t to;
    Lead lead;
};
// Nothing where the policy has no `measured`, the bucket was not measured, or the host is frozen.
std::optional<MeasuredMove> measured_move(const CallHost &host, const CatalogOp &op, const Decision &decision,
                                          const CallShape &shape);

// The links of a chain as they are tried for this call.
std::vector<const Link *> links_for(const CallHost &host, const Chain &chain, const CallShape &shape);

} // namespace opdock::core
