"""Defines a host's ops for torch: schemas, kernels, fake implementations, gradients."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from .. import Host
from .._gradients import Formula, formula_of
from .._signature import Signature
from ._schema import bind, fake, schema

# What is registered with it ends with it.
_library: Any = torch.library.Library("opdock", "FRAGMENT")  # type: ignore[no-untyped-call]
_names: dict[str, str] = {}  # of each op that torch has, its name there
_signatures: dict[str, Signature] = {}
left_out: dict[str, str] = {}  # and why


@functools.cache
def host() -> Host:
    """The host whose ops torch has."""
    return Host()


def register() -> None:
    """Gives torch all ops of the host that it does not have yet: those of plugins that were loaded since."""
    new = [one["op"] for one in host().describe()["ops"] if one["op"] not in _signatures]
    for op in new:
        _signatures[op] = Signature(host().op(op).parsed_signature())
    for op in new:
        try:
            _define(op)
        except (ValueError, RuntimeError) as error:
            left_out[op] = str(error)


def overload(op: str, all_outputs: bool) -> Any:
    """torch.ops.opdock.NAME.default, or with all outputs."""
    if op not in _names:
        raise ValueError(f"torch has no op '{op}' of opdock" + (f": {left_out[op]}" if op in left_out else ""))
    packet = getattr(torch.ops.opdock, _names[op])
    has_optional = any(output.optional for output in _signatures[op].outputs)
    return packet.full if all_outputs and has_optional else packet.default


def _define(op: str) -> None:
    signature = _signatures[op]
    name = op.replace(".", "_")
    if name in _names.values():
        raise ValueError(f"another op is called opdock::{name} already")
    formula = formula_of(signature, _signatures)
    kinds = [("", False)]
    if any(output.optional for output in signature.outputs):
        kinds.append((".full", True))
    for suffix, all_outputs in kinds:
        _library.define(schema(signature, name + suffix, all_outputs), tags=(torch.Tag.pt2_compliant_tag,))
    _names[op] = name
    for suffix, all_outputs in kinds:
        host().op(op)._implement_for_torch(name + suffix, all_outputs)
        torch.library.register_fake(f"opdock::{name}{suffix}", _fake(signature, all_outputs), lib=_library)
        if formula is not None:
            kernel = _autograd_kernel(signature, formula, all_outputs)
            _library.impl(name + suffix, kernel, "Autograd")


def _fake(signature: Signature, all_outputs: bool) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        return fake(signature, args, named, all_outputs)

    return function


def _call(op: str, named: dict[str, Any], all_outputs: bool) -> dict[str, torch.Tensor]:
    values = overload(op, all_outputs)(**named)
    outputs = _signatures[op].wanted(all_outputs)
    return {one.name: value for one, value in zip(outputs, [values] if len(outputs) == 1 else values, strict=True)}


def _autograd_kernel(signature: Signature, formula: Formula, all_outputs: bool) -> Callable[..., Any]:
    below_autograd, is_recording = torch._C._AutoDispatchBelowAutograd, torch.is_grad_enabled
    plain = overload(signature.op, all_outputs)

    # The dispatcher gives inputs by position and attributes by name, and leaves out what is as by default.
    def kernel(*inputs: torch.Tensor | None, **attributes: Any) -> Any:
        if is_recording():
            for one in inputs:
                if one is not None and one.requires_grad:
                    given, named = bind(signature, inputs, attributes)
                    return _Recorded.apply(signature, formula, all_outputs, named, *given)
        with below_autograd():
            return plain(*inputs, **attributes)

    return kernel


class _Recorded(torch.autograd.Function):
    """A call of an op whose gradients are recorded."""

    @staticmethod
    def forward(
        ctx: Any,
        signature: Signature,
        formula: Formula,
        all_outputs: bool,
        attributes: Mapping[str, Any],
        *inputs: torch.Tensor | None,
    ) -> Any:
        by_name = {one.name: value for one, value in zip(signature.inputs, inputs, strict=True)}
        for name, value in by_name.items():
            if value is not None and value.requires_grad and name not in formula.covers:
                raise RuntimeError(
                    f"opdock::{signature.op} has no gradient for '{name}', which requires one; .detach() it"
                )
        optional = {one.name for one in signature.outputs if one.optional}
        wanted = [one.name for one in signature.wanted(all_outputs)]
        with torch._C._AutoDispatchBelowAutograd():
            outputs = _call(
                signature.op, {**by_name, **attributes}, all_outputs or not optional.isdisjoint(formula.outputs)
            )
        kept = {name: by_name[name] for name in formula.inputs} | {name: outputs[name] for name in formula.outputs}
        ctx.names = list(kept)
        ctx.save_for_backward(*kept.values())
        ctx.signature, ctx.formula, ctx.attributes, ctx.wanted = signature, formula, attributes, wanted
        # Statistics, masks and whatever else is not the result.
        ctx.mark_non_differentiable(
            *(outputs[name] for name in wanted if name in optional or not outputs[name].is_floating_point())
        )
        return outputs[wanted[0]] if len(wanted) == 1 else tuple(outputs[name] for name in wanted)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        kept = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        by_output = {name: grad.contiguous() for name, grad in zip(ctx.wanted, grads, strict=True)}
        needed = ctx.needs_input_grad[4:]
        wanted = {one.name for one, is_needed in zip(ctx.signature.inputs, needed, strict=True) if is_needed}
        result = ctx.formula.compute(_call, kept, by_output, ctx.attributes, wanted)
        return (None,) * 4 + tuple(
            result.get(one.name) if is_needed else None
            for one, is_needed in zip(ctx.signature.inputs, needed, strict=True)
        )
