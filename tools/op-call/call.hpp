// A call put together: everything that opdock_args points to, and the outputs that the signature infers.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "op-call/arguments.hpp"
#include "op-call/signature.hpp"
#include "op-call/tensor.hpp"
#include "opdock/opdock.hpp"

namespace opdock::op_call {

// The tensors of one parameter: one, none where it is absent, or a list's.
using Tensors = std::vector<HostTensor>;

// A tensor of a call. Borrows the elements; null where only the shape matters.
struct Operand {
    void *data;
    uint32_t dtype;
    std::vector<int64_t> shape;
    DLDevice device;
    std::vector<int64_t> strides = {}; // in elements; empty: row-major without gaps
};

uint64_t bytes_of(const Operand &operand);

// One list for each parameter of one side of a signature.
using Operands = std::vector<std::vector<Operand>>;

// Reads or makes up the inputs, each random one from a seed of its own. Throws cli::Failure and files::Error.
std::vector<Tensors> make_inputs(const Arguments &arguments, const Signature &signature, const Spelling &spelling,
                                 uint64_t seed);

// Tensors where they are, in the host's memory.
Operands operands_of(const std::vector<Tensors> &tensors);

// Tensors of which only the shape matters. Those of files count as absent, since their shapes are not known.
Operands shapes_of(const Arguments &arguments);

// Says that they are on `device`, but for those that stay in the host's memory.
void put_on(Operands &operands, const std::vector<Parameter> &parameters, DLDevice device);

class Call {
  public:
    // Borrows the attributes. `device` is for an op without tensors: where there are some they tell it.
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
    std::deque<std::vector<opdock_text>> texts_; // before what points to them
    std::vector<Attribute> attributes_;
    Args args_;
};

// What the outputs of a call look like, without elements and on no device yet. Optional ones are left out unless
// `is_wanted` says otherwise of a parameter. Throws opdock::Error.
Operands infer_outputs(const Op &op, const Signature &signature, const Operands &inputs,
                       const std::vector<AttributeArgument> &attributes,
                       const std::function<bool(size_t)> &is_wanted = {});
// With the optional ones that the arguments ask for.
Operands infer_outputs(const Op &op, const Signature &signature, const Operands &inputs, const Arguments &arguments);

// Pointers as Prepared::run takes them.
std::vector<void *> pointers_of(const Signature &signature, const Operands &inputs, const Operands &outputs);

} // namespace opdock::op_call
