#include "traffic.hpp"

#include <map>

#include "op-call/dims.hpp"

namespace opdock::plugin_bench {
namespace {

using op_call::Operand;
using op_call::Operands;
using op_call::Parameter;

uint64_t bytes_of(const std::vector<Operand> &tensors) {
    uint64_t bytes = 0;
    for (const Operand &tensor : tensors) {
        bytes += op_call::bytes_of(tensor);
    }
    return bytes;
}

// Binds each dim that is a bare name, and binds "..." to the product of the dims it stands for.
void bind(const Parameter &parameter, const std::vector<int64_t> &shape, std::map<std::string, double> &sizes) {
    const std::vector<std::string> dims = parameter.dims;
    size_t at = 0;
    for (const std::string &dim : dims) {
        const size_t count = dim == "..." ? shape.size() + 1 - dims.size() : 1;
        double size = 1;
        for (size_t i = 0; i < count && at < shape.size(); ++i) {
            size *= static_cast<double>(shape[at++]);
        }
        if (op_call::names_in(dim) == std::vector<std::string>{dim}) {
            sizes.try_emplace(dim, size);
        }
    }
}

} // namespace

uint64_t compulsory_bytes(const op_call::Signature &signature, const Operands &inputs, const Operands &outputs) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
        bytes += bytes_of(inputs[i]) * (signature.inputs[i].mut ? 2 : 1);
    }
    for (const auto &output : outputs) {
        bytes += bytes_of(output);
    }
    return bytes;
}

std::optional<double> flops_of(const op_call::Signature &signature, const Operands &inputs) {
    if (signature.op != "matmul" && !signature.op.starts_with("linear_")) {
        return std::nullopt;
    }
    std::map<std::string, double> sizes;
    for (size_t i = 0; i < inputs.size(); ++i) {
        for (const Operand &tensor : inputs[i]) {
            bind(signature.inputs[i], tensor.shape, sizes);
        }
    }
    double flops = 2;
    for (const auto &[name, size] : sizes) {
        flops *= size;
    }
    return flops;
}

} // namespace opdock::plugin_bench
