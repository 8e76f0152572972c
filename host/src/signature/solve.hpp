// Solves the dims and dtype variables of one call from the tensors that it brings, and checks the rest against them.
// Used by bind (all tensors) and infer (inputs, then computes the outputs).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "signature/signature.hpp"

namespace opdock::core {

// Where something stands: a parameter (inputs first, then outputs) and, in a list, which element.
struct ArgumentPlace {
    uint32_t parameter;
    uint32_t element;
};

std::string describe(const Signature &signature, ArgumentPlace place); // "input 'weight'", "output 'params'[3]"
[[noreturn, gnu::cold]] void fail(const Signature &signature, const std::string &message);
[[noreturn, gnu::cold]] void fail(const Signature &signature, ArgumentPlace place, const std::string &message);

// An output as a call's inputs have it.
struct InferredOutput {
    const char *name = nullptr; // the signature's
    uint32_t parameter = 0;     // of the outputs
    bool optional = false;
    DLDataType dtype = {};
    int32_t ndim = 0;
    std::array<int64_t, OPDOCK_MAX_RANK> shape = {};
};

class Solver {
  public:
    explicit Solver(const Signature &signature) : signature_(signature) {}

    // Rank, dims and dtype of one tensor; binds what is not bound. Throws on the first that is wrong.
    void match(ArgumentPlace place, const DLTensor &tensor);
    // The value of an attribute that binds a dtype variable or a dim; of others, nothing to do.
    void match_attribute(size_t attribute, const opdock_value &value);
    // What belongs to an element of lists is forgotten, so that the next may have its own.
    void begin_element();
    // The where clauses whose dims are all bound and which read dims of elements (`elements`) or do not.
    void check_constraints(bool elements) const;

    // What outputs count gets the size that the clauses allow at most.
    void bind_counted_dims();

    // 0 when nothing in this call bound it.
    uint32_t dtype(size_t variable) const { return (bound_dtypes_ >> variable & 1u) != 0 ? dtypes_[variable] : 0; }
    // Fills in dtype and shape of an output. False when only an absent input would have told them.
    bool spec_of(ArgumentPlace place, InferredOutput *inferred) const;

  private:
    // Whatever bound a name; for messages only.
    struct Source {
        bool attribute;
        ArgumentPlace place; // of an attribute: its number in `parameter`
    };

    void match_dtype(ArgumentPlace place, const Parameter &parameter, const DLTensor &tensor);
    void match_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis);
    void match_computed_dim(ArgumentPlace place, const Dim &dim, const DLTensor &tensor, int32_t axis);
    void bind_dim(size_t index, int64_t size, Source source);
    void match_ellipsis(ArgumentPlace place, const DLTensor &tensor, int32_t begin, int32_t rank);
    // Whether the variable may stand for `dtype` now; binds it when nothing did before.
    bool unify(size_t variable, uint32_t dtype, Source source);
    // Of bound names; none when it does not fit into 64 bits. Division rounds down.
    std::optional<int64_t> evaluate(const Expression &expression) const;
    bool is_bound(const Dim &dim) const;
    std::optional<int64_t> value_of(const Dim &dim) const; // likewise
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
    int32_t ellipsis_rank_ = -1; // -1: not bound
    // Not initialized: the masks above say what counts, and this runs once per call.
    std::array<int64_t, max_dims> dims_;
    std::array<Source, max_dims> dim_sources_;
    std::array<int64_t, OPDOCK_MAX_RANK> ellipsis_;
    Source ellipsis_source_{};
    std::array<uint32_t, max_dtype_variables> dtypes_;
    std::array<Source, max_dtype_variables> dtype_sources_;
};

} // namespace opdock::core
