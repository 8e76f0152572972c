#include "counted.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "op-call/dims.hpp"
#include "op-call/named.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::Parameter;
using op_call::Signature;
using op_call::Sizes;

bool has_dim(const std::vector<Parameter> &parameters, const std::string &name) {
    return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter &parameter) {
        const std::vector<std::string> dims = parameter.dims;
        return std::any_of(dims.begin(), dims.end(), [&](const std::string &dim) {
            const std::vector<std::string> names = op_call::names_in(dim);
            return std::find(names.begin(), names.end(), name) != names.end();
        });
    });
}

// By the name of the dim that each one counts. A negative count is 0.
Sizes counts_of(const Signature &signature, const std::vector<Output> &outputs) {
    Sizes counts;
    for (const Output &output : outputs) {
        const auto parameter = op_call::find_named(signature.outputs, output.name);
        if (parameter && signature.outputs[*parameter].type() == "i64[]" && has_dim(signature.outputs, output.name) &&
            !has_dim(signature.inputs, output.name)) {
            int64_t count = 0;
            std::memcpy(&count, output.elements.data(), sizeof count);
            counts[output.name] = std::max<int64_t>(count, 0);
        }
    }
    return counts;
}

// Clears everything past the first `kept` entries of one axis.
void clear_rest(Output &output, size_t axis, size_t kept) {
    size_t inner = files::element_size(output.dtype); // bytes per entry of the axis
    for (size_t d = axis + 1; d < output.shape.size(); ++d) {
        inner *= static_cast<size_t>(output.shape[d]);
    }
    const size_t block = static_cast<size_t>(output.shape[axis]) * inner;
    for (size_t begin = 0; begin < output.elements.size(); begin += block) {
        const size_t filled = std::min(kept * inner, block);
        std::memset(output.elements.data() + begin + filled, 0, block - filled);
    }
}

} // namespace

void clear_uncounted(const Signature &signature, std::vector<Output> &outputs) {
    const Sizes counts = counts_of(signature, outputs);
    for (Output &output : outputs) {
        const auto parameter = op_call::find_named(signature.outputs, output.name);
        if (counts.empty() || !parameter) {
            continue;
        }
        const std::vector<std::string> dims = signature.outputs[*parameter].dims;
        const auto others = std::find(dims.begin(), dims.end(), "...");
        for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
            const std::optional<int64_t> filled = op_call::evaluate(*dim, counts); // none: it has other names
            if (filled && !op_call::names_in(*dim).empty()) {
                const bool is_after = others < dim;
                const auto axis = is_after ? output.shape.size() - static_cast<size_t>(dims.end() - dim)
                                           : static_cast<size_t>(dim - dims.begin());
                clear_rest(output, axis, static_cast<size_t>(*filled));
            }
        }
    }
}

} // namespace opdock::plugin_check
