#include "tune/variables.hpp"

#include <algorithm>
#include <array>

#include "signature/dtype.hpp"

namespace opdock::core {
namespace {

constexpr std::array device_names = {"device_memory", "device_compute_units", "device_warp_size",
                                     "device_shared_memory", "device_cache"};

bool is_number(const AttributeSpec &attribute) {
    return !attribute.optional && (attribute.type == OPDOCK_VALUE_INT || attribute.type == OPDOCK_VALUE_FLOAT ||
                                   attribute.type == OPDOCK_VALUE_BOOL);
}

// The axis of the parameter's i-th dim in a tensor with `rank` dims.
int32_t axis_of(const Parameter &parameter, size_t i, int32_t rank) {
    const bool after = parameter.ellipsis >= 0 && i >= static_cast<size_t>(parameter.ellipsis);
    return after ? rank - static_cast<int32_t>(parameter.dims.size() - i) : static_cast<int32_t>(i);
}

// Takes the first parameter with a tensor present, among those accepted by `has`; calls `visit` with each such tensor.
template<class Has, class Visit>
bool visit_first(const Signature &form, const opdock_problem &problem, Has has, Visit visit) {
    for (size_t p = 0; p < form.n_params(); ++p) {
        const std::optional<size_t> where = has(form.parameter(p));
        if (!where) {
            continue;
        }
        bool any = false;
        for (uint32_t t = problem.tensor_offsets[p]; t < problem.tensor_offsets[p + 1]; ++t) {
            if (const DLTensor *tensor = problem.tensors[t]) {
                visit(form.parameter(p), *where, *tensor);
                any = true;
            }
        }
        if (any) {
            return true;
        }
    }
    return false;
}

double sum_of_dim(const Signature &form, const opdock_problem &problem, size_t index) {
    for (size_t i = 0; i < form.attributes.size(); ++i) {
        if (form.attributes[i].dim == static_cast<int>(index)) {
            return static_cast<double>(problem.attributes[i].as.i);
        }
    }
    const auto has = [index](const Parameter &parameter) -> std::optional<size_t> {
        const auto found = std::find_if(parameter.dims.begin(), parameter.dims.end(), [index](const Dim &dim) {
            return dim.index == index && (dim.kind == Dim::Kind::name || dim.kind == Dim::Kind::scaled);
        });
        return found == parameter.dims.end() ? std::nullopt
                                             : std::optional(static_cast<size_t>(found - parameter.dims.begin()));
    };
    const bool each = (form.element_dims >> index & 1u) != 0;
    double sum = 0;
    visit_first(form, problem, has, [&](const Parameter &parameter, size_t i, const DLTensor &tensor) {
        const Dim &dim = parameter.dims[i];
        const auto size = static_cast<double>(tensor.shape[axis_of(parameter, i, tensor.ndim)]);
        const double value = dim.kind == Dim::Kind::scaled ? size / static_cast<double>(dim.number) : size;
        sum = each ? sum + value : value;
    });
    return sum;
}

double sum_of_rows(const Signature &form, const opdock_problem &problem) {
    const auto has = [](const Parameter &parameter) {
        return parameter.ellipsis >= 0 ? std::optional(static_cast<size_t>(parameter.ellipsis)) : std::nullopt;
    };
    double sum = 0;
    visit_first(form, problem, has, [&](const Parameter &parameter, size_t begin, const DLTensor &tensor) {
        double rows = 1;
        const size_t end = begin + static_cast<size_t>(tensor.ndim) - parameter.dims.size();
        for (size_t axis = begin; axis < end; ++axis) {
            rows *= static_cast<double>(tensor.shape[axis]);
        }
        sum = form.element_ellipsis ? sum + rows : rows;
    });
    return sum;
}

bool is_there(const opdock_problem &problem, size_t parameter) {
    const auto tensors = std::span(problem.tensors + problem.tensor_offsets[parameter],
                                   problem.tensor_offsets[parameter + 1] - problem.tensor_offsets[parameter]);
    return std::any_of(tensors.begin(), tensors.end(), [](const DLTensor *tensor) { return tensor != nullptr; });
}

bool has_attribute(const Signature &form, std::string_view name) {
    return std::any_of(form.attributes.begin(), form.attributes.end(),
                       [&](const AttributeSpec &attribute) { return attribute.name == name; });
}

bool has_ellipsis(const Signature &form) {
    for (size_t p = 0; p < form.n_params(); ++p) {
        if (form.parameter(p).ellipsis >= 0) {
            return true;
        }
    }
    return false;
}

} // namespace

TuneVariables::TuneVariables(const Signature &form) : form_(form) {
    for (const std::string &dim : form.dim_names) {
        sizes_.push_back(add(dim, Kind::whole));
    }
    has_rows_ = !find("rows");
    if (has_rows_) {
        const size_t rows = add("rows", Kind::whole);
        if (has_ellipsis(form)) {
            sizes_.push_back(rows);
        }
    }
    for (size_t p = 0; p < form.n_params(); ++p) {
        const std::string name = "has_" + form.parameter(p).name;
        if (form.parameter(p).optional && !find(name) && !has_attribute(form, name)) {
            optionals_.push_back(p);
            presences_.push_back(add(name, Kind::whole));
        }
    }
    for (size_t i = 0; i < form.attributes.size(); ++i) {
        if (is_number(form.attributes[i]) && !find(form.attributes[i].name)) {
            attributes_.push_back(i);
            const uint32_t type = form.attributes[i].type;
            add(form.attributes[i].name, type == OPDOCK_VALUE_FLOAT ? Kind::real
                                         : type == OPDOCK_VALUE_INT ? Kind::integer
                                                                    : Kind::whole);
        }
    }
    for (const std::string &variable : form.dtype_variables) {
        add("sizeof_" + variable, Kind::whole);
    }
    for (const char *name : device_names) {
        add(name, Kind::whole);
    }
}

size_t TuneVariables::add(std::string name, Kind kind) {
    names_.push_back(std::move(name));
    kinds_.push_back(kind);
    return names_.size() - 1;
}

std::optional<size_t> TuneVariables::find(std::string_view name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    return found == names_.end() ? std::nullopt : std::optional(static_cast<size_t>(found - names_.begin()));
}

std::vector<double> TuneVariables::values(const opdock_problem &problem, std::span<const uint32_t> dtypes,
                                          const opdock_device_properties &device) const {
    std::vector<double> values;
    values.reserve(names_.size());
    for (size_t i = 0; i < form_.dim_names.size(); ++i) {
        values.push_back(sum_of_dim(form_, problem, i));
    }
    if (has_rows_) {
        values.push_back(has_ellipsis(form_) ? sum_of_rows(form_, problem) : 1);
    }
    for (const size_t p : optionals_) {
        values.push_back(is_there(problem, p) ? 1 : 0);
    }
    for (const size_t i : attributes_) {
        const opdock_value &value = problem.attributes[i];
        values.push_back(value.type == OPDOCK_VALUE_FLOAT ? value.as.f : static_cast<double>(value.as.i));
    }
    for (size_t i = 0; i < form_.dtype_variables.size(); ++i) {
        values.push_back(i < dtypes.size() ? static_cast<double>(bytes_of(opdock_dtype_unpack(dtypes[i]))) : 0);
    }
    for (const uint64_t property : {device.memory, uint64_t{device.compute_units}, uint64_t{device.warp_size},
                                    device.shared_memory, device.cache}) {
        values.push_back(static_cast<double>(property));
    }
    return values;
}

std::optional<int64_t> dim_of(const Signature &form, const opdock_problem &problem, std::string_view name) {
    const auto found = std::find(form.dim_names.begin(), form.dim_names.end(), name);
    if (found != form.dim_names.end()) {
        return static_cast<int64_t>(sum_of_dim(form, problem, static_cast<size_t>(found - form.dim_names.begin())));
    }
    if (name == "rows") {
        return static_cast<int64_t>(has_ellipsis(form) ? sum_of_rows(form, problem) : 1);
    }
    return {};
}

} // namespace opdock::core
