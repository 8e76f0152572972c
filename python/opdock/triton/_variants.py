"""Variants of a launch: the argument properties that its kernels are specialized for; docs/triton.md has the rules."""

import itertools
import re

from . import _expression
from ._model import Implementation, Launch, Variant
from ._yaml import Node, did_you_mean


def default_variants(made: Implementation, launch: Launch) -> list[Variant]:
    pointers = [one.name for one in launch.arguments if one.kind in ("tensor", "workspace") and one.aligns]
    workspaces = [one.name for one in launch.arguments if one.kind == "workspace" and one.aligns]
    numbers = [one for one in launch.arguments if one.kind == "number" and one.specializes]
    always, always_one = _same_in_each_call(launch)
    last = {f"stride_{one.name}_{re.sub(r'[^a-z_0-9]', '', one.dims[-1])}" for one in made.op.parameters if one.dims}
    ones = [one.name for one in numbers if one.value.text in last]
    # A lone attribute, such as an index to ignore, is not part of an address.
    attributes = {attribute.name for attribute in made.op.attributes}
    others = [one for one in numbers if one.name not in ones and one.aligns and not set(one.value.names) <= attributes]
    rows_of_16 = _rows_of_16(made)
    of_rows = [one.name for one in others if _expression.evaluate(one.value, rows_of_16) % 16 == 0]
    variants = [
        Variant(pointers, always + [one.name for one in others], always_one + ones),
        Variant(pointers, always + of_rows, always_one + ones),
        Variant(workspaces, always, always_one + ones),
        Variant(workspaces, always, always_one),
    ]
    if not of_rows:
        del variants[1]
    return [one for i, one in enumerate(variants) if one not in variants[:i]]


def _same_in_each_call(launch: Launch) -> tuple[list[str], list[str]]:
    """Constant arguments: multiples of 16, and those equal to 1. Every variant is specialized for them."""
    known = {
        one.name: _expression.evaluate(one.value, {})
        for one in launch.arguments
        if one.kind == "number" and one.specializes and not one.value.names
    }
    aligned = {one.name for one in launch.arguments if one.aligns}
    always = [name for name, value in known.items() if value % 16 == 0 and name in aligned]
    return always, [name for name, value in known.items() if value == 1]


def _rows_of_16(made: Implementation) -> dict[str, float]:
    """A call whose tensors have last dims that are multiples of 16, and other dims that are not. For vectors, such as
    one number per row, only dims that are some row's length count."""
    tensors = [one.dims for one in made.op.parameters]
    lengths = {dims[-1] for dims in tensors if len(dims) > 1} or {dims[-1] for dims in tensors if dims}
    if not any("..." in dims[:-1] for dims in tensors):
        lengths.add("rows")
    odd = itertools.count(3, 2)
    return {
        name: 16.0
        if variable.kind in ("knob", "stride", "row_stride") or (variable.kind == "dim" and name in lengths)
        else float(next(odd))
        if variable.kind == "dim"
        else 1.0
        for name, variable in made.variables.items()
    }


def read_variant(node: Node, launch: Launch) -> Variant:
    fields = node.fields(("aligned", "divisible", "ones"))
    kinds = {one.name: one.kind for one in launch.arguments}

    def names(field_name: str, wanted: tuple[str, ...]) -> list[str]:
        known = [name for name, kind in kinds.items() if kind in wanted]
        if field_name not in fields:
            return []
        if isinstance(fields[field_name].value, bool):
            return known if fields[field_name].value else []
        for one in fields[field_name].list():
            if one.text() not in known:
                one.fail(f"'{one.text()}' is not one of {', '.join(known)}{did_you_mean(one.text(), known)}")
        return [one.text() for one in fields[field_name].list()]

    always, always_one = _same_in_each_call(launch)
    ones = list(dict.fromkeys([*always_one, *names("ones", ("number",))]))
    divisible = [name for name in dict.fromkeys([*always, *names("divisible", ("number",))]) if name not in ones]
    return Variant(names("aligned", ("tensor", "workspace")), divisible, ones)
