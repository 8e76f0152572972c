#include "objects.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
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

std::string absolute_path(nb::handle path) {
    const auto text = nb::cast<std::string>(nb::module_::import_("os").attr("fspath")(path));
    if (text.empty()) {
        throw nb::value_error("the path of a plugin is empty");
    }
    return nb::cast<std::string>(nb::module_::import_("os.path").attr("abspath")(text));
}

uint64_t alignment_mask_of(const DLTensor &tensor, uint64_t alignment) {
    const uint64_t size_of_element = (uint64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
    return (alignment != 0 ? alignment : size_of_element) - 1;
}

// Checks names that become C strings.
const std::string &without_nul(const std::string &text) {
    if (text.find('\0') != std::string::npos) {
        throw nb::value_error("a name has a NUL character in it");
    }
    return text;
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
    arguments.finish();
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
    // Ctrl-C aborts it.
    options.progress = [](void *, uint64_t, uint64_t, double) -> int32_t {
        const PyGILState_STATE state = PyGILState_Ensure();
        const int result = PyErr_CheckSignals();
        PyGILState_Release(state);
        return result == 0 ? 1 : 0;
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
    list_sizes_ = arguments.list_sizes();
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

// Finds the only output, for calls with one output and few tensors.
void PreparedObject::find_only_output() {
    size_t wanted = 0;
    bool has_lists = false;
    for (const std::vector<Parameter> *parameters : {&form_->inputs, &form_->outputs}) {
        for (const Parameter &one : *parameters) {
            has_lists |= one.list;
            has_lists |= one.mut; // those may be written, which is always checked
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
                               "; prepare the op again for it")
                                  .c_str());
    };
    if (expected.is_given != (tensor != nullptr)) {
        refuse(expected.is_given ? "is missing, but was given before" : "is given, but was absent before");
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
    const bool is_empty = std::find(expected.shape.begin(), expected.shape.end(), 0) != expected.shape.end();
    if (!is_empty && tensor->data == nullptr) {
        refuse("has elements but no data");
    }
    int64_t packed = 1;
    for (size_t d = ndim; d-- > 0 && !is_empty;) { // strides of dims of size 1 do not matter
        const int64_t stride = tensor->strides != nullptr ? tensor->strides[d] : packed;
        if (expected.shape[d] != 1 && expected.strides[d] != stride) {
            refuse("has other strides");
        }
        packed *= expected.shape[d];
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

const Library &PreparedObject::library_of(nb::handle object, size_t position) const {
    try {
        return Library::of(object);
    } catch (const nb::builtin_exception &error) {
        throw nb::type_error(
            (form_->op + ", prepared: tensor " + std::to_string(position + 1) + ": " + error.what()).c_str());
    }
}

nb::object PreparedObject::run_simple(const nb::args &positional, const nb::kwargs &named) const {
    std::array<View, most_simple> views;
    std::array<void *, most_simple> data{};
    const Library *library = nullptr;
    nb::handle example; // a tensor of `library`
    const auto place = [&](size_t at, nb::handle object) {
        const DLTensor *tensor = nullptr;
        if (!object.is_none()) {
            const Library &own = library_of(object, at);
            views[at] = own.view(object);
            tensor = &views[at].tensor;
            if (library == nullptr || tensor->device.device_type != kDLCPU) {
                library = &own;
                example = object;
            }
        }
        expect_same(at, tensor);
        data[at] = data_of(tensor);
    };
    const size_t n_inputs = form_->inputs.size();
    for (size_t i = 0; i < n_inputs; ++i) {
        place(i, positional[i]);
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
    if (is_given) {
        library->note_written(out);
        library->wait_for(host_, device);
    }
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
    if (count != expected_.size() || arguments.list_sizes() != list_sizes_) {
        throw nb::value_error(
            (form_->op + ", prepared: lists of tensors have other sizes; prepare the op again for them").c_str());
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
    arguments.finish();
    return arguments.results();
}

PolicyObject::PolicyObject(SharedHost host, const nb::kwargs &settings)
    : host_(std::move(host)), policy_([&] {
          std::vector<std::pair<std::string, std::string>> texts;
          std::vector<opdock_setting> c;
          for (const auto &[name, value] : settings) {
              texts.emplace_back(without_nul(nb::cast<std::string>(name)), without_nul(setting_text(value, ",")));
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

namespace {

thread_local std::vector<const PolicyObject *> blocks; // open blocks of this thread

} // namespace

void PolicyObject::enter() const {
    without_gil([&] { detail::check(opdock_policy_push(host_->c(), policy_.c())); });
    blocks.push_back(this);
}

void PolicyObject::exit() const {
    if (blocks.empty() || blocks.back() != this) {
        throw std::runtime_error("a policy's block ends while a later block on this thread is open; blocks of "
                                 "coroutines that run in turn cannot be told apart");
    }
    blocks.pop_back();
    without_gil([&] { detail::check(opdock_policy_pop(host_->c())); });
}

HostObject::HostObject(Options options)
    : host_(without_gil([&] { return std::make_shared<Host>(std::move(options)); })) {}

HostObject::HostObject(const std::vector<nb::object> &modules, const std::string &prefix, bool rescan)
    : HostObject([&] {
          Options options;
          for (const nb::object &module : modules) {
              options.modules.push_back(absolute_path(module));
          }
          options.prefix = without_nul(prefix);
          options.rescan = rescan;
          return options;
      }()) {}

HostObject HostObject::for_torch() {
    Options options;
    use_torchs_memory(options);
    return HostObject(std::move(options));
}

OpObject HostObject::op(const std::string &name) const {
    return {host_, without_gil([&] { return host_->op(without_nul(name)); })};
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

void HostObject::load(nb::handle path) const {
    without_gil([&, absolute = absolute_path(path)] { host_->load(absolute); });
}

void HostObject::reset_health() const {
    without_gil([&] { host_->reset_health(); });
}

uint64_t HostObject::served(const std::string &op, const std::string &impl) const {
    return without_gil([&] { return host_->served(without_nul(op), without_nul(impl)); });
}

nb::object HostObject::counters() const {
    return from_json(without_gil([&] { return host_->counters(); }));
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
