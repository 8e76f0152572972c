#include "signature/bind.hpp"

#include <cstring>
#include <string>

#include <fmt/format.h>

#include "signature/attributes.hpp"
#include "signature/layout.hpp"
#include "signature/solve.hpp"

namespace opdock::core {

namespace {

// memcpy instead of a read of the enum: newer versions of DLPack have values outside its range.
int32_t device_type(const DLDevice &device) {
    int32_t type = 0;
    std::memcpy(&type, &device.device_type, sizeof type);
    return type;
}

bool same_device(const DLDevice &a, const DLDevice &b) {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

bool is_host_memory(const DLDevice &device) {
    const int32_t type = device_type(device);
    return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost;
}

std::string device_name(const DLDevice &device) {
    switch (device_type(device)) {
    case kDLCPU:
        return fmt::format("cpu:{}", device.device_id);
    case kDLCUDA:
        return fmt::format("cuda:{}", device.device_id);
    case kDLCUDAHost:
        return "pinned CUDA memory";
    case kDLROCM:
        return fmt::format("hip:{}", device.device_id);
    case kDLROCMHost:
        return "pinned HIP memory";
    case kDLCUDAManaged:
        return "managed CUDA memory";
    default:
        return fmt::format("device {} of DLPack type {}", device.device_id, device_type(device));
    }
}

class Binder {
  public:
    Binder(const Signature &signature, const opdock_args &args, Pointing pointing, Bound &bound)
        : signature_(signature), args_(args), pointing_(pointing), bound_(bound), solver_(signature) {}

    void run() {
        check_args(signature_, args_);
        layout_ = lay_out(signature_, args_, true, bound_.tensors, bound_.first);
        bound_.used_inputs = layout_.used_inputs;
        bound_.used_outputs = layout_.used_outputs;
        bound_.writes_inputs = false;
        bound_.extents.resize(bound_.tensors.size()); // bind_tensor sets each one
        const auto n_inputs = static_cast<uint32_t>(signature_.inputs.size());
        const auto n_params = static_cast<uint32_t>(signature_.n_params());

        bind_single(0, n_inputs);
        bind_attribute_values();
        bind_elements();
        bind_single(n_inputs, n_params);
        solver_.check_constraints(false);
        bound_.dtypes.resize(signature_.dtype_variables.size());
        for (size_t i = 0; i < bound_.dtypes.size(); ++i) {
            bound_.dtypes[i] = solver_.dtype(i);
        }
        set_device();
        check_aliases();
        check_overlaps(signature_, bound_.extents);
    }

  private:
    void bind_single(uint32_t begin, uint32_t end) {
        for (uint32_t i = begin; i < end; ++i) {
            if (!signature_.parameter(i).list) {
                bind_tensor({i, 0});
            }
        }
    }

    // Element by element, because each element has its own dims, which must match across the lists.
    void bind_elements() {
        if (!signature_.has_lists()) {
            return;
        }
        const auto n_params = static_cast<uint32_t>(signature_.n_params());
        for (uint32_t element = 0; element < layout_.elements; ++element) {
            solver_.begin_element();
            for (uint32_t i = 0; i < n_params; ++i) {
                if (signature_.parameter(i).list && bound_.first[i] != bound_.first[i + 1]) {
                    bind_tensor({i, element});
                }
            }
            solver_.check_constraints(true);
        }
    }

    void bind_tensor(ArgumentPlace place) {
        const uint32_t at = bound_.first[place.parameter] + place.element;
        const DLTensor *tensor = bound_.tensors[at];
        Extent &extent = bound_.extents[at];
        if (tensor == nullptr) {
            extent = {nullptr, place, false, 0, 0};
            return;
        }
        const Parameter &parameter = signature_.parameter(place.parameter);
        solver_.match(place, *tensor);
        check_device(place, parameter, *tensor);
        const bool written = parameter.mut || place.parameter >= signature_.inputs.size();
        extent = {tensor, place, written, 0, 0};
        measure(signature_, extent);
        if (tensor->data == nullptr && pointing_ == Pointing::required && has_elements(*tensor)) {
            fail(signature_, place, "has elements but no data (DLTensor.data is null)");
        }
        bound_.writes_inputs |= parameter.mut;
    }

    void check_device(ArgumentPlace place, const Parameter &parameter, const DLTensor &tensor) {
        if (parameter.host) {
            if (!is_host_memory(tensor.device)) {
                fail(signature_, place,
                     fmt::format("is on {}, expected host memory (cpu)", device_name(tensor.device)));
            }
            return;
        }
        if (!has_device_) {
            has_device_ = true;
            device_place_ = place;
            bound_.device = tensor.device;
            if (device_type(tensor.device) <= 0) {
                fail(signature_, place,
                     fmt::format("has device type {}; set DLTensor.device", device_type(tensor.device)));
            }
        } else if (!same_device(tensor.device, bound_.device)) {
            fail(signature_, place,
                 fmt::format("is on {}, expected {} as {}", device_name(tensor.device), device_name(bound_.device),
                             describe(signature_, device_place_)));
        }
    }

    void set_device() {
        if (has_device_) {
            return;
        }
        if (device_type(args_.device) <= 0) {
            fail(signature_, "no tensor of this call determines the device; set opdock_args.device");
        }
        bound_.device = args_.device;
    }

    void bind_attribute_values() {
        bound_.used_attributes = bind_attributes(signature_, args_, bound_.attributes);
        for (size_t i = 0; i < signature_.attributes.size(); ++i) {
            solver_.match_attribute(i, bound_.attributes[i]);
        }
    }

    // An output may be identical to its `~` input. Then the input's extent stands for both.
    void check_aliases() {
        const size_t n_inputs = signature_.inputs.size();
        for (size_t i = 0; i < signature_.outputs.size(); ++i) {
            const Parameter &output = signature_.outputs[i];
            if (output.alias < 0) {
                continue;
            }
            const uint32_t input = bound_.first[static_cast<size_t>(output.alias)];
            const uint32_t input_end = bound_.first[static_cast<size_t>(output.alias) + 1];
            const uint32_t first = bound_.first[n_inputs + i];
            const uint32_t end = bound_.first[n_inputs + i + 1];
            for (uint32_t element = 0; first + element < end && input + element < input_end; ++element) {
                check_alias(bound_.extents[first + element], bound_.extents[input + element]);
            }
        }
    }

    void check_alias(const Extent &output, Extent &input) {
        if (output.empty() || input.empty()) {
            return;
        }
        if (identical(output, input)) {
            bound_.writes_inputs = true;
            input.end = input.begin;
        } else if (overlap(output, input)) {
            fail(signature_, output.place,
                 fmt::format("overlaps {} without being the same view: data, shape and strides must be equal",
                             describe(signature_, input.place)));
        }
    }

    const Signature &signature_;
    const opdock_args &args_;
    const Pointing pointing_;
    Bound &bound_;
    Solver solver_;
    Layout layout_;
    bool has_device_ = false;
    ArgumentPlace device_place_{};
};

} // namespace

void bind(const Signature &signature, const opdock_args &args, Bound &reuse, Pointing pointing) {
    Binder(signature, args, pointing, reuse).run();
}

Bound bind(const Signature &signature, const opdock_args &args, Pointing pointing) {
    Bound bound;
    bind(signature, args, bound, pointing);
    return bound;
}

bool fits_form(const Signature &shorter, const Signature & /*full*/, const Bound &bound) {
    return bound.used_inputs <= shorter.inputs.size() && bound.used_outputs <= shorter.outputs.size() &&
           bound.used_attributes <= shorter.attributes.size();
}

} // namespace opdock::core
