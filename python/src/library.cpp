#include "library.hpp"

#include <cstring>
#include <string>
#include <unordered_map>

#include "form.hpp"
#include "gil.hpp"
#include "memory.hpp"

namespace opdock::python {
namespace {

std::string name_of(nb::handle type) {
    return nb::cast<std::string>(type.attr("__module__")) + "." + nb::cast<std::string>(type.attr("__qualname__"));
}

const ExchangeApi *exchange_of(nb::handle type) {
    const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
    if (!PyCapsule_IsValid(capsule.ptr(), "dlpack_exchange_api")) {
        return nullptr;
    }
    const auto *api = static_cast<ExchangeApi *>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
    while (api != nullptr && api->version.major != 1) { // newest first
        api = api->previous;
    }
    return api;
}

const char *numpy_name(DLDataType dtype) {
    const auto sized = [&](const char *of8, const char *of16, const char *of32, const char *of64) {
        return dtype.bits == 8 ? of8 : dtype.bits == 16 ? of16 : dtype.bits == 32 ? of32 : of64;
    };
    switch (dtype.lanes != 1 ? 255 : dtype.code) {
    case kDLInt:
        return sized("i1", "i2", "i4", "i8");
    case kDLUInt:
        return sized("u1", "u2", "u4", "u8");
    case kDLFloat:
        return sized(nullptr, "f2", "f4", "f8");
    case OPDOCK_DL_BOOL:
        return "?";
    default:
        return nullptr;
    }
}

// The tensor in a capsule from __dlpack__; the view keeps the capsule.
View view_of_capsule(nb::object capsule) {
    View view;
    if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
        const auto *managed = static_cast<ManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
        if (managed->version.major != 1) {
            throw nb::buffer_error("the tensor has a DLPack version that opdock does not support");
        }
        view.tensor = managed->tensor;
        view.read_only = (managed->flags & pack_read_only) != 0;
    } else {
        const auto *managed = static_cast<DLManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
        if (managed == nullptr) {
            throw nb::python_error();
        }
        view.tensor = managed->dl_tensor;
    }
    view.keeps = std::move(capsule);
    return view;
}

void set_python_error(void * /*error*/, const char *kind, const char *message) {
    PyErr_SetString(std::strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, message);
}

void expect_done(int result) {
    if (result != 0) {
        throw nb::python_error();
    }
}

} // namespace

Library::Library(nb::handle type) : exchange_(exchange_of(type)) {
    const std::string module = nb::cast<std::string>(type.attr("__module__"));
    immutable_ = module.starts_with("jax"); // and its buffers are shared
    if (exchange_ != nullptr) {
        way_ = Way::exchange;
        if (nb::hasattr(type, "requires_grad")) {
            gradients_are_recorded_ = nb::module_::import_("torch").attr("is_grad_enabled");
            increment_version_ = nb::module_::import_("torch.autograd.graph").attr("increment_version");
        }
    } else if (type.is(nb::type<Memory>())) {
        way_ = Way::memory;
    } else if (name_of(type) == "numpy.ndarray") {
        way_ = Way::numpy;
    } else if (module == "cupy" || module.starts_with("cupy.")) {
        way_ = Way::cupy;
    } else if (!nb::hasattr(type, "__dlpack__") || module.starts_with("numpy.ma")) {
        throw nb::type_error(
            ("expected a tensor (torch, numpy, CuPy, JAX or another type with __dlpack__), found an object of type " +
             name_of(type))
                .c_str());
    }
}

const Library &Library::of(nb::handle object) {
    // Keeps a reference to each type: otherwise another type could get the address of a freed one.
    static auto *known = new std::unordered_map<PyObject *, std::unique_ptr<const Library>>();
    PyObject *type = object.type().ptr();
    static PyObject *last_type = nullptr;
    static const Library *last = nullptr;
    if (type == last_type) {
        return *last;
    }
    auto found = known->find(type);
    if (found == known->end()) {
        std::unique_ptr<const Library> library(new Library(type));
        Py_INCREF(type);
        found = known->emplace(type, std::move(library)).first;
    }
    last_type = type;
    last = found->second.get();
    return *last;
}

// As the tensor's own __dlpack__ does: the result would silently have no gradient.
void Library::refuse_gradient(nb::handle object) const {
    static const nb::object &requires_grad = *new nb::object(interned("requires_grad"));
    if (gradients_are_recorded_.is_valid() && object.attr(requires_grad).is(Py_True) &&
        gradients_are_recorded_().is(Py_True)) {
        throw nb::type_error(
            "it requires a gradient, but ops of opdock record none: use .detach(), or call under torch.no_grad()");
    }
}

View Library::view(nb::handle object) const {
    View view;
    if (way_ == Way::memory) { // an output that was just made
        view.tensor = nb::cast<const Memory &>(object).tensor();
        return view;
    }
    if (way_ == Way::exchange && exchange_->borrow != nullptr) {
        refuse_gradient(object);
        expect_done(exchange_->borrow(object.ptr(), &view.tensor));
        view.keeps = nb::borrow(object); // another thread may drop its caller's reference
        return view;
    }
    nb::kwargs options;
    const nb::tuple device = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
    if (nb::cast<int>(device[0]) != kDLCPU) {
        // Kernels run on CuPy's current stream; for work of another library, the default stream waits.
        const bool is_rocm = nb::cast<int>(device[0]) == kDLROCM;
        options["stream"] = way_ == Way::cupy ? -1 : is_rocm ? 0 : 1;
    }
    nb::kwargs with_version(options);
    with_version["max_version"] = nb::make_tuple(1, 0);
    try {
        view = view_of_capsule(object.attr("__dlpack__")(**with_version));
        view.read_only |= immutable_;
        return view;
    } catch (nb::python_error &error) {
        if (!error.matches(PyExc_TypeError)) { // libraries older than max_version
            throw;
        }
    }
    view = view_of_capsule(object.attr("__dlpack__")(**options));
    view.read_only |= immutable_;
    return view;
}

void *Library::stream(DLDevice device) const {
    if (device.device_type == kDLCPU) {
        return nullptr;
    }
    void *stream = nullptr;
    if (way_ == Way::exchange) {
        expect_done(exchange_->current_stream(device.device_type, device.device_id, &stream));
    } else if (way_ == Way::cupy) {
        const nb::object current = nb::module_::import_("cupy").attr("cuda").attr("get_current_stream")();
        stream = reinterpret_cast<void *>(nb::cast<uintptr_t>(current.attr("ptr")));
    }
    return stream;
}

nb::object Library::make(const std::shared_ptr<Host> &host, const TensorSpec &spec, DLDevice device) const {
    if (way_ == Way::exchange) {
        DLTensor prototype{};
        prototype.device = device;
        prototype.dtype = spec.dtype;
        prototype.ndim = static_cast<int32_t>(spec.shape.size());
        prototype.shape = const_cast<int64_t *>(spec.shape.data()); // only read
        ManagedTensor *managed = nullptr;
        expect_done(exchange_->allocate(&prototype, &managed, nullptr, set_python_error));
        void *object = nullptr;
        if (exchange_->to_object(managed, &object) != 0) {
            managed->deleter(managed);
            throw nb::python_error();
        }
        return nb::steal(static_cast<PyObject *>(object));
    }
    if ((way_ == Way::numpy && device.device_type == kDLCPU) || way_ == Way::cupy) {
        const char *name = numpy_name(spec.dtype);
        if (name == nullptr) {
            throw nb::type_error(("output '" + spec.name +
                                  "' has a dtype that numpy lacks; pass tensors of another library, such as torch")
                                     .c_str());
        }
        nb::list shape;
        for (const int64_t size : spec.shape) {
            shape.append(size);
        }
        return nb::module_::import_(way_ == Way::numpy ? "numpy" : "cupy").attr("empty")(nb::tuple(shape), name);
    }
    return nb::cast(Memory(host, spec.dtype, spec.shape, device));
}

void Library::note_written(nb::handle object) const {
    if (increment_version_.is_valid() && gradients_are_recorded_().is(Py_True)) {
        increment_version_(object);
    }
}

void Library::wait_for(const std::shared_ptr<Host> &host, DLDevice device) const {
    if (way_ == Way::dlpack && device.device_type != kDLCPU) {
        without_gil([&] { detail::check(opdock_device_synchronize(host->c(), device, nullptr)); });
    }
}

nb::object Library::imported(const nb::object &made, nb::handle example) const {
    return way_ != Way::exchange && nb::isinstance<Memory>(made)
               ? example.attr("__array_namespace__")().attr("from_dlpack")(made)
               : made;
}

} // namespace opdock::python
