// Sizes for the dims of a signature.
#pragma once

#include <functional>
#include <vector>

#include "op-call/dims.hpp"
#include "op-call/signature.hpp"
#include "random.hpp"

namespace opdock::plugin_check {

struct Shape {
    op_call::Sizes names;
    std::vector<int64_t> leading; // what "..." stands for
};

// One for each element of the call's lists; a call without lists has one.
using Shapes = std::vector<Shape>;

// What is asked of shapes: the dims before a row, multiplied out where a signature has no "...", and the row's length.
struct Size {
    std::vector<int64_t> leading;
    int64_t last;
};

// The sizes of a signature's dims, such as "..." and "2*n"; names without a size have 1.
std::vector<int64_t> dims_in(const std::vector<std::string> &dims, const Shape &shape);

// Of a case: steps of a naive loop, which is what the reference is.
inline constexpr double most_work = 1 << 21;

// How many steps a naive loop over all names takes.
double work_of(const Shape &shape);

// Whether there are no elements.
bool is_empty(const Shapes &shapes);

// Whether the op takes a call of these shapes; what `where` clauses ask is for the host to say.
using Takes = std::function<bool(const Shapes &)>;

// From small to large: ones, odd sizes, powers of two and their neighbours, primes, short and long rows, and some that
// are drawn.
std::vector<Shapes> plain_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// Those of these sizes that the op takes, in this order. A naive loop takes `work` steps or, where the sizes alone ask
// for more, as many as they do.
std::vector<Shapes> shapes_of(const std::vector<Size> &sizes, const op_call::Signature &signature, Random &random,
                              const Takes &takes, double work);

// All dims between 8 and 64, and multiples of 8: what kernels ask for that take vectors or tiles.
std::vector<Shapes> round_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// No rows, and rows of no elements.
std::vector<Shapes> empty_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// No dims at all, and 4 to as many as a tensor may have, where the signature has "...".
std::vector<Shapes> rank_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// All dims alike, so that inputs of different types have one shape; lists have two elements. None where the op takes no
// such call.
std::vector<Shapes> square_shapes(const op_call::Signature &signature, const Takes &takes);

// Of each name but a row's length once none, beside ordinary rows.
std::vector<Shapes> zero_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

} // namespace opdock::plugin_check
