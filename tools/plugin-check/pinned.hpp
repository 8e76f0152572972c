// The settings that --attr and --shape fix for every case.
#pragma once

#include <string>
#include <vector>

#include "cases.hpp"
#include "op-call/named.hpp"

namespace opdock::plugin_check {

struct Pins {
    std::vector<op_call::Named> attributes;
    std::vector<op_call::Named> shapes; // "f32[64,1024]" for an input
};

// Restricts the subject to the tuples of dtypes that the shapes have. `takes` belongs to the op. Throws cli::UsageError
// for what the op or the implementation does not have, and for shapes that contradict each other or leave a size open.
Pinned resolve(const Pins &pins, const op_call::Signature &signature, const Takes &takes, Subject &subject);

} // namespace opdock::plugin_check
