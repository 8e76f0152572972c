// The four ways in which an op cannot be served, each with everything that a person needs to fix it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "resolve/resolve.hpp"
#include "text/error.hpp"

namespace opdock::core {

// An implementation that was tried and did not serve the call.
struct Failure {
    std::string impl_id;
    std::string outcome; // "FAILED: the library said no"
};

// No plugin declares it. `rejected` has a sentence for each rejected plugin: one of them may have declared it.
Error unknown_op_error(std::string_view op, std::span<const std::string_view> known_ops,
                       std::span<const std::string> rejected);

// For an op that `plugins` declare and no plugin implements.
Error no_implementation_error(std::string_view op, std::span<const std::string> plugins,
                              std::span<const std::string> rejected);

// Implemented, but the decision's chain is empty.
Error all_dropped_error(std::string_view op, const Key &key, const Decision &decision);

// Every implementation of the chain that was tried declined or failed.
Error all_failed_error(std::string_view op, const Key &key, const Decision &decision,
                       std::span<const Failure> failures);

} // namespace opdock::core
