// The Python module opdock._native; python/opdock/__init__.py is what users import.
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "dtypes.hpp"
#include "memory.hpp"
#include "objects.hpp"
#include "opdock/standard_ops.h"

namespace nb = nanobind;
using namespace nb::literals;
using namespace opdock;
using namespace opdock::python;

namespace {

// Never destroyed: it may be raised until the interpreter ends.
PyObject *error_type = nullptr;

void raise_error(const Error &error) {
    const nb::object made = nb::borrow(error_type)(error.what());
    made.attr("status") = error.status();
    made.attr("name") = opdock_status_name(error.status());
    PyErr_SetObject(error_type, made.ptr());
}

// Called for a name that Python does not find: looks up an op and caches it as an attribute.
nb::object attribute_of_host(nb::object self, const std::string &name) {
    if (name.starts_with('_')) {
        throw nb::attribute_error(("Host has no attribute '" + name + "'").c_str());
    }
    try {
        nb::object op = nb::cast(nb::cast<const HostObject &>(self).op(name));
        self.attr(name.c_str()) = op;
        return op;
    } catch (const Error &error) {
        if (error.status() == OPDOCK_UNKNOWN_OP) {
            throw nb::attribute_error(error.what());
        }
        throw;
    }
}

#define OPDOCK_CALL_SIGNATURE(name, result)                                                                            \
    nb::sig("def " name "(self, *inputs: typing.Any, out: typing.Any = None, outputs: typing.Sequence[str] | str = "   \
            "(), stream: int | None = None, device: str | None = None, **named: typing.Any) -> " result)

void define_op(nb::module_ &module) {
    nb::class_<PreparedObject>(module, "Prepared",
                               "A call whose implementation, config and plan are fixed. It is called with tensors of "
                               "the dtypes, shapes, strides and alignment that it was prepared for.")
        .def("__call__", &PreparedObject::run, "inputs"_a, "named"_a, OPDOCK_CALL_SIGNATURE("__call__", "typing.Any"))
        .def_prop_ro("impl", &PreparedObject::impl, "The id of the implementation.")
        .def_prop_ro("stale", &PreparedObject::stale, "True if preparing again might choose differently.");

    nb::class_<OpObject>(module, "Op", "An op of a host.")
        .def("__call__", &OpObject::call, "inputs"_a, "named"_a, OPDOCK_CALL_SIGNATURE("__call__", "typing.Any"),
             "Computes the op. Inputs are given by position or name, attributes by name. Outputs are made in the "
             "library of the inputs, or given as `out`: a tensor, a tuple in the signature's order, or a dict by name. "
             "`outputs` names optional outputs that are wanted as well. Returns the outputs: one alone as it is, "
             "several as a tuple. `stream` is a handle of the device's library (default: the inputs' current stream); "
             "`device` is where an op without tensors runs.")
        .def("prepare", &OpObject::prepare, "inputs"_a, "named"_a, OPDOCK_CALL_SIGNATURE("prepare", "Prepared"),
             "Fixes implementation, config and plan for calls like this one.")
        .def("explain", &OpObject::explain, "inputs"_a, "named"_a,
             OPDOCK_CALL_SIGNATURE("explain", "dict[str, typing.Any]"),
             "The decision for this call, and the config of each implementation; see opdock_explain_call.")
        .def(
            "tune",
            [](const OpObject &op, const nb::args &inputs, double budget, const nb::kwargs &named) {
                return op.tune(budget, inputs, named);
            },
            "inputs"_a, "budget"_a = 10.0, "named"_a,
            nb::sig("def tune(self, *inputs: typing.Any, budget: float = 10.0, **named: typing.Any) -> "
                    "dict[str, typing.Any]"),
            "Finds the fastest config for calls like this one in `budget` seconds and keeps it; see opdock_tune.")
        .def("parsed_signature", &OpObject::parsed_signature,
             nb::sig("def parsed_signature(self) -> dict[str, typing.Any]"),
             "The signature's inputs, outputs and attributes; see opdock_signature_json.")
        .def("_keep_for_jax", &OpObject::keep_for_jax)
        .def("_implement_for_torch", &OpObject::implement_for_torch, "name"_a, "all_outputs"_a,
             "Registers a kernel of opdock::name, with all outputs or the required ones.")
        .def_prop_ro("name", [](const OpObject &op) { return op.form().op; })
        .def_prop_ro("signature", [](const OpObject &op) { return op.form().signature; })
        .def("__repr__", [](const OpObject &op) { return "<opdock.Op " + op.form().signature + ">"; });
}

void define_host(nb::module_ &module) {
    nb::class_<PolicyObject>(module, "Policy", "Settings that are in force in a `with` statement, on its thread.")
        .def(
            "__enter__",
            [](nb::object self) {
                nb::cast<const PolicyObject &>(self).enter();
                return self;
            },
            nb::sig("def __enter__(self) -> Policy"))
        .def(
            "__exit__", [](const PolicyObject &policy, const nb::args & /*exception*/) { policy.exit(); },
            "exception"_a, nb::sig("def __exit__(self, *exception: object) -> None"));

    nb::class_<HostObject>(module, "Host", nb::dynamic_attr(),
                           "Finds plugins and reads the policy. A process usually has one. An op is an attribute, "
                           "host.gelu, or what host.op(\"acme.scale\") finds.")
        .def(nb::init<const std::vector<nb::object> &, const std::string &, bool>(),
             "modules"_a = std::vector<nb::object>(), "prefix"_a = "PLUGIN_", "rescan"_a = false,
             nb::sig("def __init__(self, modules: typing.Sequence[str | os.PathLike[str]] = (), prefix: str = "
                     "'PLUGIN_', rescan: bool = "
                     "False) -> None"),
             "`modules` are plugin files or folders that are searched first, `prefix` is the prefix of environment "
             "variables.")
        .def_static("_for_torch", &HostObject::for_torch, "A host whose workspaces are torch's memory.")
        .def("__getattr__", attribute_of_host, "name"_a, nb::sig("def __getattr__(self, name: str) -> Op"))
        .def("op", &HostObject::op, "name"_a)
        .def("policy", &HostObject::policy, "settings"_a, nb::sig("def policy(self, **settings: object) -> Policy"),
             "Settings have the names of the environment variables, without prefix and in lower case: "
             "prefer=\"vendor\", strict=True, deny_vendors=[\"acme\"], per_op={\"gelu\": \"reference\"}.")
        .def("set_policy", &HostObject::set_policy, "policy"_a.none(), "Sets the program's policy; None removes it.")
        .def("reload_policy", &HostObject::reload_policy, "Reads environment and files again.")
        .def("load", &HostObject::load, "path"_a, nb::sig("def load(self, path: str | os.PathLike[str]) -> None"),
             "Loads one more plugin file.")
        .def("reset_health", &HostObject::reset_health, "Brings back implementations that left after failures.")
        .def("served", &HostObject::served, "op"_a, "impl"_a,
             "The number of served calls, including runs of prepared calls.")
        .def(
            "counters", &HostObject::counters, nb::sig("def counters(self) -> list[dict[str, typing.Any]]"),
            "The number of calls that each implementation served, declined and failed, and served in place of another.")
        .def("describe", &HostObject::describe, nb::sig("def describe(self) -> dict[str, typing.Any]"),
             "Policy, plugins, ops and implementations; docs/plugin-ls-json.md has the keys.")
        .def("explain", &HostObject::explain, "op"_a, "device"_a = "cpu:0", "dtypes"_a = "",
             nb::sig("def explain(self, op: str, device: str = 'cpu:0', dtypes: str = '') -> dict[str, typing.Any]"),
             "Which implementations would be tried, in which order, and why not the others.")
        .def("devices", &HostObject::devices, nb::sig("def devices(self) -> list[dict[str, typing.Any]]"))
        .def("freeze", &HostObject::freeze, "expected"_a = nb::none(),
             nb::sig("def freeze(self, expected: dict[str, typing.Any] | None = None) -> dict[str, typing.Any]"),
             "Fixes which implementation serves each call, and returns the manifest; given the manifest of another "
             "host, raises Error if they differ.");
}

} // namespace

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false); // objects that remain at the end of the interpreter are not leaks
    error_type = nb::object(nb::module_::import_("opdock._error").attr("Error")).release().ptr();
    nb::register_exception_translator([](const std::exception_ptr &thrown, void * /*unused*/) {
        try {
            std::rethrow_exception(thrown);
        } catch (const Error &error) {
            raise_error(error);
        }
    });
    module.def("version", [] { return OPDOCK_PYTHON_VERSION; });
    module.def(
        "_dtypes",
        [] {
            nb::dict names;
            for (const Dtype &one : dtypes) {
                names[nb::str(one.name.data(), one.name.size())] = nb::str(one.elsewhere.data(), one.elsewhere.size());
            }
            return names;
        },
        nb::sig("def _dtypes() -> dict[str, str]"), "The name of each dtype in signatures, and in other libraries.");
    module.def(
        "_parse_signature", [](const std::string &text) { return from_json(parse_signature(text)); },
        nb::sig("def _parse_signature(text: str) -> dict[str, typing.Any]"), "See opdock_parse_signature.");
    module.def(
        "_standard_signatures",
        [] {
            nb::dict signatures;
#define OPDOCK_PYTHON_OP(name, NAME) signatures[#name] = OPDOCK_OP_##NAME;
            OPDOCK_STANDARD_OPS(OPDOCK_PYTHON_OP)
#undef OPDOCK_PYTHON_OP
            return signatures;
        },
        nb::sig("def _standard_signatures() -> dict[str, str]"));
    module.def("_jax_handlers", jax_handlers, nb::sig("def _jax_handlers() -> tuple[object, object]"));

    // Used only by the libraries that import it.
    nb::class_<Memory>(module, "_Memory")
        .def(
            "__dlpack__",
            [](const Memory &memory, nb::handle max_version, const nb::kwargs & /*stream and others*/) {
                return memory.dlpack(max_version);
            },
            "max_version"_a = nb::none(), "options"_a,
            nb::sig("def __dlpack__(self, max_version: object = None, **options: object) -> object"))
        .def("__dlpack_device__", &Memory::dlpack_device, nb::sig("def __dlpack_device__(self) -> tuple[int, int]"));
    define_op(module);
    define_host(module);
}
