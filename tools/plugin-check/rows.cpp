#include "rows.hpp"

#include <algorithm>
#include <cstring>

#include "tensor_files.hpp"

namespace opdock::plugin_check {
namespace {

using op_call::HostTensor;
using op_call::Parameter;
using op_call::Signature;
using op_call::Tensors;

// The number of times it is a dim; nothing if it is part of an expression.
std::optional<size_t> count_dim(const std::vector<std::string> &dims, const std::string &dim) {
    size_t count = 0;
    for (const std::string &one : dims) {
        const std::vector<std::string> names = op_call::names_in(one);
        if (one == dim) {
            ++count;
        } else if (std::find(names.begin(), names.end(), dim) != names.end()) {
            return std::nullopt;
        }
    }
    return count;
}

// The outputs, and the inputs that are written.
std::vector<Parameter> results_of(const Signature &signature) {
    std::vector<Parameter> results = signature.outputs;
    std::copy_if(signature.inputs.begin(), signature.inputs.end(), std::back_inserter(results),
                 [](const Parameter &input) { return input.mut; });
    return results;
}

bool has_dim(const Parameter &parameter, const std::string &dim) {
    return count_dim(parameter.dims, dim) == 1;
}

// True if every tensor has one row for each unit of the dim's size, or none at all.
bool counts_rows(const Signature &signature, const std::string &dim) {
    const auto fits = [&](const Parameter &one) {
        const std::optional<size_t> count = count_dim(one.dims, dim);
        return !one.list && count && *count <= 1;
    };
    const auto has = [&](const Parameter &one) { return has_dim(one, dim); };
    return std::all_of(signature.inputs.begin(), signature.inputs.end(), fits) &&
           std::all_of(signature.outputs.begin(), signature.outputs.end(), fits) &&
           std::any_of(signature.inputs.begin(), signature.inputs.end(), has);
}

} // namespace

std::string row_dim(const Signature &signature) {
    const std::vector<Parameter> results = results_of(signature);
    const auto has = [](const std::string &dim) { return [&dim](const Parameter &one) { return has_dim(one, dim); }; };
    const std::string leading = "...";
    if (std::any_of(results.begin(), results.end(), has(leading))) {
        return counts_rows(signature, leading) ? leading : "";
    }
    for (const Parameter &result : results) {
        for (const std::string &dim : result.dims) {
            if (op_call::names_in(dim) == std::vector{dim} && std::all_of(results.begin(), results.end(), has(dim)) &&
                counts_rows(signature, dim)) {
                return dim;
            }
        }
    }
    return "";
}

int64_t rows_of(const Shape &shape, const std::string &dim) {
    if (dim != "...") {
        const auto found = shape.names.find(dim);
        return found == shape.names.end() ? 1 : found->second;
    }
    int64_t rows = 1;
    for (const int64_t size : shape.leading) {
        rows *= size;
    }
    return rows;
}

Shapes with_rows(const Shapes &shapes, const std::string &dim, int64_t rows, size_t turn) {
    std::vector<int64_t> leading = {rows};
    if (turn % 3 == 1) {
        leading = {rows, 1};
    } else if (turn % 3 == 2 && rows % 2 == 0) {
        leading = {2, rows / 2};
    }
    Shapes changed = shapes;
    for (Shape &shape : changed) {
        if (dim == "...") {
            shape.leading = leading;
        } else {
            shape.names[dim] = rows;
        }
    }
    return changed;
}

std::vector<Shapes> batch_shapes(const Signature &signature, Random &random, const Takes &takes) {
    const std::string dim = row_dim(signature);
    if (dim.empty()) {
        return {};
    }
    const auto largest = [&](const Shapes &shapes) {
        constexpr double most_rows = 4096;
        const double work = work_of(with_rows(shapes, dim, 1).front());
        return with_rows(shapes, dim, static_cast<int64_t>(std::clamp(most_work / work, 1.0, most_rows)));
    };
    std::vector<Shapes> all;
    // Up to 4,096 short rows, or 64 long ones.
    for (const auto &[lengths, rows] :
         {std::pair(std::vector<int64_t>{33, 512}, 4096), std::pair(std::vector<int64_t>{4099, 16384}, 64)}) {
        for (const int64_t length : lengths) {
            for (Shapes &shapes : shapes_of(
                     {{{1}, length}}, signature, random, [&](const Shapes &one) { return takes(largest(one)); },
                     most_work / rows)) {
                all.push_back(largest(shapes));
            }
        }
    }
    return all;
}

std::optional<RowPlaces> row_places(const std::vector<std::string> &dims, const Shape &shape, const std::string &dim,
                                    uint32_t dtype) {
    RowPlaces places;
    places.bytes = files::element_size(dtype);
    bool is_inside = false;
    for (const std::string &one : dims) {
        if (one == dim) {
            is_inside = true;
            places.rows = static_cast<size_t>(rows_of(shape, dim));
        } else {
            const auto size = static_cast<size_t>(op_call::evaluate(one, shape.names).value_or(1));
            (is_inside ? places.bytes : places.blocks) *= size;
        }
    }
    return is_inside ? std::optional(places) : std::nullopt;
}

std::vector<Tensors> pick_rows(const std::vector<Tensors> &inputs, const Shapes &shapes, const Signature &signature,
                               const std::vector<size_t> &rows, size_t turn) {
    const std::string dim = row_dim(signature);
    const Shape picked = with_rows(shapes, dim, static_cast<int64_t>(rows.size()), turn).front();
    std::vector<Tensors> result(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
        const std::vector<std::string> &dims = signature.inputs[i].dims;
        for (const HostTensor &from : inputs[i]) {
            HostTensor &to = result[i].emplace_back(from.dtype, dims_in(dims, picked));
            const std::optional<RowPlaces> places = row_places(dims, shapes.front(), dim, from.dtype);
            if (!places) {
                std::memcpy(to.memory.get(), from.memory.get(), from.bytes);
                continue;
            }
            for (size_t block = 0; block < places->blocks; ++block) {
                for (size_t r = 0; r < rows.size(); ++r) {
                    std::memcpy(to.memory.get() + (block * rows.size() + r) * places->bytes,
                                from.memory.get() + (block * places->rows + rows[r]) * places->bytes, places->bytes);
                }
            }
        }
    }
    return result;
}

} // namespace opdock::plugin_check
