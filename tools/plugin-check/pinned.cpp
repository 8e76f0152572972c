#include "pinned.hpp"

#include <algorithm>
#include <optional>

#include "cli/exit.hpp"
#include "op-call/dims.hpp"
#include "op-call/source.hpp"
#include "op-call/spelling.hpp"
#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::MadeUp;
using op_call::Named;
using op_call::Parameter;
using op_call::Signature;

struct Given {
    const Named *named;
    const Parameter *input;
    MadeUp tensor;
    size_t element; // of a list
};

[[noreturn]] void refuse(const Named &named, const std::string &why) {
    throw cli::UsageError("--shape " + named.name + "=" + named.text + ": " + why);
}

std::vector<Given> read(const std::vector<Named> &shapes, const Signature &signature) {
    std::vector<Given> all;
    for (const Named &one : shapes) {
        const auto index = op_call::find_named(signature.inputs, one.name);
        if (!index) {
            op_call::unknown_argument("--shape", one.name, op_call::names_of(signature.inputs), signature,
                                      op_call::shapes_spelling);
        }
        const Parameter &input = signature.inputs[*index];
        const auto before = static_cast<size_t>(
            std::count_if(all.begin(), all.end(), [&](const Given &given) { return given.input == &input; }));
        if (before != 0 && !input.list) {
            throw cli::UsageError("--shape " + one.name + " was given twice, but is not a list");
        }
        all.push_back({&one, &input, std::get<MadeUp>(op_call::parse_shape(one.text)), before});
    }
    return all;
}

// Sets the one name in the dim that has no size. Returns false if no size makes it this dim.
bool bind(const std::string &dim, int64_t size, op_call::Sizes &sizes) {
    std::vector<std::string> open = op_call::names_in(dim);
    std::erase_if(open, [&](const std::string &name) { return sizes.contains(name); });
    if (open.size() == 1 && open.front() == dim) {
        sizes[dim] = size;
        return true;
    }
    if (open.size() == 1) {
        constexpr int64_t most = 1 << 24; // an expression grows with its name, or is not a dim that can be made
        for (int64_t value = 0; value <= most; ++value) {
            sizes[open.front()] = value;
            if (op_call::evaluate(dim, sizes) == size) {
                return true;
            }
        }
        sizes.erase(open.front());
        return false;
    }
    return op_call::evaluate(dim, sizes) == size;
}

bool is_name(const std::string &dim) {
    return op_call::names_in(dim) == std::vector<std::string>{dim};
}

std::string dims_text(const std::vector<std::string> &dims) {
    std::string text;
    for (const std::string &dim : dims) {
        text += (text.empty() ? "" : ",") + dim;
    }
    return "[" + text + "]";
}

// Binds the dims that are names, or those that are expressions; expressions need the names to be known.
void bind(const Given &given, bool names, Shape &shape, bool &has_leading) {
    const std::vector<std::string> dims = given.input->dims;
    const auto rest = std::find(dims.begin(), dims.end(), "...");
    const size_t fixed = dims.size() - (rest == dims.end() ? 0 : 1);
    const std::vector<int64_t> &sizes = given.tensor.shape;
    if (sizes.size() < fixed || (rest == dims.end() && sizes.size() != fixed)) {
        refuse(*given.named, "expected " + given.input->name + "=DTYPE" + dims_text(dims));
    }
    const auto before = static_cast<std::ptrdiff_t>(rest - dims.begin());
    const auto leading = static_cast<std::ptrdiff_t>(sizes.size() - fixed);
    if (rest != dims.end()) {
        const std::vector<int64_t> found(sizes.begin() + before, sizes.begin() + before + leading);
        if (has_leading && shape.leading != found) {
            refuse(*given.named, "its leading dims differ from those of another tensor");
        }
        shape.leading = found;
        has_leading = true;
    }
    for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] == "..." || is_name(dims[d]) != names) {
            continue;
        }
        const auto at =
            static_cast<std::ptrdiff_t>(d) > before && rest != dims.end() ? d - 1 + static_cast<size_t>(leading) : d;
        if (!bind(dims[d], sizes[at], shape.names)) {
            const std::optional<int64_t> other = op_call::evaluate(dims[d], shape.names);
            refuse(*given.named,
                   dims[d] + " is " + std::to_string(sizes[at]) + " here" +
                       (other ? " and " + std::to_string(*other) + " in another tensor" : ", which no size gives"));
        }
    }
}

// Checks the inputs that are required and have dims that no pinned input determines.
void check_complete(const Signature &signature, const std::vector<Given> &given, const Shape &shape, bool has_leading) {
    for (const Parameter &input : signature.inputs) {
        const bool is_given =
            std::any_of(given.begin(), given.end(), [&](const Given &one) { return one.input == &input; });
        if (is_given || input.optional) {
            continue;
        }
        for (const std::string &dim : input.dims) {
            for (const std::string &name : op_call::names_in(dim)) {
                if (name == "..." ? !has_leading : !shape.names.contains(name)) {
                    throw cli::UsageError("--shape: no size is given for '" + name + "' of " + input.name +
                                          "; give --shape " + input.name + "=DTYPE" + dims_text(input.dims) +
                                          " as well");
                }
            }
        }
    }
}

bool has_dtype(const Signature &signature, const std::string &tuple, const Given &given) {
    return dtype_in(given.input->dtype, dtypes_of(signature, tuple)) == given.tensor.dtype;
}

void keep_tuples(const Signature &signature, const std::vector<Given> &given, Subject &subject) {
    for (const Given &one : given) {
        std::erase_if(subject.tuples, [&](const std::string &tuple) { return !has_dtype(signature, tuple, one); });
        if (subject.tuples.empty()) {
            refuse(*one.named, "'" + subject.impl_id + "' does not take " +
                                   std::string(files::dtype_name(one.tensor.dtype)) +
                                   " there, or not together with the dtypes of the other tensors");
        }
    }
}

// If the attribute sets a dtype variable, keeps the tuples with that value.
void keep_tuples(const Signature &signature, const op_call::AttributeParameter &parameter, const Named &named,
                 Subject &subject) {
    if (parameter.variable.empty()) {
        return;
    }
    const uint32_t dtype = op_call::parse_dtype(named.text);
    std::erase_if(subject.tuples, [&](const std::string &tuple) {
        return dtypes_of(signature, tuple).at(parameter.variable) != dtype;
    });
    if (subject.tuples.empty()) {
        throw cli::UsageError("--attr " + named.name + "=" + named.text + ": '" + subject.impl_id +
                              "' does not list this dtype");
    }
}

} // namespace

Pinned resolve(const Pins &pins, const Signature &signature, const Takes &takes, Subject &subject) {
    Pinned pinned;
    for (const Named &attribute : pins.attributes) {
        const auto index = op_call::find_named(signature.attributes, attribute.name);
        if (!index) {
            op_call::unknown_argument("--attr", attribute.name, op_call::names_of(signature.attributes), signature,
                                      op_call::shapes_spelling);
        }
        if (op_call::find_named(pinned.attributes, attribute.name)) {
            throw cli::UsageError("--attr " + attribute.name + " was given twice");
        }
        pinned.attributes.push_back(op_call::parse_attribute(signature.attributes[*index], attribute.text));
        keep_tuples(signature, signature.attributes[*index], attribute, subject);
    }
    const std::vector<Given> given = read(pins.shapes, signature);
    if (given.empty()) {
        return pinned;
    }
    keep_tuples(signature, given, subject);
    size_t elements = 1;
    for (const Given &one : given) {
        elements = std::max(elements, one.element + 1);
    }
    Shapes shapes(elements);
    for (size_t i = 0; i < elements; ++i) {
        bool has_leading = false;
        for (const bool names : {true, false}) {
            for (const Given &one : given) {
                if (!one.input->list || one.element == i) {
                    bind(one, names, shapes[i], has_leading);
                }
            }
        }
        check_complete(signature, given, shapes[i], has_leading);
    }
    if (!takes(shapes)) {
        throw cli::UsageError("--shape: " + signature.op + " does not take these shapes: " + signature.text);
    }
    pinned.shapes.push_back(std::move(shapes));
    return pinned;
}

} // namespace opdock::plugin_check
