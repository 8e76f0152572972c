#include "replayed.hpp"

#include <algorithm>

#include "attributes.hpp"
#include "op-call/source.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::CallFile;
using op_call::Parameter;
using op_call::Signature;

bool has_results_of(const CallFile &file, const Signature &signature, const std::string &tuple) {
    const Dtypes dtypes = dtypes_of(signature, tuple);
    return std::all_of(signature.outputs.begin(), signature.outputs.end(), [&](const Parameter &output) {
        const files::TensorData *found = file.find("program." + output.name);
        return found == nullptr || found->dtype == dtype_in(output.dtype, dtypes);
    });
}

std::vector<std::string> absent_in(const CallFile &file, const Signature &signature) {
    std::vector<std::string> absent;
    for (const Parameter &input : signature.inputs) {
        if (input.optional && file.find(input.name) == nullptr) {
            absent.push_back(input.name);
        }
    }
    for (const Parameter &output : signature.outputs) {
        const bool is_there = std::find(file.outputs.begin(), file.outputs.end(), output.name) != file.outputs.end();
        if (output.optional && !is_there) {
            absent.push_back(output.name);
        }
    }
    return absent;
}

} // namespace

Pins pins_of(const CallFile &file) {
    Pins pins;
    pins.attributes = file.attributes;
    for (const files::TensorData &tensor : file.tensors) {
        if (!tensor.name.starts_with("program.") && !tensor.name.starts_with("shadow.")) {
            pins.shapes.push_back(
                {tensor.name.substr(0, tensor.name.find('.')), op_call::type_text(tensor.dtype, tensor.shape)});
        }
    }
    return pins;
}

std::vector<std::string> tuples_of(const CallFile &file, const Subject &subject, const Signature &signature) {
    const auto found = std::find_if(subject.tuples.begin(), subject.tuples.end(),
                                    [&](const std::string &tuple) { return has_results_of(file, signature, tuple); });
    return {found == subject.tuples.end() ? subject.tuples.front() : *found};
}

std::vector<Case> cases_of(const CallFile &file, const Subject &subject, const Signature &signature,
                           const Pinned &pinned, uint64_t seed) {
    Case one;
    one.tuple = subject.tuples.front();
    one.dtypes = dtypes_of(signature, one.tuple);
    one.shapes = pinned.shapes.empty() ? Shapes(1) : pinned.shapes.front();
    one.attributes = pinned.attributes;
    one.attributes_text = text_of(one.attributes);
    one.without = absent_in(file, signature);
    one.seed = seed;
    std::vector<Case> cases = {one};
    if (!file.strides.empty() && !subject.needs_contiguous) {
        for (const Layout layout : {Layout::padded, Layout::transposed}) {
            one.index = cases.size();
            one.layout = layout;
            cases.push_back(one);
        }
    }
    return cases;
}

} // namespace opdock::plugin_check
