// A complete call: everything that opdock_args points to, and the outputs that are inferred from the signature.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "op-call/arguments.hpp"
#include "op-call/signature.hpp"
#include "op-call/tensor.hpp"
#include "opdock/opdock.hpp"

namespace opdock::op_call {

// The tensors of one parameter: one, none if it is absent, or the elements of a list.
using Tensors = std::vector<HostTensor>;

// A tensor of a call. Borrows its elements; `data` is null if only the shape matters.
struct Operand {
    void *data;
    uint32_t dtype;
    std::vector<int64_t> shape;
    DLDevice device;
    std::vector<int64_t> strides = {}; // in elements; empty: row-major without gaps
};

uint64_t bytes_of(const Operand &operand);

// The inputs or the outputs of a signature: one list per parameter.
using Operands = std::vector<std::vector<Operand>>;

// Reads or generates the inputs; each random input has its own seed. Throws cli::Failure and files::Error.
std::vector<Tensors> make_inputs(const Arguments &arguments, const Signature &signature, const Spelling &spelling,
                                 uint64_t seed);

// The tensors where they are now, in host memory.
Operands operands_of(const std::vector<Tensors> &tensors);

// Tensors of which only the shape matters. Those read from files count as absent: their shapes are not known.
Operands shapes_of(const Arguments &arguments);

// Marks the operands as being on `device`, except those that stay in host memory.
void put_on(Operands &operands, const std::vector<Parameter> &parameters, DLDevice device);

class Call {
  public:
    // Borrows the attributes. `device` is used only for an op without tensors; otherwise the tensors determine it.
    Call(const Signature &signature, const Operands &inputs, const Operands &outputs,
         const std::vector<AttributeArgument> &attributes, DLDevice device);
    Call(const Call &) = delete;
    Call &operator=(const Call &) = delete;

    const Args &args() const { return args_; }

  private:
    std::vector<Tensor> tensors_;
    std::vector<TensorArg> inputs_;
    std::vector<TensorArg> outputs_;
    std::vector<uint32_t> list_sizes_;
    std::deque<std::vector<opdock_text>> texts_; // declared before the members that point to them
    std::vector<Attribute> attributes_;
    Args args_;
};

// Dtypes and shapes of a call's outputs, without elements and not on any device yet. An optional output is left out
// unless `is_wanted` is true for its parameter. Throws opdock::Error.
Operands infer_outputs(const Op &op, const Signature &signature, const Operands &inputs,
                       const std::vector<AttributeArgument> &attributes,
                       const std::function<bool(size_t)> &is_wanted = {});
// Includes the optional outputs that the arguments ask for.
Operands infer_outputs(const Op &op, const Signature &signature, const Operands &inputs, const Arguments &arguments);

// Pointers in the form that Prepared::run takes.
std::vector<void *> pointers_of(const Signature &signature, const Operands &inputs, const Operands &outputs);

} // namespace opdock::op_call
