#include "cases.hpp"

#include <algorithm>

#include "attributes.hpp"
#include "inputs.hpp"
#include "signature/standard_ops.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::AttributeParameter;
using op_call::Parameter;
using op_call::Signature;

const char *text_of(Values values) {
    switch (values) {
    case Values::tiny:
        return ", tiny values";
    case Values::huge:
        return ", huge values";
    case Values::sparse:
        return ", half of the values zero";
    case Values::constant:
        return ", all values equal";
    case Values::infinite:
        return ", some values infinite";
    case Values::denormal:
        return ", denormal values";
    case Values::not_a_number:
        return ", some values NaN";
    case Values::rows:
        return ", rows of different magnitudes";
    case Values::normal:
        break;
    }
    return "";
}

const char *text_of(Layout layout) {
    switch (layout) {
    case Layout::misaligned:
        return ", data aligned to its dtype only";
    case Layout::padded:
        return ", gaps between rows";
    case Layout::transposed:
        return ", transposed";
    case Layout::scattered:
        return ", every third element";
    case Layout::distant:
        return ", elements more than 2^31 apart";
    case Layout::mixed:
        return ", each tensor with its own strides";
    case Layout::contiguous:
        break;
    }
    return "";
}

const char *text_of(Exercise exercise) {
    switch (exercise) {
    case Exercise::in_place:
        return ", in place";
    case Exercise::same:
        return ", inputs of one shape sharing one tensor";
    case Exercise::threads:
        return ", several threads at once";
    case Exercise::configs:
        return ", every config of the tune file";
    case Exercise::batches:
        return ", rows in batches of 1 to all";
    case Exercise::call:
        break;
    }
    return "";
}

// True if the text of a signature, "(input: T[...], *, eps: float) -> (output ~ input: T[...])", has the parameter.
bool has_parameter(std::string_view signature, const std::string &name) {
    for (size_t at = signature.find(name, 1); at != std::string_view::npos; at = signature.find(name, at + 1)) {
        const std::string_view rest = signature.substr(at + name.size());
        const bool begins = signature[at - 1] == '(' || signature[at - 1] == ' ';
        if (begins && (rest.starts_with(":") || rest.starts_with(" ~ "))) {
            return true;
        }
    }
    return false;
}

std::string dims_text(const std::vector<int64_t> &dims) {
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
        text += (i == 0 ? "" : ",") + std::to_string(dims[i]);
    }
    return text + "]";
}

std::string inputs_text(const Case &one, const Shapes &shapes, const Signature &signature) {
    std::string text;
    for (const Parameter &input : signature.inputs) {
        if (!one.has(input)) {
            continue;
        }
        const size_t count = input.list ? shapes.size() : 1;
        for (size_t i = 0; i < count; ++i) {
            text += (text.empty() ? "" : ", ") + input.name + " " +
                    std::string(files::dtype_name(dtype_in(input.dtype, one.dtypes))) +
                    dims_text(dims_in(input.dims, shapes[i]));
        }
    }
    return text;
}

} // namespace

bool is_standard(const std::string &op) {
    return op.find('.') == std::string::npos;
}

std::vector<std::string> appended_to_standard(const Signature &signature) {
    const std::string_view standard = core::standard_signature(signature.op);
    std::vector<std::string> names;
    if (standard.empty()) {
        return names;
    }
    const auto look_at = [&](const auto &parameters) {
        for (const auto &parameter : parameters) {
            if (!has_parameter(standard, parameter.name)) {
                names.push_back(parameter.name);
            }
        }
    };
    look_at(signature.inputs);
    look_at(signature.attributes);
    look_at(signature.outputs);
    return names;
}

bool Case::has(const Parameter &parameter) const {
    return std::find(without.begin(), without.end(), parameter.name) == without.end();
}

Extent extent_of(const Case &one, const Signature &signature) {
    std::vector<Shapes> all = one.beside;
    all.push_back(one.shapes);
    Extent extent;
    for (const Shapes &shapes : all) {
        for (const Shape &shape : shapes) {
            for (const Parameter &input : signature.inputs) {
                if (!one.has(input)) {
                    continue;
                }
                const std::vector<int64_t> dims = dims_in(input.dims, shape);
                uint64_t elements = 1;
                for (const int64_t dim : dims) {
                    elements *= static_cast<uint64_t>(dim);
                }
                extent.elements = std::max(extent.elements, elements);
                extent.dims = std::max<uint64_t>(extent.dims, dims.size());
            }
        }
    }
    return extent;
}

std::string label_of(const Case &one, const Signature &signature) {
    std::string text = inputs_text(one, one.shapes, signature);
    for (const std::string &name : one.without) {
        text += (name == one.without.front() ? ", without " : " and ") + name;
    }
    text += one.attributes_text + text_of(one.values) + (one.values_of.empty() ? "" : " in " + one.values_of);
    text += std::string(text_of(one.layout)) + text_of(one.exercise);
    for (const Shapes &shapes : one.beside) {
        text += " and " + inputs_text(one, shapes, signature);
    }
    return text;
}

Dtypes dtypes_of(const Signature &signature, const std::string &tuple) {
    Dtypes dtypes;
    size_t begin = 0;
    for (const std::string &variable : signature.dtype_variables) {
        const size_t end = std::min(tuple.find(',', begin), tuple.size());
        dtypes[variable] = op_call::parse_dtype(std::string_view(tuple).substr(begin, end - begin));
        begin = std::min(end + 1, tuple.size());
    }
    return dtypes;
}

uint32_t dtype_in(const std::string &dtype, const Dtypes &dtypes) {
    const auto variable = dtypes.find(dtype);
    return variable != dtypes.end() ? variable->second : op_call::parse_dtype(dtype);
}

} // namespace opdock::plugin_check
