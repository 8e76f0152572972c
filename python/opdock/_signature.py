"""An op's signature: its parameters, and the shapes and dtypes of its outputs. docs/signatures.md has the grammar."""

import functools
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

Dims = MutableMapping[str, Any]
# Takes a condition, which may be symbolic, and the message for a false condition.
Expect = Callable[[Any, str], None]


@dataclass(frozen=True)
class Parameter:
    name: str
    dtype: str  # "f32", or a dtype variable
    dims: tuple[str, ...]
    optional: bool
    is_list: bool
    mut: bool
    host: bool


@dataclass(frozen=True)
class Attribute:
    name: str
    type: str
    variable: str | None  # the dtype variable that this attribute sets
    optional: bool
    default: Any  # None if required or optional


@dataclass(frozen=True)
class Clause:
    """left == right, or left in one of several."""

    left: str
    operator: str
    right: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {'|'.join(self.right)}"


@dataclass(frozen=True)
class Tensor:
    """Shape and dtype of an output; for an input, the known part of them."""

    dtype: Any
    shape: Sequence[Any]  # numbers, or symbols with arithmetic


class Signature:
    """Built from the result of Op.parsed_signature()."""

    def __init__(self, parsed: Mapping[str, Any]) -> None:
        self.op: str = parsed["op"]
        self.text: str = parsed["signature"]
        self.inputs = _parameters(parsed["inputs"])
        self.outputs = _parameters(parsed["outputs"])
        self.attributes = [
            Attribute(one["name"], one["type"], one["variable"], one["optional"], one["default"])
            for one in parsed["attributes"]
        ]
        # Dtype variables in order of first appearance, with their possible dtypes.
        self.variables = {name: tuple(parsed["dtypes"][name]) for name in parsed["dtype_variables"]}
        self._clauses = [Clause(one["left"], one["operator"], tuple(one["right"])) for one in parsed["where"]]

    @property
    def parameters(self) -> list[Parameter]:
        """The inputs, then the outputs."""
        return self.inputs + self.outputs

    def wanted(self, all_outputs: bool) -> list[Parameter]:
        return [output for output in self.outputs if all_outputs or not output.optional]

    def infer(
        self,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
        all_outputs: bool,
        dtypes: Mapping[str, Any],
        expect: Expect,
    ) -> list[Any]:
        """Returns a Tensor, or a list of them, for each output.

        Each of `inputs` has a shape and a dtype, is a list of such, or is None; `dtypes` maps opdock's dtypes to the
        library's.
        """
        shared: Dims = {name: value for name, value in attributes.items() if isinstance(value, int)}
        elements: list[Dims] = []  # the dims bound by each element of lists
        bound = {one.variable: attributes[one.name] for one in self.attributes if one.variable}
        for parameter, value in zip(self.inputs, inputs, strict=True):
            tensors = [] if value is None else value if parameter.is_list else [value]
            if parameter.is_list and not elements:
                elements = [{} for _ in tensors]
            if parameter.is_list:
                expect(len(tensors) == len(elements), f"{self.op}: its lists have different lengths\n  {self.text}")
            for i, tensor in enumerate(tensors):
                self._bind_dtype(parameter, tensor.dtype, bound, dtypes)
                dims = ChainMap(elements[i], shared) if parameter.is_list else shared
                self._bind_dims(parameter, tensor.shape, dims, expect)
        self._bind_sizes_of_data(shared)
        self._check_clauses(shared, expect)
        results: list[Any] = []
        for output in self.wanted(all_outputs):
            places = [ChainMap(element, shared) for element in elements] if output.is_list else [shared]
            dtype = dtypes[output.dtype] if output.dtype in dtypes else bound[output.dtype]
            try:
                made = [Tensor(dtype, [size for dim in output.dims for size in _sizes(dim, dims)]) for dims in places]
            except KeyError as unbound:
                raise ValueError(
                    f"{self.op}: output '{output.name}' depends on an input that is absent ({unbound}); "
                    f"call the op without its optional outputs\n  {self.text}"
                ) from None
            results.append(made if output.is_list else made[0])
        return results

    def _bind_dims(self, parameter: Parameter, shape: Sequence[Any], dims: Dims, expect: Expect) -> None:
        sizes = list(shape)
        names = list(parameter.dims)
        at = names.index("...") if "..." in names else len(names)
        n_any = len(sizes) - len(names) + 1 if "..." in names else 0
        if n_any < 0 or ("..." not in names and len(sizes) != len(names)):
            raise ValueError(
                f"{self.op}: '{parameter.name}' has {len(sizes)} dims, expected [{', '.join(names)}]\n  {self.text}"
            )
        pairs: list[tuple[str, Any]] = list(zip(names[:at], sizes[:at], strict=True))
        if "..." in names:
            pairs.append(("...", sizes[at : at + n_any]))
            pairs += zip(names[at + 1 :], sizes[at + n_any :], strict=True)
        wrong = f"{self.op}: '{parameter.name}' has other sizes than\n  {self.text}"
        for dim, size in pairs:
            unbound = re.fullmatch(r"(?:(\d+)\s*\*\s*)?([a-z_]\w*|\.\.\.)", dim)
            if unbound and unbound[2] not in dims:
                factor = int(unbound[1] or 1)
                dims[unbound[2]] = size if factor == 1 else size // factor
            if dim != "...":
                expect(size == _evaluated(dim, dims), wrong)
                continue
            expect(len(size) == len(dims["..."]), wrong)
            for found, wanted in zip(size, dims["..."], strict=True):
                expect(found == wanted, wrong)

    def _bind_dtype(self, parameter: Parameter, dtype: Any, bound: dict[str, Any], dtypes: Mapping[str, Any]) -> None:
        name = parameter.dtype
        if name in dtypes:
            allowed = [name]
        elif name in bound:
            allowed = [one for one in dtypes if dtypes[one] == bound[name]]
        else:
            bound[name] = dtype
            allowed = list(self.variables[name])
        if all(one in dtypes and dtypes[one] != dtype for one in allowed):
            raise ValueError(
                f"{self.op}: '{parameter.name}' is of dtype {dtype}, expected {' or '.join(allowed)}\n  {self.text}"
            )

    def _bind_sizes_of_data(self, dims: Dims) -> None:
        for clause in self._clauses:
            is_size = any(clause.left in output.dims for output in self.outputs)
            if clause.operator == "<=" and clause.left not in dims and is_size:
                dims[clause.left] = _evaluated(clause.right[0], dims)

    def _check_clauses(self, dims: Mapping[str, Any], expect: Expect) -> None:
        for clause in self._clauses:
            try:
                left = _evaluated(clause.left, dims)
                right = [_evaluated(one, dims) for one in clause.right]
            except KeyError:
                continue  # it names dims of absent inputs
            wrong = f"{self.op}: {clause} does not hold\n  {self.text}"
            if clause.operator == "in":
                expect(functools.reduce(operator.or_, [left == one for one in right]), wrong)
            else:
                expect(_OPERATORS[clause.operator](left, right[0]), wrong)


_OPERATORS = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


def _parameters(parsed: Iterable[Mapping[str, Any]]) -> list[Parameter]:
    return [
        Parameter(one["name"], one["dtype"], tuple(one["dims"]), one["optional"], one["list"], one["mut"], one["host"])
        for one in parsed
    ]


def _evaluated(expression: str, dims: Mapping[str, Any]) -> Any:
    # Contains names, numbers, + - * / and parentheses; the host has parsed it.
    code = re.sub(r"[a-z_]\w*", lambda name: f"dims['{name[0]}']", expression.replace("/", "//"))
    return eval(code, {"dims": dims})


def _sizes(dim: str, dims: Mapping[str, Any]) -> Sequence[Any]:
    return dims["..."] if dim == "..." else [_evaluated(dim, dims)]
