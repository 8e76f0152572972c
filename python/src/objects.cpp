#include "objects.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <nanobind/stl/string.h>

#include "arguments.hpp"

namespace opdock::python {
namespace {

std::vector<int64_t> strides_of(const DLTensor &tensor) {
    if (tensor.strides != nullptr) {
        return {tensor.strides, tensor.strides + tensor.ndim};
    }
    std::vector<int64_t> strides(static_cast<size_t>(tensor.ndim), 1);
    for (size_t d = strides.size(); d-- > 1;) {
        strides[d - 1] = strides[d] * tensor.shape[d];
    }
    return strides;
}

void *data_of(const DLTensor *tensor) {
    return tensor == nullptr ? nullptr : static_cast<std::byte *>(tensor->data) + tensor->byte_offset;
}

// What the host does takes locks and runs code of plugins: never with the GIL.
template<class Work>
auto without_gil(Work work) {
    const nb::gil_scoped_release released;
    return work();
}

std::string absolute_path(const std::string &path) {
    return nb::cast<std::string>(nb::module_::import_("os.path").attr("abspath")(path));
}

// The last one who lets go of a host closes it, with the GIL or without.
void close(Host *host) {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
        without_gil([&] { delete host; });
    } else {
        delete host;
    }
}

uint64_t alignment_mask_of(const DLTensor &tensor, uint64_t alignment) {
    const uint64_t size_of_element = (uint64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
    return (alignment != 0 ? alignment : size_of_element) - 1;
}

constexpr size_t most_simple = 12; // tensors

const nb::object &key_of_out() {
    static const auto &key = *new nb::object(interned("out"));
    return key;
}

bool same(DLDataType a, DLDataType b) {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

} // namespace

nb::object from_json(const std::string &text) {
    return nb::module_::import_("json").attr("loads")(text);
}

std::string setting_text(nb::handle value, const char *separator) {
    if (nb::isinstance<nb::bool_>(value)) {
        return nb::cast<bool>(value) ? "1" : "0";
    }
    std::string text;
    if (nb::isinstance<nb::dict>(value)) {
        for (const auto &[key, one] : nb::borrow<nb::dict>(value)) {
            text += (text.empty() ? "" : ";") + setting_text(key) + "=" + setting_text(one, "|");
        }
    } else if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
        for (const nb::handle one : nb::borrow<nb::iterable>(value)) {
            text += (text.empty() ? "" : separator) + setting_text(one);
        }
    } else {
        text = nb::cast<std::string>(nb::str(value));
    }
    return text;
}

nb::object OpObject::call(const nb::args &positional, const nb::kwargs &named) const {
    const CallArguments arguments(host_, op_, *form_, positional, named);
    const Args args = arguments.args();
    detail::check(without_gil([&] { return op_.try_call(args); }));
    return arguments.results();
}

nb::object OpObject::explain(const nb::args &positional, const nb::kwargs &named) const {
    const CallArguments arguments(host_, op_, *form_, positional, named);
    const Args args = arguments.args();
    return from_json(without_gil([&] { return op_.explain(args); }));
}

nb::object OpObject::tune(double budget, const nb::args &positional, const nb::kwargs &named) const {
    const CallArguments arguments(host_, op_, *form_, positional, named);
    const Args args = arguments.args();
    opdock_tune_options options = {};
    options.struct_size = OPDOCK_STRUCT_SIZE(opdock_tune_options, user_data);
    options.budget = budget;
    // Ctrl-C ends it.
    options.progress = [](void *, uint64_t, uint64_t, double) -> int32_t {
        const nb::gil_scoped_acquire acquired;
        return PyErr_CheckSignals() == 0 ? 1 : 0;
    };
    const std::string text = without_gil([&] { return op_.tune(args, &options); });
    if (PyErr_Occurred() != nullptr) {
        throw nb::python_error();
    }
    return from_json(text);
}

PreparedObject::PreparedObject(SharedHost host, Op op, std::shared_ptr<const Form> form, const nb::args &positional,
                               const nb::kwargs &named)
    : host_(std::move(host)), op_(op), form_(std::move(form)) {
    const CallArguments arguments(host_, op_, *form_, positional, named);
    const Args args = arguments.args();
    prepared_ = without_gil([&] { return std::make_shared<const Prepared>(op_.prepare(args)); });
    for (const std::vector<const DLTensor *> *tensors : {&arguments.inputs(), &arguments.outputs()}) {
        for (const DLTensor *tensor : *tensors) {
            if (tensor == nullptr) {
                expected_.push_back({});
                continue;
            }
            expected_.push_back({true,
                                 tensor->dtype,
                                 tensor->device,
                                 {tensor->shape, tensor->shape + tensor->ndim},
                                 strides_of(*tensor),
                                 alignment_mask_of(*tensor, prepared_->alignment())});
        }
    }
    find_only_output();
}

// Where one tensor comes back, and all are few.
void PreparedObject::find_only_output() {
    size_t wanted = 0;
    bool has_lists = false;
    for (const std::vector<Parameter> *parameters : {&form_->inputs, &form_->outputs}) {
        for (const Parameter &one : *parameters) {
            has_lists |= one.list;
            has_lists |= one.mut; // those are looked at whether they may be written
        }
    }
    for (size_t i = form_->inputs.size(); i < expected_.size() && !has_lists; ++i) {
        wanted += expected_[i].is_given ? 1 : 0;
        only_output_at_ = expected_[i].is_given ? i : only_output_at_;
    }
    if (wanted == 1 && expected_.size() <= most_simple) {
        const Expected &one = expected_[only_output_at_];
        only_output_ = TensorSpec{"", one.dtype, one.shape, false, 0};
    }
}

void PreparedObject::expect_same(size_t position, const DLTensor *tensor) const {
    const Expected &expected = expected_[position];
    const auto refuse = [&](const char *what) {
        throw nb::value_error((form_->op + ", prepared: tensor " + std::to_string(position + 1) + " " + what +
                               "; prepare the op anew for it")
                                  .c_str());
    };
    if (expected.is_given != (tensor != nullptr)) {
        refuse(expected.is_given ? "is missing, and was there" : "is given, and was absent");
    }
    if (tensor == nullptr) {
        return;
    }
    if (!same(expected.dtype, tensor->dtype)) {
        refuse("has another dtype");
    }
    if (expected.device.device_type != tensor->device.device_type ||
        expected.device.device_id != tensor->device.device_id) {
        refuse("is on another device");
    }
    const auto ndim = static_cast<size_t>(tensor->ndim);
    if (expected.shape.size() != ndim || !std::equal(expected.shape.begin(), expected.shape.end(), tensor->shape)) {
        refuse("has another shape");
    }
    if (tensor->strides != nullptr ? !std::equal(expected.strides.begin(), expected.strides.end(), tensor->strides)
                                   : expected.strides != strides_of(*tensor)) {
        refuse("has other strides");
    }
    if ((reinterpret_cast<uintptr_t>(data_of(tensor)) & expected.alignment_mask) != 0) {
        refuse("is less aligned than its implementation needs");
    }
}

bool PreparedObject::is_simple(const nb::args &positional, const nb::kwargs &named) const {
    if (!only_output_ || positional.size() != form_->inputs.size() || named.size() > 1) {
        return false;
    }
    if (named.size() == 0) {
        return true;
    }
    const nb::handle out = PyDict_GetItemWithError(named.ptr(), key_of_out().ptr());
    return out.is_valid() && !out.is_none() && !nb::isinstance<nb::tuple>(out) && !nb::isinstance<nb::dict>(out);
}

nb::object PreparedObject::run_simple(const nb::args &positional, const nb::kwargs &named) const {
    std::array<View, most_simple> views;
    std::array<void *, most_simple> data{};
    const Library *library = nullptr;
    const auto place = [&](size_t at, nb::handle object) {
        const DLTensor *tensor = nullptr;
        if (!object.is_none()) {
            const Library &own = Library::of(object);
            views[at] = own.view(object);
            tensor = &views[at].tensor;
            library = library == nullptr || tensor->device.device_type != kDLCPU ? &own : library;
        }
        expect_same(at, tensor);
        data[at] = data_of(tensor);
    };
    const size_t n_inputs = form_->inputs.size();
    nb::handle example;
    for (size_t i = 0; i < n_inputs; ++i) {
        place(i, positional[i]);
        example = example.is_valid() || positional[i].is_none() ? example : nb::handle(positional[i]);
    }
    if (library == nullptr) {
        library = &Library::of(nb::module_::import_("numpy").attr("empty")(0));
    }
    const DLDevice device = expected_[only_output_at_].device;
    const bool is_given = named.size() != 0;
    nb::object out = is_given ? nb::borrow(PyDict_GetItemWithError(named.ptr(), key_of_out().ptr()))
                              : library->make(host_, *only_output_, device);
    place(only_output_at_, out);
    if (views[only_output_at_].read_only) {
        throw nb::value_error((form_->op + ", prepared: the output that was given is read-only").c_str());
    }
    void *stream = library->stream(device);
    detail::check(
        without_gil([&] { return prepared_->run(std::span<void *const>(data.data(), expected_.size()), stream); }));
    return is_given ? out : library->imported(out, example);
}

nb::object PreparedObject::run(const nb::args &positional, const nb::kwargs &named) const {
    if (is_simple(positional, named)) {
        return run_simple(positional, named);
    }
    const CallArguments arguments(host_, op_, *form_, positional, named);
    if (arguments.has_attributes()) {
        throw nb::type_error((form_->op + ", prepared: attributes were fixed when it was prepared").c_str());
    }
    const size_t count = arguments.inputs().size() + arguments.outputs().size();
    if (count != expected_.size()) {
        throw nb::value_error((form_->op + ", prepared: " + std::to_string(expected_.size()) +
                               " tensors were given, now " + std::to_string(count))
                                  .c_str());
    }
    std::vector<void *> data;
    data.reserve(count);
    for (const std::vector<const DLTensor *> *tensors : {&arguments.inputs(), &arguments.outputs()}) {
        for (const DLTensor *tensor : *tensors) {
            expect_same(data.size(), tensor);
            data.push_back(data_of(tensor));
        }
    }
    detail::check(without_gil([&] { return prepared_->run(data, arguments.stream()); }));
    return arguments.results();
}

PolicyObject::PolicyObject(SharedHost host, const nb::kwargs &settings)
    : host_(std::move(host)), policy_([&] {
          std::vector<std::pair<std::string, std::string>> texts;
          std::vector<opdock_setting> c;
          for (const auto &[name, value] : settings) {
              texts.emplace_back(nb::cast<std::string>(name), setting_text(value));
          }
          for (const auto &[name, value] : texts) {
              c.push_back({name.c_str(), value.c_str()});
          }
          opdock_policy *policy = nullptr;
          without_gil([&] {
              detail::check(opdock_policy_create(host_->c(), c.data(), static_cast<uint32_t>(c.size()), &policy));
          });
          return Policy(policy);
      }()) {}

void PolicyObject::enter() const {
    without_gil([&] { detail::check(opdock_policy_push(host_->c(), policy_.c())); });
}

void PolicyObject::exit() const {
    without_gil([&] { detail::check(opdock_policy_pop(host_->c())); });
}

HostObject::HostObject(const std::vector<std::string> &modules, const std::string &prefix, bool rescan) {
    Options options;
    for (const std::string &module : modules) {
        options.modules.push_back(absolute_path(module));
    }
    options.prefix = prefix;
    options.rescan = rescan;
    host_ = without_gil([&] { return SharedHost(new Host(std::move(options)), close); });
}

OpObject HostObject::op(const std::string &name) const {
    return {host_, without_gil([&] { return host_->op(name); })};
}

void HostObject::set_policy(const PolicyObject *policy) const {
    without_gil([&] {
        if (policy != nullptr) {
            host_->set_policy(policy->policy());
        } else {
            host_->clear_policy();
        }
    });
}

void HostObject::reload_policy() const {
    without_gil([&] { host_->reload_policy(); });
}

void HostObject::load(const std::string &path) const {
    without_gil([&, absolute = absolute_path(path)] { host_->load(absolute); });
}

void HostObject::reset_health() const {
    without_gil([&] { host_->reset_health(); });
}

uint64_t HostObject::served(const std::string &op, const std::string &impl) const {
    return without_gil([&] { return host_->served(op, impl); });
}

nb::object HostObject::describe() const {
    return from_json(without_gil([&] { return host_->describe(); }));
}

nb::object HostObject::explain(const std::string &op, const std::string &device, const std::string &dtypes) const {
    return from_json(without_gil([&] { return host_->explain(op, device, dtypes); }));
}

nb::object HostObject::devices() const {
    return from_json(without_gil([&] { return host_->devices(); }));
}

nb::object HostObject::freeze(nb::handle expected) const {
    std::string text;
    if (!expected.is_none()) {
        text = nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(expected));
    }
    return from_json(without_gil([&] { return host_->freeze(text.empty() ? nullptr : text.c_str()); }));
}

} // namespace opdock::python
