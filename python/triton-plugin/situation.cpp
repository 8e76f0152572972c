#include "situation.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace opdock::triton {
namespace {

[[noreturn]] void decline(const std::string &reason) {
    throw Failure(OPDOCK_UNSUPPORTED, reason);
}

std::string number_text(double value) {
    if (std::floor(value) == value && std::fabs(value) < 9e15) {
        return std::to_string(static_cast<std::int64_t>(value));
    }
    return std::to_string(value);
}

const DLTensor *tensor_of(const Problem &problem, std::int64_t parameter) {
    const opdock_problem &c = problem.c();
    const auto at = static_cast<std::size_t>(parameter);
    if (parameter < 0 || at >= c.n_inputs + c.n_outputs || c.tensor_offsets[at] == c.tensor_offsets[at + 1]) {
        return nullptr;
    }
    return c.tensors[c.tensor_offsets[at]];
}

const opdock_value &attribute_of(const Problem &problem, std::int64_t attribute) {
    if (attribute < 0 || static_cast<std::uint64_t>(attribute) >= problem.c().n_attributes) {
        throw std::logic_error("the description names an attribute that the op does not have");
    }
    return problem.c().attributes[attribute];
}

double attribute_value(const opdock_value &value) {
    return value.type == OPDOCK_VALUE_FLOAT  ? value.as.f
           : value.type == OPDOCK_VALUE_NONE ? 0
                                             : static_cast<double>(value.as.i);
}

double device_value(Variable::Kind kind, const opdock_device_properties *device) {
    if (device == nullptr) {
        return 0;
    }
    switch (kind) {
    case Variable::Kind::memory:
        return static_cast<double>(device->memory);
    case Variable::Kind::compute_units:
        return device->compute_units;
    case Variable::Kind::warp_size:
        return device->warp_size;
    case Variable::Kind::shared_memory:
        return static_cast<double>(device->shared_memory);
    default:
        return static_cast<double>(device->cache);
    }
}

} // namespace

Situation::Situation(const Problem &problem)
    : problem_(problem), plugin_(problem.user_data<Registered>()->plugin),
      implementation_(problem.user_data<Registered>()->implementation), dtypes_(find_dtypes()),
      architecture_(find_architecture()) {
    for (const Variable &variable : implementation_->variables) {
        values_.push_back(value_of(variable));
    }
}

void Situation::set_config(const std::int64_t *knobs) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
        const Variable &variable = implementation_->variables[i];
        if (variable.kind == Variable::Kind::knob) {
            values_[i] = static_cast<double>(knobs[variable.first]);
        }
    }
}

bool Situation::is_absent(const Parameter &parameter) const {
    return parameter.kind == Parameter::Kind::tensor && tensor_of(problem_, parameter.index) == nullptr;
}

double Situation::value_of(const Variable &variable) const {
    switch (variable.kind) {
    case Variable::Kind::dim:
        return static_cast<double>(problem_.dim(variable.name.c_str()));
    case Variable::Kind::attribute:
        return attribute_value(attribute_of(problem_, variable.first));
    case Variable::Kind::knob:
        return 0;
    case Variable::Kind::has:
        return tensor_of(problem_, variable.first) != nullptr ? 1 : 0;
    case Variable::Kind::row_stride:
        return row_stride(variable);
    case Variable::Kind::stride: {
        const DLTensor *tensor = tensor_of(problem_, variable.first);
        const std::int64_t axis =
            variable.second < 0 && tensor != nullptr ? variable.second + tensor->ndim : variable.second;
        return tensor == nullptr || axis < 0 || axis >= tensor->ndim ? 0 : static_cast<double>(tensor->strides[axis]);
    }
    case Variable::Kind::element_size: {
        const DLTensor *tensor = tensor_of(problem_, variable.first);
        return tensor == nullptr ? 0 : (tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;
    }
    default:
        return device_value(variable.kind, problem_.device_properties());
    }
}

// The stride of the dims that `...` stands for, merged into one.
double Situation::row_stride(const Variable &variable) const {
    const DLTensor *tensor = tensor_of(problem_, variable.first);
    if (tensor == nullptr) {
        return 0;
    }
    const std::int64_t before = variable.second / 64, end = tensor->ndim - variable.second % 64;
    std::int64_t stride = 0, next = 0; // the stride that would let the preceding dim merge
    for (std::int64_t axis = end - 1; axis >= before; --axis) {
        const std::int64_t size = tensor->shape[axis];
        if (size == 0) {
            return 0;
        }
        if (size == 1) {
            continue;
        }
        if (stride == 0) {
            stride = tensor->strides[axis];
        } else if (tensor->strides[axis] != next) {
            decline("the strides of the leading dims of '" + variable.name + "' cannot be merged into one");
        }
        next = tensor->strides[axis] * size;
    }
    return static_cast<double>(stride);
}

std::size_t Situation::find_dtypes() const {
    std::vector<std::int64_t> found;
    for (const DtypeSource &source : implementation_->dtype_sources) {
        if (source.parameter < 0) {
            found.push_back(attribute_of(problem_, source.attribute).as.i);
        } else {
            const DLTensor *tensor = tensor_of(problem_, source.parameter);
            found.push_back(tensor == nullptr ? 0 : static_cast<std::int64_t>(opdock_dtype_pack(tensor->dtype)));
        }
    }
    for (std::size_t i = 0; i < implementation_->dtype_tuples.size(); ++i) {
        const std::vector<std::int64_t> &tuple = implementation_->dtype_tuples[i];
        if (std::equal(found.begin(), found.end(), tuple.begin(), tuple.end(),
                       [](std::int64_t have, std::int64_t want) { return have == 0 || have == want; })) {
            return i;
        }
    }
    decline("no kernel was compiled for these dtypes");
}

std::size_t Situation::find_architecture() const {
    const opdock_device_properties *device = problem_.device_properties();
    const std::string name = device != nullptr ? device->architecture : "";
    for (std::size_t i = 0; i < implementation_->architecture_numbers.size(); ++i) {
        const auto number = static_cast<std::size_t>(implementation_->architecture_numbers[i]);
        const std::vector<std::string> &serves = plugin_->description.architectures[number].serves;
        if (std::find(serves.begin(), serves.end(), name) != serves.end()) {
            return i;
        }
    }
    decline("no kernel was compiled for the device's architecture '" + name + "'");
}

std::size_t Situation::find_key(const Launch &launch) const {
    std::vector<double> key;
    for (const Expression &expression : launch.keys) {
        key.push_back(evaluate(expression, values_));
    }
    const auto found = std::find(launch.key_values.begin(), launch.key_values.end(), key);
    if (found == launch.key_values.end()) {
        std::string text;
        for (std::size_t i = 0; i < key.size(); ++i) {
            text += (i != 0 ? ", " : "") + launch.key_names[i] + "=" + number_text(key[i]);
        }
        decline(launch.function + " was not compiled for " + text);
    }
    return static_cast<std::size_t>(found - launch.key_values.begin());
}

std::string Situation::why_not(const Launch &launch, const Variant &variant) const {
    const auto value = [&](std::int64_t place) {
        return evaluate(launch.parameters[static_cast<std::size_t>(place)].value, values_);
    };
    const auto text = [&](std::int64_t place) {
        return launch.parameters[static_cast<std::size_t>(place)].name + " is " + number_text(value(place));
    };
    for (const std::int64_t place : variant.ones) {
        if (value(place) != 1) {
            return text(place) + ", not 1";
        }
    }
    for (const std::int64_t place : variant.divisible) {
        if (std::fmod(value(place), 16) != 0) {
            return text(place) + ", not a multiple of 16";
        }
    }
    return {};
}

std::string Situation::why_not(const Kernel &kernel) const {
    const opdock_device_properties *device = problem_.device_properties();
    if (device != nullptr && device->shared_memory != 0 && kernel.shared_bytes > device->shared_memory) {
        return "a block needs " + std::to_string(kernel.shared_bytes) + " bytes of shared memory, but the device has " +
               std::to_string(device->shared_memory);
    }
    return {};
}

std::vector<Situation::Candidate> Situation::candidates_of(const Launch &launch) const {
    if (!launch.when.empty() && evaluate(launch.when, values_) == 0) {
        return {};
    }
    const std::size_t key = find_key(launch), keys = launch.key_values.size(), variants = launch.variants.size();
    const std::size_t row = (dtypes_ * implementation_->architecture_numbers.size() + architecture_) * variants;
    std::vector<Candidate> found;
    std::string reason = "it was not compiled for this architecture";
    for (std::size_t i = variants; i-- > 0;) { // the reason of the first variant is kept
        const std::int64_t number = launch.kernels[(row + i) * keys + key];
        if (number < 0) {
            continue;
        }
        const Kernel &kernel = plugin_->description.kernels[static_cast<std::size_t>(number)];
        std::string why = why_not(launch, launch.variants[i]);
        why = why.empty() ? why_not(kernel) : why;
        if (why.empty()) {
            found.insert(found.begin(), {&launch.variants[i], &kernel, static_cast<std::size_t>(number)});
        } else {
            reason = std::move(why);
        }
    }
    if (found.empty()) {
        decline("no variant of " + launch.function + " takes the call: " + reason);
    }
    return found;
}

std::vector<std::vector<Situation::Candidate>> Situation::candidates() const {
    for (const Expression &condition : implementation_->where) {
        if (evaluate(condition, values_) == 0) {
            decline("'" + condition.text + "' does not hold");
        }
    }
    std::vector<std::vector<Candidate>> found;
    for (const Launch &launch : implementation_->launches) {
        found.push_back(candidates_of(launch));
    }
    return found;
}

} // namespace opdock::triton
