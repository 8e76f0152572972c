"""Reads and checks a plugin's description; docs/triton.md documents its fields."""

import importlib
import pathlib
import re
import sys
from dataclasses import dataclass
from typing import Any

from .._error import Error
from .._signature import Signature
from . import _configs, _device, _expression
from ._expression import Expression
from ._model import (
    OPTIONS,
    SIZES,
    TRITON_DTYPES,
    Argument,
    Description,
    Implementation,
    Launch,
    Variable,
    Workspace,
)
from ._variants import default_variants, read_variant
from ._yaml import Node, did_you_mean, read

SCHEMA = "opdock.triton/1"

# Types of numbers.
_TYPES = ("i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64")
_DEVICE = ("memory", "compute_units", "warp_size", "shared_memory", "cache")


def load(file: pathlib.Path, architectures: list[str] | None = None) -> Description:
    """Raises a DescriptionError. `architectures` overrides those of the file."""
    root = read(file)
    fields = root.fields(
        (
            "schema",
            "name",
            "version",
            "vendor",
            "priority",
            "tune_version",
            "architectures",
            "python",
            "dtypes",
            "deterministic",
            "ops",
        ),
        ("schema", "name", "version", "vendor", "architectures", "ops"),
    )
    if fields["schema"].text() != SCHEMA:
        fields["schema"].fail(f"expected the schema '{SCHEMA}'")
    name = fields["name"]
    if not re.fullmatch(r"[a-z0-9_.-]{1,64}", name.text()):
        name.fail("a name may have only a-z, 0-9, '_', '.' and '-'")
    for key in ("version", "vendor"):
        if not re.fullmatch(r"[!-~]{1,64}", fields[key].text()) or re.search(r"[\"\\,;:|=']", fields[key].text()):
            fields[key].fail(f"a {key} must be printable ASCII without spaces, quotes and , ; : | =")
    for one in fields["architectures"].list():
        if not re.fullmatch(r"sm_\d+|gfx[0-9a-f]+", one.text()):
            one.fail(f"unknown architecture '{one.text()}'; expected one such as sm_80, sm_90 or gfx942")
    result = Description(
        file,
        name.text(),
        fields["version"].text(),
        fields["vendor"].text(),
        fields["priority"].integer() if "priority" in fields else 0,
        fields["tune_version"].integer() if "tune_version" in fields else 0,
        architectures or [one.text() for one in fields["architectures"].list()],
    )
    for one in fields["python"].list() if "python" in fields else []:
        _search(one, file.parent / one.text())
    sys.path.insert(0, str(file.parent.resolve()))
    with _device.stand_in(result.architectures[0]):
        for op, (place, value) in fields["ops"].map().items():
            result.implementations.append(_Reader(place, value, fields).read(op))
    return result


def _search(place: Node, folder: pathlib.Path) -> None:
    if not folder.is_dir():
        place.fail(f"'{folder}' is not a folder")
    sys.path.insert(0, str(folder.resolve()))


class _Reader:
    """Reads the fields of one op."""

    def __init__(self, key: Node, value: Node, defaults: dict[str, Node]) -> None:
        self._key = key
        self._value = value
        self._defaults = defaults

    def read(self, name: str) -> Implementation:
        fields = self._value.fields(
            (
                "signature",
                "dtypes",
                "contiguous",
                "deterministic",
                "workspace",
                "kernels",
                "where",
                *_configs.FIELDS,
            ),
            ("kernels",),
        )
        op = self._find_op(name, fields.get("signature"))
        deterministic = fields.get("deterministic", self._defaults.get("deterministic"))
        kernels = [_find_kernel(one) for one in fields["kernels"].list()]
        space = _configs.read_space(name, self._value, fields, [one.decorated for one in kernels])
        made = Implementation(
            op,
            self._key,
            self._read_dtypes(op, fields.get("dtypes", self._defaults.get("dtypes"))),
            fields["contiguous"].boolean() if "contiguous" in fields else True,
            deterministic is not None and deterministic.boolean(),
            list(space.configs[0]),
            space.configs,
            space.sections,
        )
        self._made = made
        made.variables = _variables(op, made.knobs)
        made.where = [self._expression(one) for one in fields["where"].list()] if "where" in fields else []
        # The host does not know strides.
        texts = [one.text for one in made.where if not any(name.startswith("stride_") for name in one.names)]
        for section in made.sections if texts else []:
            there = section.get("where", [])
            section["where"] = texts + (there if isinstance(there, list) else [there])
        for knob, (key, value) in fields["heuristics"].map().items() if "heuristics" in fields else ():
            if knob not in made.knobs:
                key.fail(
                    f"unknown knob '{knob}'{did_you_mean(knob, made.knobs)} Known knobs are {', '.join(made.knobs)}."
                )
            made.heuristics[knob] = self._expression(value)
        for workspace, (_, value) in fields["workspace"].map().items() if "workspace" in fields else ():
            made.workspaces.append(self._read_workspace(workspace, value))
        made.launches = [self._read_launch(one) for one in kernels]
        return made

    def _find_op(self, name: str, signature: Node | None) -> Signature:
        native: Any = importlib.import_module("opdock._native")
        standard: dict[str, str] = native._standard_signatures()
        if signature is None:
            if name not in standard:
                self._key.fail(
                    f"'{name}' is not a standard op{did_you_mean(name, standard)} "
                    "A vendor's own op, 'vendor.name', needs a field 'signature'."
                )
            return Signature(native._parse_signature(standard[name]))
        if name in standard:
            signature.fail(f"'{name}' is a standard op, whose signature is known: leave it out")
        try:
            op = Signature(native._parse_signature(signature.text()))
        except Error as error:
            signature.fail(f"{error} (docs/signatures.md)")
        if op.op != name:
            signature.fail(f"the signature is for '{op.op}', not for '{name}'")
        return op

    def _read_dtypes(self, op: Signature, node: Node | None) -> list[tuple[str, ...]]:
        if not op.variables:
            return [()]
        if node is None:
            self._value.fail("the field 'dtypes' is missing, here and at the top of the file")
        found = []
        for one in node.list():
            names = one.text().replace(" ", "").split(",")
            names = names * len(op.variables) if len(names) == 1 else names
            if len(names) != len(op.variables):
                one.fail(
                    f"{op.op} has the dtype variables {', '.join(op.variables)}, but {len(names)} dtypes are given here"
                )
            for name, (variable, allowed) in zip(names, op.variables.items(), strict=True):
                if name not in allowed:
                    one.fail(f"{variable} of {op.op} cannot be '{name}': {', '.join(allowed)} are allowed")
                if name not in TRITON_DTYPES:
                    one.fail(f"Triton has no tensors of {name}")
            found.append(tuple(names))
        return found

    def _expression(self, node: Node) -> Expression:
        if isinstance(node.value, bool):
            return _expression.constant(node.value)
        expression = _expression.parse(node.text(), node.fail)
        known = self._made.variables
        for name in expression.names:
            if name not in known:
                node.fail(
                    f"unknown name '{name}'{did_you_mean(name, known)}",
                    next(m.start() for m in re.finditer(rf"\b{name}\b", node.text())),
                )
        return expression

    def _read_workspace(self, name: str, node: Node) -> Workspace:
        fields = node.fields(("dtype", "size"), ("dtype", "size"))
        dtype = fields["dtype"].text()
        if dtype not in TRITON_DTYPES:
            fields["dtype"].fail(f"unknown dtype '{dtype}'{did_you_mean(dtype, TRITON_DTYPES)}")
        elements = self._expression(fields["size"])
        size = SIZES.get(dtype, 1)
        steps = [*elements.steps, ("constant", float(size)), ("multiply", 0.0)]
        return Workspace(name, dtype, Expression(elements.text, steps, elements.names))

    def _read_launch(self, found: "_Kernel") -> Launch:
        place, kernel, fields = found.place, found.function, found.fields
        given = fields["arguments"].map() if "arguments" in fields else {}
        function = fields["function"].text()
        for name, (key, _) in given.items():
            if name not in kernel.arg_names:
                key.fail(
                    f"{function} has no parameter '{name}'{did_you_mean(name, kernel.arg_names)} "
                    f"It has {', '.join(kernel.arg_names)}."
                )
        grid = [self._expression(one) for one in fields["grid"].list()]
        if len(grid) > 3:
            fields["grid"].fail("a grid has at most three sizes")
        options = {}
        for option in OPTIONS:
            if option in fields:
                options[option] = self._expression(fields[option])
                self._check_key(options[option], fields[option])
            elif option in self._made.knobs:
                options[option] = _expression.parse(option, place.fail)
        launch = Launch(
            place,
            function,
            kernel,
            [self._read_argument(launch_parameter, given, place, function) for launch_parameter in kernel.params],
            grid + [_expression.constant(1)] * (3 - len(grid)),
            None,
            options,
        )
        if "when" in fields:
            launch.conditions = [self._expression(one) for one in fields["when"].list()]
            text = " && ".join(f"({one.text})" for one in launch.conditions)
            launch.when = _expression.parse(text, fields["when"].fail)
        specialize = fields.get("specialize")
        launch.variants = (
            default_variants(self._made, launch)
            if specialize is None
            else [read_variant(one, launch) for one in specialize.list()]
        )
        return launch

    def _read_argument(
        self, parameter: Any, given: dict[str, tuple[Node, Node]], place: Node, function: str
    ) -> Argument:
        made = Argument(
            parameter.name,
            "number",
            aligns=not (parameter.do_not_specialize or parameter.do_not_specialize_on_alignment),
            specializes=not parameter.do_not_specialize,
        )
        if parameter.name not in given:
            known = [*(one.name for one in self._made.op.parameters), *self._made.variables]
            known += [one.name for one in self._made.workspaces]
            if parameter.name not in known:
                if parameter.has_default and parameter.is_constexpr:
                    made.kind, made.constant = "constant", ("text", parameter.default)
                    return made
                place.fail(f"the parameter '{parameter.name}' of {function} has no argument; name it in 'arguments'")
            node = Node(place.file, place.line, place.column, parameter.name)
        else:
            node = given[parameter.name][1]
        return self._read_constant(made, node) if parameter.is_constexpr else self._read_value(made, node)

    def _read_constant(self, made: Argument, node: Node) -> Argument:
        made.kind = "constant"
        if isinstance(node.value, dict):
            fields = node.fields(("text", "dtype"))
            if "dtype" in fields:
                variable = fields["dtype"].text()
                if variable not in self._made.op.variables and variable not in TRITON_DTYPES:
                    fields["dtype"].fail(f"unknown dtype '{variable}'")
                made.constant = ("dtype", variable)
            else:
                made.constant = ("text", fields["text"].text() if "text" in fields else None)
        elif node.value is None or isinstance(node.value, bool):
            made.constant = ("text", node.value)
        else:
            made.kind, made.value = "key", self._expression(node)
            self._check_key(made.value, node)
        return made

    def _check_key(self, expression: Expression, node: Node) -> None:
        for name in expression.names:
            variable = self._made.variables[name]
            attribute = self._made.op.attributes[variable.first] if variable.kind == "attribute" else None
            if expression.is_truth or variable.kind in ("knob", "has", "element_size"):
                continue
            if attribute and attribute.type == "bool":
                continue
            node.fail(
                f"a constexpr must be known when the plugin is built, but '{name}' may be any number: make it a knob, "
                f"whose values are compiled, with a heuristic such as 'next_pow2({name})'"
            )

    def _read_value(self, made: Argument, node: Node) -> Argument:
        explicit = None
        if node.value is None:
            made.kind, made.constant = "constant", ("text", None)
            return made
        if isinstance(node.value, list):
            return self._read_alternatives(made, node)
        if isinstance(node.value, dict):
            fields = node.fields(("value", "type"), ("value", "type"))
            explicit = fields["type"].text()
            if explicit not in _TYPES:
                fields["type"].fail(f"unknown type '{explicit}'; the known types are {', '.join(_TYPES)}")
            node = fields["value"]
        op = self._made.op
        if isinstance(node.value, str):
            parameter = _index_of(op, node.value)
            if parameter is not None:
                if op.parameters[parameter].is_list:
                    node.fail(f"'{node.value}' is a list of tensors, but a kernel of Triton takes single tensors")
                made.kind, made.index = "tensor", parameter
                return made
            for i, workspace in enumerate(self._made.workspaces):
                if workspace.name == node.value:
                    made.kind, made.index = "workspace", i
                    return made
            if re.fullmatch(r"[A-Za-z_]\w*", node.value) and node.value not in self._made.variables:
                known = [*self._made.variables, *(one.name for one in op.parameters)]
                node.fail(f"unknown name '{node.value}'{did_you_mean(node.value, known)}")
        made.value = self._expression(node)
        made.type = explicit or ("fp32" if isinstance(node.value, float) else self._type_of(made.value))
        made.specializes &= made.type[0] in "iu" and made.type != "i1"
        return made

    def _read_alternatives(self, made: Argument, node: Node) -> Argument:
        """A tensor, and the workspace that replaces it if it is absent."""
        names = [one.text() for one in node.list()]
        workspaces = [one.name for one in self._made.workspaces]
        parameter = _index_of(self._made.op, names[0]) if len(names) == 2 else None
        if parameter is None or names[1] not in workspaces:
            node.fail("a list here must be a tensor of the op and a workspace that replaces the tensor if it is absent")
        made.kind, made.index, made.otherwise = "tensor", parameter, workspaces.index(names[1])
        return made

    def _type_of(self, expression: Expression) -> str:
        """Returns the type that Triton gives to Python's numbers: int, float or bool."""
        types = []
        for name in expression.names:
            variable = self._made.variables[name]
            types.append(
                self._made.op.attributes[variable.first].type if variable.kind == "attribute" else variable.kind
            )
        if "float" in types or not expression.is_whole():
            return "fp32"
        return "i1" if types in (["bool"], ["has"]) and len(expression.steps) == 1 else "i32"


@dataclass
class _Kernel:
    place: Node
    fields: dict[str, Node]
    decorated: Any  # the module's attribute of that name
    function: Any  # Triton's JITFunction


def _find_kernel(place: Node) -> _Kernel:
    fields = place.fields(("function", "arguments", "grid", "when", "specialize", *OPTIONS), ("function", "grid"))
    node = fields["function"]
    module, _, name = node.text().partition(":")
    if not name:
        node.fail("expected 'module:function'")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:  # noqa: BLE001 whatever it does when it is imported
        node.fail(f"the module '{module}' cannot be imported: {type(error).__name__}: {error}")
    if found is None:
        node.fail(f"the module '{module}' has no '{name}'{did_you_mean(name, dir(sys.modules[module]))}")
    kernel = found
    while not hasattr(kernel, "params") and hasattr(kernel, "fn"):  # unwraps autotune, heuristics and the like
        kernel = kernel.fn
    if not hasattr(kernel, "params") or not hasattr(kernel, "cache_key"):
        node.fail(f"'{node.text()}' is not a kernel; expected a function with @triton.jit")
    return _Kernel(place, fields, found, kernel)


def _index_of(op: Signature, name: str) -> int | None:
    return next((i for i, one in enumerate(op.parameters) if one.name == name), None)


def _variables(op: Signature, knobs: list[str]) -> dict[str, Variable]:
    """Returns the variables that expressions may name."""
    names_of_dims = {name for one in op.parameters for dim in one.dims for name in re.findall(r"[a-z_]\w*", dim)}
    dims = sorted(names_of_dims - {attribute.name for attribute in op.attributes})
    found = {dim: Variable("dim", dim) for dim in dims} | {"rows": Variable("dim", "rows")}
    for i, attribute in enumerate(op.attributes):
        if attribute.type in ("int", "float", "bool"):
            found[attribute.name] = Variable("attribute", attribute.name, i)
    for i, parameter in enumerate(op.parameters):
        if parameter.optional:
            found[f"has_{parameter.name}"] = Variable("has", parameter.name, i)
        if re.fullmatch("[A-Z]", parameter.dtype):
            found.setdefault(f"sizeof_{parameter.dtype}", Variable("element_size", parameter.dtype, i))
        names = parameter.dims
        rows = names.index("...") if "..." in names else len(names)
        for at, dim in enumerate(names):
            if dim == "...":
                stride = Variable("row_stride", parameter.name, i, at * 64 + len(names) - 1 - at)
                found[f"stride_{parameter.name}_rows"] = stride
                continue
            stride = Variable("stride", parameter.name, i, at if at < rows else at - len(names))
            # Key by the dim's name if the expression is a single name: 2*n is keyed by n.
            name = "".join(re.findall(r"[a-z_]\w*", dim)) or str(at)
            found.setdefault(f"stride_{parameter.name}_{name}", stride)
    for name in _DEVICE:
        found[f"device_{name}"] = Variable(name)
    return found | {knob: Variable("knob", knob, i) for i, knob in enumerate(knobs)}
