"""An op's signature as torch sees it: its schema, and what its outputs look like. docs/signatures.md has the grammar."""

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e8m0": torch.float8_e8m0fnu,
    "e2m1x2": torch.float4_e2m1fn_x2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u64": torch.uint64,
    "u32": torch.uint32,
    "u16": torch.uint16,
    "u8": torch.uint8,
    "bool": torch.bool,
}

_SCHEMA_TYPES = {
    "float": "float",
    "int": "int",
    "bool": "bool",
    "string": "str",
    "dtype": "ScalarType",
    "floats": "float[]",
    "ints": "int[]",
    "strings": "str[]",
}

_TENSOR = re.compile(r"(\w+)\s*(?:~\s*\w+\s*)?:\s*(\w+)\s*\[([^\]]*)\]")
_AT_MOST = re.compile(r"\b([a-z]\w*)\s*<=\s*([^,<>=!]+)")

Dims = MutableMapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    name: str
    dtype: str
    dims: tuple[str, ...]
    optional: bool
    is_list: bool
    mut: bool
    host: bool


@dataclass(frozen=True)
class Attribute:
    name: str
    type: str
    optional: bool
    default: Any  # None: required, or optional


class Signature:
    """Made of what Op.parsed_signature() gives."""

    def __init__(self, parsed: Mapping[str, Any]) -> None:
        self.op: str = parsed["op"]
        self.text: str = parsed["signature"]
        inputs, outputs = self.text.split("->", 1)
        self.inputs = _parameters(inputs, parsed["inputs"])
        self.outputs = _parameters(outputs, parsed["outputs"])
        self.attributes = [
            Attribute(one["name"], one["type"], one["optional"], one["default"]) for one in parsed["attributes"]
        ]
        _, _, clauses = outputs.partition(" where ")
        self._at_most = _AT_MOST.findall(clauses)
        self._variables = {
            attribute.name: match[1]
            for attribute in self.attributes
            if attribute.type == "dtype" and (match := re.search(rf"\b{attribute.name}\s*:\s*([A-Z])\b", inputs))
        }

    def wanted(self, all_outputs: bool) -> list[Parameter]:
        return [output for output in self.outputs if all_outputs or not output.optional]

    def schema(self, name: str, all_outputs: bool) -> str:
        """Raises ValueError for an op that torch cannot be told of."""
        if not self.inputs:
            raise ValueError("it takes no tensors, and torch chooses the device by them")
        parameters: list[str] = []
        trailing = True  # whether all that follow are optional
        for i, parameter in reversed(list(enumerate(self.inputs))):
            trailing = trailing and parameter.optional
            alias = f"({chr(ord('a') + i % 26)}{i // 26 or ''}!)" if parameter.mut else ""
            text = f"Tensor{alias}{'[]' if parameter.is_list else ''}{'?' if parameter.optional else ''}"
            parameters.insert(0, f"{text} {parameter.name}{'=None' if trailing else ''}")
        if self.attributes:
            parameters.append("*")
        for attribute in self.attributes:
            default = "" if attribute.default is None else "=" + _default(attribute)
            optional = "?" if attribute.optional else ""
            default = "=None" if attribute.optional else default
            parameters.append(f"{_SCHEMA_TYPES[attribute.type]}{optional} {attribute.name}{default}")
        results = ["Tensor[]" if output.is_list else "Tensor" for output in self.wanted(all_outputs)]
        result = results[0] if len(results) == 1 else f"({', '.join(results)})"
        return f"{name}({', '.join(parameters)}) -> {result}"

    def bind(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """All inputs, and all attributes by name."""
        inputs = list(args[: len(self.inputs)])
        inputs += [named.get(one.name) for one in self.inputs[len(inputs) :]]
        return inputs, {one.name: named.get(one.name, one.default) for one in self.attributes}

    def fake(self, args: Sequence[Any], named: Mapping[str, Any], all_outputs: bool) -> Any:
        """Outputs of the right shapes and dtypes, with whatever in them."""
        inputs, attributes = self.bind(args, named)
        shared: Dims = {name: value for name, value in attributes.items() if isinstance(value, int)}
        elements: list[Dims] = []  # what each element of lists binds
        dtypes = {self._variables[name]: attributes[name] for name in self._variables}
        device = torch.device("cpu")
        for parameter, value in zip(self.inputs, inputs, strict=True):
            tensors = [] if value is None else value if parameter.is_list else [value]
            if parameter.is_list and not elements:
                elements = [{} for _ in tensors]
            for i, tensor in enumerate(tensors):
                if not parameter.host:
                    device = tensor.device
                dtypes.setdefault(parameter.dtype, tensor.dtype)
                self._bind_dims(parameter, tensor, ChainMap(elements[i], shared) if parameter.is_list else shared)
        self._bind_sizes_of_data(shared)
        results: list[Any] = []
        for output in self.wanted(all_outputs):
            places = [ChainMap(element, shared) for element in elements] if output.is_list else [shared]
            made = [
                torch.empty(
                    [size for dim in output.dims for size in _sizes(dim, dims)],
                    dtype=DTYPES.get(output.dtype) or dtypes[output.dtype],
                    device="cpu" if output.host else device,
                )
                for dims in places
            ]
            results.append(made if output.is_list else made[0])
        return results[0] if len(results) == 1 else tuple(results) if results else None

    def _bind_dims(self, parameter: Parameter, tensor: torch.Tensor, dims: Dims) -> None:
        sizes = list(tensor.shape)
        names = list(parameter.dims)
        at = names.index("...") if "..." in names else len(names)
        n_any = len(sizes) - len(names) + 1 if "..." in names else 0
        if n_any < 0 or ("..." not in names and len(sizes) != len(names)):
            raise RuntimeError(
                f"{self.op}: '{parameter.name}' has {len(sizes)} dims, and {list(parameter.dims)} were expected\n"
                f"  {self.text}"
            )
        pairs: list[tuple[str, Any]] = list(zip(names[:at], sizes[:at], strict=True))
        if "..." in names:
            pairs.append(("...", sizes[at : at + n_any]))
            pairs += zip(names[at + 1 :], sizes[at + n_any :], strict=True)
        for dim, size in pairs:
            unbound = re.fullmatch(r"(?:(\d+)\s*\*\s*)?([a-z_]\w*|\.\.\.)", dim)
            if unbound and unbound[2] not in dims:
                factor = int(unbound[1] or 1)
                dims[unbound[2]] = size if factor == 1 else size // factor
            expected = dims["..."] if dim == "..." else _evaluated(dim, dims)
            for found, wanted in zip(size, expected, strict=True) if dim == "..." else [(size, expected)]:
                # Says what is wrong once it is known, and that it is so where sizes are symbols.
                torch._check(
                    found == wanted, lambda: f"{self.op}: '{parameter.name}' has other sizes than\n  {self.text}"
                )

    def _bind_sizes_of_data(self, dims: Dims) -> None:
        for name, most in self._at_most:
            if name not in dims and any(name in output.dims for output in self.outputs):
                bound = _evaluated(most, dims)
                dims[name] = torch.sym_min(dims[name], bound) if name in dims else bound


def _parameters(text: str, parsed: Iterable[Mapping[str, Any]]) -> list[Parameter]:
    written = {name: (dtype, dims) for name, dtype, dims in _TENSOR.findall(text)}
    result = []
    for one in parsed:
        dtype, dims = written[one["name"]]
        result.append(
            Parameter(
                one["name"],
                dtype,
                tuple(dim.strip() for dim in dims.split(",")) if dims.strip() else (),
                one["optional"],
                one["list"],
                one["mut"],
                one["host"],
            )
        )
    return result


def _default(attribute: Attribute) -> str:
    value = attribute.default
    if attribute.type in ("string", "dtype"):
        if attribute.type == "dtype":
            raise ValueError(f"attribute '{attribute.name}' has a dtype by default, which no schema of torch has")
        return '"' + str(value) + '"'
    return repr(value)


def _evaluated(expression: str, dims: Mapping[str, Any]) -> Any:
    # Names, numbers, + - * / and parentheses: the host has parsed it.
    code = re.sub(r"[a-z_]\w*", lambda name: f"dims['{name[0]}']", expression.replace("/", "//"))
    return eval(code, {"dims": dims})


def _sizes(dim: str, dims: Mapping[str, Any]) -> Sequence[Any]:
    return dims["..."] if dim == "..." else [_evaluated(dim, dims)]
