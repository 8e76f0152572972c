#include "op-call/builtin_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "op-call/dims.hpp"

namespace opdock::op_call {
namespace {

// The power of two nearest to the n-th root.
int64_t root(int64_t elements, size_t n) {
    return int64_t{1} << std::lround(std::log2(static_cast<double>(elements)) /
                                     static_cast<double>(std::max<size_t>(n, 1)));
}

// The dims of the required input that has the most dims; `names` gets the dim names of all required inputs.
std::vector<std::string> largest_dims(const Signature &signature, std::vector<std::string> &names) {
    std::vector<std::string> largest;
    for (const Parameter &input : signature.inputs) {
        if (input.optional) {
            continue;
        }
        const std::vector<std::string> dims = input.dims;
        for (const std::string &dim : dims) {
            const std::vector<std::string> found = names_in(dim);
            names.insert(names.end(), found.begin(), found.end());
        }
        largest = dims.size() > largest.size() ? dims : largest;
    }
    return largest;
}

Sizes sizes_of(const Signature &signature, const BuiltinSize &size, bool alike) {
    std::vector<std::string> all;
    const std::vector<std::string> largest = largest_dims(signature, all);
    Sizes sizes;
    const auto give = [&](const std::vector<std::string> &names, int64_t value) {
        for (const std::string &name : names) {
            sizes.try_emplace(name, value);
        }
    };
    if (alike || largest.size() <= 1) {
        give(all, root(size.elements, largest.size()));
        return sizes;
    }
    give(names_in(largest.back()), size.last);
    for (size_t i = 0; i + 1 < largest.size(); ++i) {
        give(names_in(largest[i]), root(size.elements / size.last, largest.size() - 1));
    }
    give(all, size.last);
    return sizes;
}

// The dtype of each dtype variable.
std::map<std::string, std::string> dtypes_of(const Signature &signature, const std::string &tuple) {
    std::map<std::string, std::string> dtypes;
    size_t begin = 0;
    for (const std::string &variable : signature.dtype_variables) {
        const size_t comma = std::min(tuple.find(',', begin), tuple.size());
        dtypes[variable] = tuple.substr(std::min(begin, tuple.size()), comma - std::min(begin, tuple.size()));
        begin = comma + 1;
    }
    return dtypes;
}

// "f32[16,128]"
std::optional<std::string> source_of(const Parameter &input, const Sizes &sizes,
                                     const std::map<std::string, std::string> &dtypes) {
    const std::string element = input.dtype;
    const auto variable = dtypes.find(element);
    std::string dims;
    for (const std::string &dim : input.dims) {
        const std::optional<int64_t> value = evaluate(dim, sizes);
        if (!value || *value < 0) {
            return std::nullopt;
        }
        dims += (dims.empty() ? "" : ",") + std::to_string(*value);
    }
    return (variable == dtypes.end() ? element : variable->second) + "[" + dims + "]";
}

std::optional<std::string> value_of(const std::string &type) {
    static const std::map<std::string, std::string> values = {{"int", "1"}, {"float", "1"}, {"bool", "false"}};
    const auto found = values.find(type);
    return found == values.end() ? std::nullopt : std::optional(found->second);
}

} // namespace

std::optional<BuiltinCall> builtin_call(const Signature &signature, const std::string &dtypes, const BuiltinSize &size,
                                        bool alike) {
    const Sizes sizes = sizes_of(signature, size, alike);
    const std::map<std::string, std::string> of_variables = dtypes_of(signature, dtypes);
    BuiltinCall call;
    for (const Parameter &input : signature.inputs) {
        if (input.optional) {
            continue;
        }
        const std::optional<std::string> source = source_of(input, sizes, of_variables);
        if (!source) {
            return std::nullopt;
        }
        call.inputs.insert(call.inputs.end(), input.list ? 2 : 1, Named{input.name, *source});
    }
    for (const AttributeParameter &attribute : signature.attributes) {
        if (!attribute.is_required()) {
            continue;
        }
        const std::optional<std::string> value = value_of(attribute.type);
        if (!value) {
            return std::nullopt;
        }
        call.attributes.push_back({attribute.name, *value});
    }
    return call;
}

std::vector<std::string> builtin_dtypes(const std::vector<std::string> &tuples) {
    std::vector<std::string> chosen;
    for (const char *dtype : {"f32", "bf16"}) {
        const auto found = std::find_if(tuples.begin(), tuples.end(), [&](const std::string &tuple) {
            return tuple.substr(0, tuple.find(',')) == dtype;
        });
        if (found != tuples.end()) {
            chosen.push_back(*found);
        }
    }
    if (chosen.empty()) {
        chosen.push_back(tuples.empty() ? "" : tuples.front());
    }
    return chosen;
}

} // namespace opdock::op_call
