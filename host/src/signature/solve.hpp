// Solves the dims and dtype variables of one call from its tensors, and checks all other tensors against them. Used by
// bind (all tensors) and infer (matches inputs, then computes outputs).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "signature/signature.hpp"

namespace opdock::core {

// Position of an argument: the parameter (inputs first, then outputs) and, in a list, the element.
struct ArgumentPlace {
    uint32_t parameter;
    uint32_t element;
};

std::string describe(const Signature &signature, ArgumentPlace place); // "input 'weight'", "output 'params'[3]"
[[noreturn, gnu::cold]] void fail(const Signature &signature, const std::string &message);
[[noreturn, gnu::cold]] void fail(const Signature &signature, ArgumentPlace place, const std::string &message);

// An output as determined by a call's inputs.
struct InferredOutput {
    const char *name = nullptr; // the signature's
    uint32_t parameter = 0;     // index among the outputs
    bool optional = false;
    DLDataType dtype = {};
    int32_t ndim = 0;
    std::array<int64_t, OPDOCK_MAX_RANK> shape = {};
};

class Solver {
  public:
    explicit Solver(const Signature &signature) : signature_(signature) {}

    // Matches rank, dims and dtype of one tensor; binds unbound names. Throws on the first mismatch.
    void match(ArgumentPlace place, const DLTensor &tensor);
    // Uses the value of an attribute that binds a dtype variable or a dim; ignores all other attributes.
    void match_attribute(size_t attribute, const opdock_value &value);
    // Clears the bindings of a list element, so that the next element may have its own.
    void begin_element();
    // Checks where clauses whose dims are all bound: those that read element dims if `elements`, else the others.
    void check_constraints(bool elements) const;

    // Binds each counted dim to the maximum size that the clauses allow.
    void bind_counted_dims();

    // 0 if nothing in this call bound it.
    uint32_t dtype(size_t variable) const { return (bound_dtypes_ >> variable & 1u) != 0 ? dtypes_[variable] : 0; }
    // Sets dtype and shape of an output. False if they depend on an absent input.
    bool spec_of(ArgumentPlace place, InferredOutput *inferred) const;

  private:
    // The origin of a binding; for messages only.
    struct Source {
        bool attribute;
        ArgumentPlace place; // for an attribute: its index in `parameter`
    };

    void match_dtype(ArgumentPlace place, const Parameter &parameter, const DLTensor &tensor);
    void match_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis);
    void match_computed_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis);
    void bind_dim(size_t index, int64_t size, Source source);
    void match_ellipsis(ArgumentPlace place, const DLTensor &tensor, int32_t begin, int32_t rank);
    // True if the variable may stand for `dtype`; binds it if it is unbound.
    bool unify(size_t variable, uint32_t dtype, Source source);
    // For bound names; nullopt if the result does not fit into 64 bits. Division rounds down.
    std::optional<int64_t> evaluate(const Expression &expression) const;
    bool is_bound(const Dim &dim) const;
    std::optional<int64_t> value_of(const Dim &dim) const; // as evaluate()
    bool holds(const Constraint &constraint) const;
    int64_t side_of(const Constraint &constraint, const Expression &side) const;

    [[noreturn, gnu::cold]] void fail_negative(ArgumentPlace place, const DLTensor &tensor) const;
    [[noreturn, gnu::cold]] void fail_rank(ArgumentPlace place, const DLTensor &tensor) const;
    [[noreturn, gnu::cold]] void fail_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor,
                                          int32_t axis) const;
    [[noreturn, gnu::cold]] void fail_ellipsis(ArgumentPlace place, const DLTensor &tensor, int32_t begin,
                                               int32_t rank) const;
    [[noreturn, gnu::cold]] void fail_dtype(ArgumentPlace place, const Parameter &parameter, uint32_t found) const;
    std::string describe(const Source &source) const;
    std::string expected_dtypes(size_t variable) const;
    std::string values_of(uint32_t dims) const;

    const Signature &signature_;
    uint32_t bound_dims_ = 0;
    uint32_t bound_dtypes_ = 0;
    int32_t ellipsis_rank_ = -1; // -1: unbound
    // Uninitialized for speed, because this runs once per call: the masks above say which are valid.
    std::array<int64_t, max_dims> dims_;
    std::array<Source, max_dims> dim_sources_;
    std::array<int64_t, OPDOCK_MAX_RANK> ellipsis_;
    Source ellipsis_source_{};
    std::array<uint32_t, max_dtype_variables> dtypes_;
    std::array<Source, max_dtype_variables> dtype_sources_;
};

} // namespace opdock::core
