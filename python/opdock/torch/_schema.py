"""An op's signature in torch: the schema, the arguments, and tensors without data."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._native import _dtypes
from .._signature import Attribute, Signature

# Torch's dtype for each dtype name of signatures, if torch has one.
DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, elsewhere) for name, elsewhere in _dtypes().items() if hasattr(torch, elsewhere)
}
# The dtypes of a variable, unless its signature restricts them.
FLOATS = (torch.float32, torch.float16, torch.bfloat16)

_TYPES = {
    "float": "float",
    "int": "int",
    "bool": "bool",
    "string": "str",
    "dtype": "ScalarType",
    "float[]": "float[]",
    "int[]": "int[]",
    "string[]": "str[]",
}


def schema(signature: Signature, name: str, all_outputs: bool) -> str:
    """Raises ValueError for an op that torch's schemas cannot express."""
    if not signature.inputs:
        raise ValueError("it takes no tensors, by which torch chooses the device")
    for one in [*signature.inputs, *signature.outputs]:
        if not one.dtype[0].isupper() and one.dtype not in DTYPES:
            raise ValueError(f"'{one.name}' is of dtype {one.dtype}, which torch lacks")
    parameters: list[str] = []
    trailing = True  # true while all following parameters are optional
    for i, parameter in reversed(list(enumerate(signature.inputs))):
        trailing = trailing and parameter.optional
        alias = f"({chr(ord('a') + i % 26)}{i // 26 or ''}!)" if parameter.mut else ""
        text = f"Tensor{alias}{'[]' if parameter.is_list else ''}{'?' if parameter.optional else ''}"
        parameters.insert(0, f"{text} {parameter.name}{'=None' if trailing else ''}")
    if signature.attributes:
        parameters.append("*")
    parameters += [_attribute(one) for one in signature.attributes]
    results = ["Tensor[]" if output.is_list else "Tensor" for output in signature.wanted(all_outputs)]
    result = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"{name}({', '.join(parameters)}) -> {result}"


def _attribute(attribute: Attribute) -> str:
    if attribute.optional:
        return f"{_TYPES[attribute.type]}? {attribute.name}=None"
    text = f"{_TYPES[attribute.type]} {attribute.name}"
    if attribute.default is None:
        return text
    if attribute.type in ("dtype", "string[]") or attribute.default in (float("inf"), -float("inf")):
        raise ValueError(
            f"attribute '{attribute.name}' is {attribute.default} by default, which torch's schemas cannot express"
        )
    if attribute.type == "string":
        escaped = attribute.default.replace("\\", "\\\\").replace('"', '\\"')
        return f'{text}="{escaped}"'
    return f"{text}={attribute.default!r}"


def bind(signature: Signature, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns all inputs, and all attributes by name, from the dispatcher's arguments, which omit defaults."""
    inputs = [*args, *(None for _ in signature.inputs[len(args) :])]
    return inputs, {one.name: named.get(one.name, one.default) for one in signature.attributes}


def _expect(condition: Any, wrong: str) -> None:
    torch._check(condition, lambda: wrong)  # from here on, a symbolic condition is assumed to hold


def fake(signature: Signature, args: Sequence[Any], named: Mapping[str, Any], all_outputs: bool) -> Any:
    """Returns outputs with the right shapes and dtypes and undefined contents."""
    inputs, attributes = bind(signature, args, named)
    device = torch.device("cpu")
    for parameter, value in zip(signature.inputs, inputs, strict=True):
        for tensor in value if parameter.is_list and value is not None else [value]:
            if tensor is not None and not parameter.host:
                device = tensor.device
    results = []
    outputs = signature.wanted(all_outputs)
    specs = signature.infer(inputs, attributes, all_outputs, DTYPES, _expect)
    for output, spec in zip(outputs, specs, strict=True):
        where = "cpu" if output.host else device
        made = [torch.empty(one.shape, dtype=one.dtype, device=where) for one in (spec if output.is_list else [spec])]
        results.append(made if output.is_list else made[0])
    return results[0] if len(results) == 1 else tuple(results) if results else None
