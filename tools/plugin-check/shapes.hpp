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
    std::vector<int64_t> leading; // the dims that "..." stands for
};

// One shape for each element of the call's lists; one for a call without lists.
using Shapes = std::vector<Shape>;

// A requested size: the dims before a row, multiplied together where a signature has no "...", and the row's length.
struct Size {
    std::vector<int64_t> leading;
    int64_t last;
};

// The sizes of a signature's dims, such as "..." and "2*n"; names without a size have size 1.
std::vector<int64_t> dims_in(const std::vector<std::string> &dims, const Shape &shape);

// The limit for a case, in steps of a naive loop, which is what the reference is.
inline constexpr double most_work = 1 << 21;

// The number of steps of a naive loop over all names.
double work_of(const Shape &shape);

// True if there are no elements.
bool is_empty(const Shapes &shapes);

// True if the op takes a call of these shapes; `where` clauses are checked by the host.
using Takes = std::function<bool(const Shapes &)>;

// From small to large: ones, odd sizes, powers of two and their neighbours, primes, short and long rows, and some
// random sizes.
std::vector<Shapes> plain_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// The shapes of these sizes that the op takes, in this order. A naive loop takes `work` steps or, if the sizes alone
// require more, as many as they do.
std::vector<Shapes> shapes_of(const std::vector<Size> &sizes, const op_call::Signature &signature, Random &random,
                              const Takes &takes, double work);

// All dims are multiples of 8 from 8 to 64: required by kernels that use vectors or tiles.
std::vector<Shapes> round_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// No rows, and rows without elements.
std::vector<Shapes> empty_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// No dims at all, and 4 up to as many as a tensor may have, if the signature has "...".
std::vector<Shapes> rank_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

// All dims are equal, so that inputs of different types have one shape; lists have two elements. Empty if the op takes
// no such call.
std::vector<Shapes> square_shapes(const op_call::Signature &signature, const Takes &takes);

// Each name has size 0 once, beside ordinary rows; a row's length only if there are other names.
std::vector<Shapes> zero_shapes(const op_call::Signature &signature, Random &random, const Takes &takes);

} // namespace opdock::plugin_check
