// The values of a call's inputs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cases.hpp"
#include "op-call/call.hpp"

namespace opdock::plugin_check {

// Runs a forward op by its name on named f32 inputs and returns one of its outputs; nothing if it cannot.
struct Forward {
    std::string op;
    std::string output;
};
using RunForward = std::function<std::optional<op_call::HostTensor>(
    const Forward &, const Case &, const std::map<std::string, op_call::HostTensor *> &)>;

// The elements of a row where rows differ (Values::rows).
enum class Magnitude {
    ordinary,
    thousand, // 1,000 and a little: an exponential overflows, the difference of two keeps its digits
    constant, // one large number whose square overflows
    hidden,   // minus infinity
    lowest,   // the lowest finite number, or minus infinity
};

// True for rows that a kernel may compute like all others.
inline bool is_usual(Magnitude magnitude) {
    return magnitude == Magnitude::ordinary || magnitude == Magnitude::thousand;
}

// The inputs that are not an index, mask, factor or the like, and not saved by a forward op.
std::vector<std::string> inputs_of_numbers(const op_call::Signature &signature, const Dtypes &dtypes);

// An input that may be the same tensor as an earlier one: it has numbers and is only read.
struct Twin {
    size_t parameter;
    size_t element; // of a list
    size_t of_parameter;
    size_t of_element;
};

// For a call with these inputs: all inputs with the dtype and shape of another one.
std::vector<Twin> twins_of(const op_call::Signature &signature, const std::vector<op_call::Tensors> &inputs);
std::vector<Twin> twins_of(const op_call::Signature &signature, const Dtypes &dtypes, const Shapes &shapes);

// The inputs of numbers that, with these shapes, have enough rows for each magnitude.
std::vector<std::string> inputs_with_rows(const op_call::Signature &signature, const Dtypes &dtypes,
                                          const Shapes &shapes);

// The magnitude of each row of the input that the case's values_of names, in an order that puts each magnitude next to
// the others; empty for other cases.
std::vector<Magnitude> magnitudes_of(const Case &one, const op_call::Signature &signature);

// The ops that draw_inputs may run.
std::vector<std::string> forward_ops_of(const op_call::Signature &signature);

// The result depends on the case alone. What a backward op takes from its forward op (statistics, probabilities) is
// computed by that op: random numbers would not be the result of anything.
std::vector<op_call::Tensors> draw_inputs(const Case &one, const op_call::Signature &signature,
                                          const RunForward &run_forward);

// One input of an op, by the same rules.
op_call::HostTensor draw_input(const Case &one, const op_call::Signature &signature, const op_call::Parameter &input,
                               uint32_t dtype, const std::vector<int64_t> &dims);

// The relative amount by which rounding may have changed each value of an input whose elements are of `dtype`, in a
// call that rounds to `moved_by`: less for a statistic that the forward op saved as f32, 0 for values that count,
// choose or name something.
double rounding_of(const op_call::Signature &signature, const op_call::Parameter &input, uint32_t dtype,
                   double moved_by);

} // namespace opdock::plugin_check
