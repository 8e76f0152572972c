"""Finds the op that computes the gradients of another op, by their signatures.

NAME_bwd computes the gradients of NAME_fwd and of NAME. Its parameters are matched by name: `grad` is the gradient of
NAME's first output, `grad_OUTPUT` that of another output, and all others are inputs, outputs or attributes of NAME. Its
outputs are named `grad_INPUT`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._signature import Signature

Tensors = Mapping[str, Any]  # by name, of torch or of JAX
# Calls an op with its inputs and attributes by name. Returns its outputs by name; optional ones only if the flag is
# true.
Call = Callable[[str, dict[str, Any], bool], dict[str, Any]]


@dataclass(frozen=True)
class Formula:
    covers: frozenset[str]  # the inputs that get a gradient
    inputs: frozenset[str]  # inputs kept for the backward pass
    outputs: frozenset[str]
    # Takes the kept tensors, the gradients of outputs, the attributes, and the names of inputs that want a gradient.
    compute: Callable[[Call, Tensors, Tensors, Mapping[str, Any], set[str]], dict[str, Any]]


@dataclass(frozen=True)
class _Step:
    """One call of an op that computes gradients."""

    op: str
    takes: dict[str, tuple[str, str]]  # for each of its inputs: "input", "output" or "grad", and the name
    gives: dict[str, Sequence[str]]  # for each of its outputs: the inputs whose gradient it is
    optional: frozenset[str]  # outputs
    passes: frozenset[str]  # attributes that both ops have


# Cases in which names alone are not sufficient.
_BACKWARD = {
    "fused_add_rmsnorm_fwd": ["rmsnorm_bwd_add"],
    "grouped_linear_fwd": ["grouped_linear_dgrad", "grouped_linear_wgrad"],
    "linear_fwd": ["linear_dgrad", "linear_wgrad"],
}
_TAKES = {"fused_add_rmsnorm_fwd": {"input": ("output", "sum"), "add": ("grad", "sum")}}
_GIVES = {"fused_add_rmsnorm_fwd": {"grad_input": ["input", "residual"]}}


def _step(forward: Signature, backward: Signature) -> _Step | None:
    inputs = {one.name for one in forward.inputs}
    outputs = [one.name for one in forward.outputs]
    takes = dict(_TAKES.get(forward.op, {}))
    for one in backward.inputs:
        if one.name in takes:
            continue
        if one.name == "grad" and outputs:
            takes[one.name] = ("grad", outputs[0])
        elif one.name.startswith("grad_") and one.name[5:] in outputs:
            takes[one.name] = ("grad", one.name[5:])
        elif one.name in inputs:
            takes[one.name] = ("input", one.name)
        elif one.name in outputs:
            takes[one.name] = ("output", one.name)
        elif not one.optional:
            return None
    gives: dict[str, Sequence[str]] = {}
    for one in backward.outputs:
        gives[one.name] = _GIVES.get(forward.op, {}).get(one.name, [one.name.removeprefix("grad_")])
        if not one.name.startswith("grad_") or not set(gives[one.name]) <= inputs:
            return None
    if not gives or any(one.mut or one.is_list for one in [*forward.inputs, *backward.inputs]):
        return None
    passes = {one.name for one in forward.attributes} & {one.name for one in backward.attributes}
    optional = frozenset(one.name for one in backward.outputs if one.optional)
    return _Step(backward.op, takes, gives, optional, frozenset(passes))


def _of_steps(steps: Sequence[_Step]) -> Formula:
    def compute(
        call: Call, kept: Tensors, grads: Tensors, attributes: Mapping[str, Any], wanted: set[str]
    ) -> dict[str, Any]:
        result = {}
        for step in steps:
            useful = {output for output, names in step.gives.items() if not wanted.isdisjoint(names)}
            if not useful:
                continue
            given = {name: (grads if of == "grad" else kept).get(what) for name, (of, what) in step.takes.items()}
            given |= {name: attributes[name] for name in step.passes}
            for output, value in call(step.op, given, not useful.isdisjoint(step.optional)).items():
                result.update(dict.fromkeys(step.gives[output], value))
        return result

    taken = [one for step in steps for one in step.takes.values()]
    return Formula(
        frozenset(name for step in steps for names in step.gives.values() for name in names),
        frozenset(what for of, what in taken if of == "input"),
        frozenset(what for of, what in taken if of == "output"),
        compute,
    )


def _of_mul(
    call: Call, kept: Tensors, grads: Tensors, attributes: Mapping[str, Any], wanted: set[str]
) -> dict[str, Any]:
    other = {"a": kept["b"], "b": kept["a"]}
    return {name: call("mul", {"a": grads["output"], "b": other[name]}, False)["output"] for name in wanted}


def _of_add(
    call: Call, kept: Tensors, grads: Tensors, attributes: Mapping[str, Any], wanted: set[str]
) -> dict[str, Any]:
    grad = grads["output"]
    return {"a": grad, "b": grad if attributes["alpha"] == 1 else grad * attributes["alpha"]}


def _of_matmul(
    call: Call, kept: Tensors, grads: Tensors, attributes: Mapping[str, Any], wanted: set[str]
) -> dict[str, Any]:
    pairs = {"a": (grads["output"], kept["b"].mT), "b": (kept["a"].mT, grads["output"])}
    return {name: call("matmul", {"a": pairs[name][0], "b": pairs[name][1]}, False)["output"] for name in wanted}


def _of_permute_021(
    call: Call, kept: Tensors, grads: Tensors, attributes: Mapping[str, Any], wanted: set[str]
) -> dict[str, Any]:
    return {"input": call("permute_021", {"input": grads["output"]}, False)["output"]}


_BY_HAND = {
    "add": Formula(frozenset({"a", "b"}), frozenset(), frozenset(), _of_add),
    "matmul": Formula(frozenset({"a", "b"}), frozenset({"a", "b"}), frozenset(), _of_matmul),
    "mul": Formula(frozenset({"a", "b"}), frozenset({"a", "b"}), frozenset(), _of_mul),
    "permute_021": Formula(frozenset({"input"}), frozenset(), frozenset(), _of_permute_021),
}


def formula_of(forward: Signature, signatures: Mapping[str, Signature]) -> Formula | None:
    """Returns None if no op computes the gradients."""
    if forward.op in _BY_HAND:
        return _BY_HAND[forward.op]
    names = _BACKWARD.get(forward.op, [forward.op.removesuffix("_fwd") + "_bwd"])
    steps = [_step(forward, signatures[name]) for name in names if name in signatures]
    complete = [step for step in steps if step is not None]
    return _of_steps(complete) if len(complete) == len(names) else None
