#include "signature/solve.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "signature/dtype.hpp"
#include "text/error.hpp"
#include "text/spelling.hpp"

namespace opdock::core {

namespace {

std::string print_shape_of(const DLTensor &tensor) {
    return fmt::format("[{}]", fmt::join(tensor.shape, tensor.shape + tensor.ndim, ", "));
}

// Rounds down, so that (n-9)/8 behaves as expected for small n. The divisor is a positive constant of the signature.
int64_t divide(int64_t a, int64_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
}

std::optional<int64_t> combine(Term::Kind kind, int64_t left, int64_t right) {
    int64_t result = 0;
    bool overflow = false;
    switch (kind) {
    case Term::Kind::add:
        overflow = __builtin_add_overflow(left, right, &result);
        break;
    case Term::Kind::subtract:
        overflow = __builtin_sub_overflow(left, right, &result);
        break;
    case Term::Kind::multiply:
        overflow = __builtin_mul_overflow(left, right, &result);
        break;
    case Term::Kind::divide:
        result = divide(left, right);
        break;
    default: // remainder; a remainder by 0 is the number itself: 0 is the only multiple of 0
        if (right == 0) {
            result = left;
        } else if (right != -1) { // -1 divides every number, and INT64_MIN % -1 traps
            result = left % right;
            result += result != 0 && (result < 0) != (right < 0) ? right : 0;
        }
        break;
    }
    return overflow ? std::nullopt : std::optional(result);
}

// A bit for each dim that it names.
uint32_t dims_of(const Dim &dim) {
    if (dim.kind == Dim::Kind::number) {
        return 0;
    }
    uint32_t dims = dim.kind == Dim::Kind::expression ? 0 : 1u << dim.index;
    for (const Term &term : dim.expression) {
        dims |= term.kind == Term::Kind::dim ? 1u << term.value : 0;
    }
    return dims;
}

} // namespace

void fail(const Signature &signature, const std::string &message) {
    throw Error(OPDOCK_INVALID_ARGUMENT, fmt::format("op '{}': {}", signature.name, message));
}

void fail(const Signature &signature, ArgumentPlace place, const std::string &message) {
    fail(signature, fmt::format("{} {}", describe(signature, place), message));
}

std::string describe(const Signature &signature, ArgumentPlace place) {
    const Parameter &parameter = signature.parameter(place.parameter);
    return fmt::format("{} '{}'{}", place.parameter < signature.inputs.size() ? "input" : "output", parameter.name,
                       parameter.list ? fmt::format("[{}]", place.element) : "");
}

void Solver::bind_dim(size_t index, int64_t size, Source source) {
    bound_dims_ |= 1u << index;
    dims_[index] = size;
    dim_sources_[index] = source;
}

inline void Solver::match_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis) {
    if (dim.kind != Dim::Kind::name) {
        match_computed_dim(place, dim, tensor, axis);
    } else if ((bound_dims_ >> dim.index & 1u) == 0) {
        bind_dim(dim.index, tensor.shape[axis], {false, place});
    } else if (tensor.shape[axis] != dims_[dim.index]) {
        fail_dim(place, dim, tensor, axis);
    }
}

void Solver::match(ArgumentPlace place, const DLTensor &tensor) {
    const Parameter &parameter = signature_.parameter(place.parameter);
    if (tensor.ndim < 0 || tensor.ndim > OPDOCK_MAX_RANK) {
        fail(signature_, place, fmt::format("has {} dims, expected 0 to {}", tensor.ndim, OPDOCK_MAX_RANK));
    }
    if (tensor.shape == nullptr && tensor.ndim != 0) {
        fail(signature_, place,
             fmt::format("has {} but no shape (DLTensor.shape is null)",
                         counted(static_cast<std::uint64_t>(tensor.ndim), "dim")));
    }
    int64_t signs = 0;
    for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
        signs |= tensor.shape[axis];
    }
    if (signs < 0) {
        fail_negative(place, tensor);
    }
    match_dtype(place, parameter, tensor);

    const auto fixed = static_cast<int32_t>(parameter.dims.size());
    const int32_t extra = tensor.ndim - fixed;
    if (parameter.ellipsis < 0 ? extra != 0 : extra < 0) {
        fail_rank(place, tensor);
    }
    int32_t axis = 0;
    for (int32_t i = 0; i < fixed; ++i) {
        if (i == parameter.ellipsis) {
            match_ellipsis(place, tensor, axis, extra);
            axis += extra;
        }
        match_dim(place, parameter.dims[static_cast<size_t>(i)], tensor, axis++);
    }
    if (parameter.ellipsis == fixed) {
        match_ellipsis(place, tensor, axis, extra);
    }
}

void Solver::match_dtype(ArgumentPlace place, const Parameter &parameter, const DLTensor &tensor) {
    const uint32_t found = opdock_dtype_pack(tensor.dtype);
    const bool fits = parameter.dtype_variable < 0
                          ? found == parameter.dtype
                          : unify(static_cast<size_t>(parameter.dtype_variable), found, {false, place});
    if (!fits) {
        fail_dtype(place, parameter, found);
    }
}

void Solver::match_attribute(size_t attribute, const opdock_value &value) {
    const AttributeSpec &spec = signature_.attributes[attribute];
    const Source source{true, {static_cast<uint32_t>(attribute), 0}};
    if (spec.dim >= 0) {
        if (value.as.i < 0) {
            fail(signature_,
                 fmt::format("attribute '{}' is {}; it is a dim, expected 0 or more", spec.name, value.as.i));
        }
        bind_dim(static_cast<size_t>(spec.dim), value.as.i, source);
    }
    if (spec.dtype_variable < 0) {
        return;
    }
    const auto variable = static_cast<size_t>(spec.dtype_variable);
    const auto dtype = static_cast<uint32_t>(value.as.i);
    if (!unify(variable, dtype, source)) {
        fail(signature_,
             fmt::format("attribute '{}' is {}, expected {}", spec.name, dtype_name(dtype), expected_dtypes(variable)));
    }
}

bool Solver::unify(size_t variable, uint32_t dtype, Source source) {
    if ((bound_dtypes_ >> variable & 1u) != 0) {
        return dtypes_[variable] == dtype;
    }
    const auto &allowed = signature_.allowed_dtypes[variable];
    if (std::find(allowed.begin(), allowed.end(), dtype) == allowed.end()) {
        return false;
    }
    bound_dtypes_ |= 1u << variable;
    dtypes_[variable] = dtype;
    dtype_sources_[variable] = source;
    return true;
}

void Solver::match_computed_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis) {
    const int64_t size = tensor.shape[axis];
    if (dim.kind == Dim::Kind::scaled && (bound_dims_ >> dim.index & 1u) == 0) {
        if (size % dim.number != 0) {
            fail(signature_, place,
                 fmt::format("of shape {}: dim {} is {}, expected a multiple of {} ({})", print_shape_of(tensor), axis,
                             size, dim.number, print_dim(signature_, dim)));
        }
        bind_dim(dim.index, size / dim.number, {false, place});
        return;
    }
    if (!is_bound(dim) || value_of(dim) != size) {
        fail_dim(place, dim, tensor, axis);
    }
}

void Solver::match_ellipsis(ArgumentPlace place, const DLTensor &tensor, int32_t begin, int32_t rank) {
    if (ellipsis_rank_ < 0) {
        ellipsis_rank_ = rank;
        ellipsis_source_ = {false, place};
        std::copy_n(tensor.shape + begin, rank, ellipsis_.begin());
        return;
    }
    if (rank != ellipsis_rank_ || !std::equal(tensor.shape + begin, tensor.shape + begin + rank, ellipsis_.begin())) {
        fail_ellipsis(place, tensor, begin, rank);
    }
}

void Solver::begin_element() {
    bound_dims_ &= ~signature_.element_dims;
    if (signature_.element_ellipsis) {
        ellipsis_rank_ = -1;
    }
}

std::optional<int64_t> Solver::evaluate(const Expression &expression) const {
    std::array<int64_t, max_expression_terms> stack; // the parser limits expressions to this size
    size_t depth = 0;
    for (const Term &term : expression) {
        if (term.kind == Term::Kind::number) {
            stack[depth++] = term.value;
        } else if (term.kind == Term::Kind::dim) {
            stack[depth++] = dims_[static_cast<size_t>(term.value)];
        } else {
            --depth;
            const auto result = combine(term.kind, stack[depth - 1], stack[depth]);
            if (!result) {
                return std::nullopt;
            }
            stack[depth - 1] = *result;
        }
    }
    return stack[0];
}

bool Solver::is_bound(const Dim &dim) const {
    if (dim.kind == Dim::Kind::expression) {
        return std::all_of(dim.expression.begin(), dim.expression.end(), [this](const Term &term) {
            return term.kind != Term::Kind::dim || (bound_dims_ >> term.value & 1u) != 0;
        });
    }
    return dim.kind == Dim::Kind::number || (bound_dims_ >> dim.index & 1u) != 0;
}

std::optional<int64_t> Solver::value_of(const Dim &dim) const {
    switch (dim.kind) {
    case Dim::Kind::number:
        return dim.number;
    case Dim::Kind::name:
        return dims_[dim.index];
    case Dim::Kind::scaled:
        return combine(Term::Kind::multiply, dim.number, dims_[dim.index]);
    case Dim::Kind::expression:
        break;
    }
    return evaluate(dim.expression);
}

int64_t Solver::side_of(const Constraint &constraint, const Expression &side) const {
    const auto value = evaluate(side);
    if (!value) {
        fail(signature_,
             fmt::format("{} of 'where {}' does not fit into 64 bits, with {}", print_expression(signature_, side),
                         print_constraint(signature_, constraint), values_of(constraint.dims)));
    }
    return *value;
}

bool Solver::holds(const Constraint &constraint) const {
    const int64_t left = side_of(constraint, constraint.left);
    const int64_t right = side_of(constraint, constraint.right.front());
    switch (constraint.kind) {
    case Constraint::Kind::less:
        return left < right;
    case Constraint::Kind::less_equal:
        return left <= right;
    case Constraint::Kind::greater:
        return left > right;
    case Constraint::Kind::greater_equal:
        return left >= right;
    case Constraint::Kind::equal:
        return left == right;
    case Constraint::Kind::not_equal:
        return left != right;
    case Constraint::Kind::in:
        return std::any_of(constraint.right.begin(), constraint.right.end(),
                           [&](const Expression &choice) { return left == side_of(constraint, choice); });
    }
    return false;
}

void Solver::check_constraints(bool elements) const {
    for (const Constraint &constraint : signature_.constraints) {
        const bool of_elements = (constraint.dims & signature_.element_dims) != 0;
        if (of_elements == elements && (constraint.dims & ~bound_dims_) == 0 && !holds(constraint)) {
            fail(signature_, fmt::format("'where {}' does not hold: {}", print_constraint(signature_, constraint),
                                         values_of(constraint.dims)));
        }
    }
}

void Solver::bind_counted_dims() {
    const uint32_t given = bound_dims_;
    for (const Constraint &clause : signature_.constraints) {
        const Term &first = clause.left.front();
        const auto dim = static_cast<size_t>(first.value);
        if (clause.kind != Constraint::Kind::less_equal || clause.left.size() != 1 || first.kind != Term::Kind::dim ||
            (signature_.counted_dims >> dim & 1u) == 0 || (clause.dims & ~given) != 1u << dim) {
            continue;
        }
        const int64_t most = side_of(clause, clause.right.front());
        const bool is_bound = (bound_dims_ >> dim & 1u) != 0;
        bind_dim(dim, is_bound ? std::min(dims_[dim], most) : most, {});
    }
}

bool Solver::spec_of(ArgumentPlace place, InferredOutput *inferred) const {
    const Parameter &output = signature_.parameter(place.parameter);
    const uint32_t packed =
        output.dtype_variable < 0 ? output.dtype : dtype(static_cast<size_t>(output.dtype_variable));
    if (packed == 0) {
        return false;
    }
    inferred->dtype = opdock_dtype_unpack(packed);
    inferred->ndim = 0;
    const auto push = [this, place, inferred](int64_t size) {
        if (inferred->ndim == OPDOCK_MAX_RANK) {
            fail(signature_, place, fmt::format("would have more than {} dims", OPDOCK_MAX_RANK));
        }
        inferred->shape.at(static_cast<size_t>(inferred->ndim++)) = size;
    };
    for (size_t i = 0; i <= output.dims.size(); ++i) {
        if (static_cast<int>(i) == output.ellipsis) {
            if (ellipsis_rank_ < 0) {
                return false;
            }
            std::for_each_n(ellipsis_.begin(), ellipsis_rank_, push);
        }
        if (i == output.dims.size()) {
            break;
        }
        const Dim &dim = output.dims[i];
        if (!is_bound(dim)) {
            return false;
        }
        const auto size = value_of(dim);
        if (!size) {
            fail(signature_, place,
                 fmt::format("would have the dim {}, which does not fit into 64 bits, with {}",
                             print_dim(signature_, dim), values_of(dims_of(dim))));
        }
        if (*size < 0) {
            fail(signature_, place,
                 fmt::format("would have the negative dim {} = {}", print_dim(signature_, dim), *size));
        }
        push(*size);
    }
    return true;
}

void Solver::fail_negative(ArgumentPlace place, const DLTensor &tensor) const {
    const int64_t *axis = std::find_if(tensor.shape, tensor.shape + tensor.ndim, [](int64_t size) { return size < 0; });
    fail(signature_, place,
         fmt::format("of shape {}: dim {} is negative", print_shape_of(tensor), axis - tensor.shape));
}

void Solver::fail_rank(ArgumentPlace place, const DLTensor &tensor) const {
    const Parameter &parameter = signature_.parameter(place.parameter);
    fail(signature_, place,
         fmt::format("of shape {}: rank is {}, expected {}{} for {}", print_shape_of(tensor), tensor.ndim,
                     parameter.ellipsis < 0 ? "" : "at least ", parameter.dims.size(),
                     print_shape(signature_, parameter)));
}

void Solver::fail_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis) const {
    const std::string found =
        fmt::format("of shape {}: dim {} is {}", print_shape_of(tensor), axis, tensor.shape[axis]);
    const std::string text = print_dim(signature_, dim);
    if (dim.kind == Dim::Kind::number) {
        fail(signature_, place, fmt::format("{}, expected {}", found, text));
    }
    const uint32_t names = dims_of(dim);
    if (const uint32_t unbound = names & ~bound_dims_; unbound != 0) {
        fail(signature_, place,
             fmt::format("{}, expected {}, whose '{}' is known only from an absent optional input", found, text,
                         signature_.dim_names[static_cast<size_t>(std::countr_zero(unbound))]));
    }
    if (dim.kind == Dim::Kind::name) {
        fail(signature_, place,
             fmt::format("{}, expected {} = {} as in {}", found, text, dims_[dim.index],
                         describe(dim_sources_[dim.index])));
    }
    const auto expected = value_of(dim);
    fail(signature_, place,
         fmt::format("{}, expected {} = {}, with {}", found, text,
                     expected ? fmt::format("{}", *expected) : "more than 64 bits", values_of(names)));
}

void Solver::fail_ellipsis(ArgumentPlace place, const DLTensor &tensor, int32_t begin, int32_t rank) const {
    const int64_t *found = tensor.shape + begin;
    fail(signature_, place,
         fmt::format("of shape {}: its '...' is [{}], expected [{}] as in {}", print_shape_of(tensor),
                     fmt::join(found, found + rank, ", "),
                     fmt::join(ellipsis_.begin(), ellipsis_.begin() + ellipsis_rank_, ", "),
                     describe(ellipsis_source_)));
}

void Solver::fail_dtype(ArgumentPlace place, const Parameter &parameter, uint32_t found) const {
    fail(signature_, place,
         fmt::format("has dtype {}, expected {}", dtype_name(found),
                     parameter.dtype_variable < 0 ? dtype_name(parameter.dtype)
                                                  : expected_dtypes(static_cast<size_t>(parameter.dtype_variable))));
}

std::string Solver::expected_dtypes(size_t variable) const {
    const std::string &name = signature_.dtype_variables[variable];
    return (bound_dtypes_ >> variable & 1u) != 0
               ? fmt::format("{} = {} as in {}", name, dtype_name(dtypes_[variable]),
                             describe(dtype_sources_[variable]))
               : fmt::format("{}, which stands for {}", name, print_dtypes(signature_.allowed_dtypes[variable]));
}

std::string Solver::describe(const Source &source) const {
    return source.attribute ? fmt::format("attribute '{}'", signature_.attributes[source.place.parameter].name)
                            : core::describe(signature_, source.place);
}

std::string Solver::values_of(uint32_t dims) const {
    std::string text;
    for (size_t i = 0; i < signature_.dim_names.size(); ++i) {
        if ((dims >> i & 1u) != 0) {
            text += fmt::format("{}{} = {} ({})", text.empty() ? "" : ", ", signature_.dim_names[i], dims_[i],
                                describe(dim_sources_[i]));
        }
    }
    return text;
}

} // namespace opdock::core
