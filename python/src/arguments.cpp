#include "arguments.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "dtypes.hpp"
#include "gil.hpp"

namespace opdock::python {
namespace {

// "bf16", torch.bfloat16, numpy.float32, numpy.dtype("float32")
const Dtype *dtype_of(nb::handle value) {
    std::string text;
    if (nb::isinstance<nb::str>(value)) {
        text = nb::cast<std::string>(value);
    } else if (PyType_Check(value.ptr())) {
        text = nb::cast<std::string>(value.attr("__name__"));
    } else {
        text = nb::cast<std::string>(nb::str(value)); // for example "torch.bfloat16", "float32"
    }
    const std::string_view name = std::string_view(text).substr(text.rfind('.') + 1); // npos + 1 is 0
    return find_dtype([&](const Dtype &one) { return one.name == name || one.elsewhere == name; });
}

std::string name_of_type(nb::handle object) {
    return nb::cast<std::string>(object.type().attr("__name__"));
}

std::string shown(nb::handle value) {
    return nb::cast<std::string>(nb::repr(value));
}

bool is_sequence(nb::handle value) {
    return nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value);
}

} // namespace

CallArguments::CallArguments(const std::shared_ptr<Host> &host, const Op &op, const Form &form,
                             const nb::args &positional, const nb::kwargs &named)
    : host_(host), op_(op), form_(form) {
    if (positional.size() > form.inputs.size()) {
        refuse("it takes " + std::to_string(form.inputs.size()) + " inputs by position, but " +
               std::to_string(positional.size()) + " were given; pass attributes by name");
    }
    size_t used = 0; // number of entries of `named` that were used
    const size_t n_named = named.size();
    const auto take = [&](const nb::object &key) {
        nb::handle value = n_named == used ? nullptr : PyDict_GetItemWithError(named.ptr(), key.ptr());
        used += value.is_valid() ? 1 : 0;
        return value.is_valid() && value.is_none() ? nb::handle() : value;
    };
    static const auto &keys =
        *new std::array{interned("device"), interned("stream"), interned("out"), interned("outputs")};
    for (size_t i = 0; i < form.inputs.size(); ++i) {
        const Parameter &input = form.inputs[i];
        nb::handle value = take(input.key);
        if (i < positional.size()) {
            if (value.is_valid()) {
                refuse("input '" + input.name + "' was given twice, by position and by name");
            }
            value = positional[i].is_none() ? nb::handle() : nb::handle(positional[i]);
        }
        add(input, value, false);
    }
    for (const AttributeForm &attribute : form.attributes) {
        if (const nb::handle value = take(attribute.key); value.is_valid()) {
            add_attribute(attribute, value);
        }
    }
    find_device(take(keys[0]));
    const nb::handle stream = take(keys[1]);
    const nb::handle out = take(keys[2]);
    const nb::handle wanted = take(keys[3]);
    if (used != n_named) {
        for (const auto &[name, value] : named) {
            const auto text = nb::cast<std::string>(name);
            const auto is_it = [&](const auto &one) { return one.name == text; };
            if (std::none_of(form.inputs.begin(), form.inputs.end(), is_it) &&
                std::none_of(form.attributes.begin(), form.attributes.end(), is_it) && text != "out" &&
                text != "outputs" && text != "stream" && text != "device") {
                refuse("it has no input and no attribute '" + text + "'");
            }
        }
    }
    read_outputs(out, wanted);
    if (stream.is_valid()) {
        uintptr_t handle = 0;
        if (!nb::try_cast(stream, handle)) {
            refuse("`stream` must be a handle of the device's library, an int, but " + shown(stream) + " was given");
        }
        stream_ = reinterpret_cast<void *>(handle);
    } else if (library_ != nullptr) {
        stream_ = library_->stream(device_);
    }
}

void CallArguments::refuse(const std::string &why) const {
    throw nb::type_error((form_.op + ": " + why + "\n  " + form_.signature).c_str());
}

const DLTensor *CallArguments::view(const std::string &name, nb::handle object, bool is_written) {
    const Library *library = nullptr;
    View &made = n_views_ < first_views_.size() ? first_views_[n_views_++] : more_views_.emplace_back();
    try {
        library = &Library::of(object);
        made = library->view(object);
    } catch (const nb::builtin_exception &error) {
        refuse("'" + name + "': " + error.what());
    } catch (nb::python_error &error) {
        if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) {
            throw; // such as KeyboardInterrupt
        }
        const std::string why = nb::cast<std::string>(nb::str(error.value()));
        nb::raise_from(error, PyExc_TypeError, "%s: '%s': the %s given for it does not provide its data: %s\n  %s",
                       form_.op.c_str(), name.c_str(), name_of_type(object).c_str(), why.c_str(),
                       form_.signature.c_str());
    } catch (const nb::cast_error &) {
        refuse("'" + name + "': the device that " + name_of_type(object) + " reports is not a DLPack device");
    }
    if (is_written && made.read_only) {
        refuse("'" + name + "' is written, but the " + name_of_type(object) + " given for it is read-only");
    }
    if (!has_tensors_) {
        has_tensors_ = true;
        library_ = library;
        example_ = nb::borrow(object);
        device_ = made.tensor.device;
    } else if (device_.device_type == kDLCPU && made.tensor.device.device_type != kDLCPU) {
        device_ = made.tensor.device; // the host keeps the first ones
        library_ = library;
        example_ = nb::borrow(object);
    }
    if (is_written) {
        written_.push_back(object);
    }
    return &made.tensor;
}

void CallArguments::add(const Parameter &parameter, nb::handle value, bool is_output) {
    std::vector<const DLTensor *> &tensors = is_output ? outputs_ : inputs_;
    const bool is_written = is_output || parameter.mut;
    if (parameter.list) {
        if (value.is_valid() && !is_sequence(value)) {
            refuse("'" + parameter.name + "' is a list of tensors, but a " + name_of_type(value) + " was given");
        }
        uint32_t size = 0;
        if (value.is_valid()) {
            for (const nb::handle one : nb::borrow<nb::iterable>(value)) {
                tensors.push_back(view(parameter.name, one, is_written));
                ++size;
            }
        }
        list_sizes_.push_back(size);
    } else if (!value.is_valid()) {
        if (!parameter.optional) {
            refuse(std::string(is_output ? "output" : "input") + " '" + parameter.name + "' is missing");
        }
        tensors.push_back(nullptr);
    } else {
        tensors.push_back(view(parameter.name, value, is_written));
    }
}

void CallArguments::add_attribute(const AttributeForm &attribute, nb::handle value) {
    const char *name = attribute.name.c_str();
    const std::string &type = attribute.type;
    try {
        if (type == "float") {
            attributes_.emplace_back(name, nb::cast<double>(value));
        } else if (type == "int") {
            attributes_.emplace_back(name, nb::cast<int64_t>(value));
        } else if (type == "bool") {
            // numpy has its own type for it.
            const bool is_numpys = name_of_type(value).starts_with("bool");
            attributes_.emplace_back(name, is_numpys ? PyObject_IsTrue(value.ptr()) == 1 : nb::cast<bool>(value));
        } else if (type == "string") {
            attributes_.emplace_back(name, strings_.emplace_back(nb::cast<std::string>(value)));
        } else if (type == "int[]") {
            attributes_.emplace_back(name, ints_.emplace_back(nb::cast<std::vector<int64_t>>(value)));
        } else if (type == "float[]") {
            attributes_.emplace_back(name, floats_.emplace_back(nb::cast<std::vector<double>>(value)));
        } else if (type == "string[]") {
            std::vector<opdock_text> &texts = texts_.emplace_back();
            for (std::string &text : nb::cast<std::vector<std::string>>(value)) {
                const std::string &kept = strings_.emplace_back(std::move(text));
                texts.push_back({kept.c_str(), kept.size()});
            }
            attributes_.emplace_back(name, std::span<const opdock_text>(texts));
        } else if (const Dtype *dtype = type == "dtype" ? dtype_of(value) : nullptr; dtype != nullptr) {
            attributes_.emplace_back(name, dtype->dtype);
        } else {
            throw nb::cast_error();
        }
    } catch (const nb::cast_error &) {
        refuse("attribute '" + attribute.name + "' is of type " + type + ", but " +
               nb::cast<std::string>(nb::repr(value)) + " was given");
    }
}

void CallArguments::find_device(nb::handle device) {
    if (device.is_valid()) {
        const auto text = nb::cast<std::string>(nb::str(device));
        const DLDevice given = without_gil([&] { return host_->device(text); });
        if (has_tensors_ && (given.device_type != device_.device_type || given.device_id != device_.device_id)) {
            refuse("`device` is for calls without tensors; the tensors of this call determine the device");
        }
        device_ = given;
    }
}

void CallArguments::expect_output(const std::string &name) const {
    if (std::none_of(form_.outputs.begin(), form_.outputs.end(),
                     [&](const Parameter &output) { return output.name == name; })) {
        refuse("it has no output '" + name + "'");
    }
}

void CallArguments::read_outputs(nb::handle out, nb::handle wanted) {
    std::vector<std::string> names;
    if (wanted.is_valid()) {
        if (nb::isinstance<nb::str>(wanted)) {
            names.push_back(nb::cast<std::string>(wanted));
        } else if (!nb::try_cast(wanted, names)) {
            refuse("`outputs` must contain names of outputs, but " + shown(wanted) + " was given");
        }
        for (const std::string &name : names) {
            expect_output(name);
        }
    }
    if (!out.is_valid()) {
        make_outputs(names);
        return;
    }
    if (!names.empty()) {
        refuse("`out` and `outputs` are two ways to say the same; give only one");
    }
    if (nb::isinstance<nb::dict>(out)) {
        const auto by_name = nb::borrow<nb::dict>(out);
        for (const nb::handle name : by_name.keys()) {
            expect_output(nb::cast<std::string>(nb::str(name)));
        }
        for (const Parameter &output : form_.outputs) {
            add_output(output, by_name.contains(output.key) ? nb::object(by_name[output.key]) : nb::object());
        }
        return;
    }
    const bool is_tuple = nb::isinstance<nb::tuple>(out);
    const size_t count = is_tuple ? nb::len(out) : 1;
    if (count > form_.outputs.size()) {
        refuse("`out` has " + std::to_string(count) + " outputs; the op has " + std::to_string(form_.outputs.size()));
    }
    for (size_t i = 0; i < form_.outputs.size(); ++i) {
        add_output(form_.outputs[i], i >= count ? nb::object() : is_tuple ? nb::object(out[i]) : nb::borrow(out));
    }
}

void CallArguments::make_outputs(const std::vector<std::string> &wanted) {
    if (form_.outputs.empty()) {
        return;
    }
    const size_t lists_of_inputs = list_sizes_.size();
    std::vector<TensorSpec> specs = op_.infer_outputs(args());
    if (library_ == nullptr) {
        example_ = nb::module_::import_("numpy").attr("empty")(0);
        library_ = &Library::of(example_);
    }
    list_sizes_.resize(lists_of_inputs);
    const size_t written_before = written_.size();
    for (size_t i = 0; i < form_.outputs.size(); ++i) {
        const Parameter &output = form_.outputs[i];
        const bool is_wanted = !output.optional || std::find(wanted.begin(), wanted.end(), output.name) != wanted.end();
        const DLDevice device = output.host ? cpu : device_;
        nb::list made;
        for (const TensorSpec &spec : specs) {
            if (is_wanted && spec.parameter == i) {
                made.append(make(spec, device));
            }
        }
        add_output(output, output.list ? nb::object(made) : made.size() == 0 ? nb::object() : nb::object(made[0]));
    }
    written_.resize(written_before); // nobody has seen those that were made here
}

nb::object CallArguments::make(const TensorSpec &spec, DLDevice device) const {
    try {
        return library_->make(host_, spec, device);
    } catch (const nb::builtin_exception &error) {
        refuse(error.what());
    }
}

void CallArguments::add_output(const Parameter &output, nb::object object) {
    if (object.is_valid() && object.is_none()) {
        object = nb::object();
    }
    add(output, object, true);
    results_.push_back(std::move(object));
}

Args CallArguments::args() const {
    static_assert(sizeof(TensorArg) == sizeof(const DLTensor *));
    const auto as_arguments = [](const std::vector<const DLTensor *> &tensors) {
        return TensorArgs(reinterpret_cast<const TensorArg *>(tensors.data()), tensors.size());
    };
    Args args(as_arguments(inputs_), as_arguments(outputs_), attributes_, stream_);
    if (!list_sizes_.empty()) {
        args.lists(list_sizes_);
    }
    if (!has_tensors_) {
        args.on(device_);
    }
    return args;
}

void CallArguments::finish() const {
    for (const nb::handle object : written_) {
        Library::of(object).note_written(object);
    }
    if (library_ != nullptr && !written_.empty()) {
        library_->wait_for(host_, device_);
    }
}

nb::object CallArguments::results() const {
    const auto imported = [&](const nb::object &result) -> nb::object {
        if (!nb::isinstance<nb::list>(result)) {
            return library_->imported(result, example_);
        }
        nb::list list;
        for (const nb::handle one : nb::borrow<nb::list>(result)) {
            list.append(library_->imported(nb::borrow(one), example_));
        }
        return list;
    };
    nb::object first;
    nb::list all;
    for (const nb::object &result : results_) {
        if (result.is_valid() && !first.is_valid()) {
            first = imported(result);
        } else if (result.is_valid()) {
            all.append(imported(result));
        }
    }
    if (all.size() != 0) {
        all.insert(0, first);
        return nb::tuple(all);
    }
    return first.is_valid() ? first : nb::none();
}

} // namespace opdock::python
