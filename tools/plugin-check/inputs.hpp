// The values of a call's inputs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cases.hpp"
#include "op-call/call.hpp"

namespace opdock::plugin_check {

// Runs the forward op by its name on f32 inputs given by name and gives one of its outputs; nothing when it cannot.
struct Forward {
    const char *op;
    const char *output;
};
using RunForward = std::function<std::optional<op_call::HostTensor>(
    const Forward &, const Case &, const std::map<std::string, op_call::HostTensor *> &)>;

// The ops that draw_inputs may ask for.
std::vector<std::string> forward_ops_of(const op_call::Signature &signature);

// Follows from the case alone. What a backward op takes from its forward op (statistics, probabilities) is computed by
// it: made up numbers would be no result of anything.
std::vector<op_call::Tensors> draw_inputs(const Case &one, const op_call::Signature &signature,
                                          const RunForward &run_forward);

// One input of an op, by the same rules.
op_call::HostTensor draw_input(const Case &one, const op_call::Signature &signature, const op_call::Parameter &input,
                               uint32_t dtype, const std::vector<int64_t> &dims);

// The fraction of itself by which rounding may have moved each value of an input whose elements are of `dtype`, in a
// call that rounds to `moved_by`: less for a statistic that the forward op saved as f32, 0 for what counts, chooses or
// names.
double rounding_of(const op_call::Signature &signature, const op_call::Parameter &input, uint32_t dtype,
                   double moved_by);

} // namespace opdock::plugin_check
