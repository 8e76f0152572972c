"""Defines a host's ops in torch: schemas, kernels, fake implementations, gradients."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from .. import Host
from .._gradients import Formula, formula_of
from .._signature import Signature
from ._schema import bind, fake, schema

# Torch unregisters everything that a library registered when the library is freed.
_library: Any = torch.library.Library("opdock", "FRAGMENT")  # type: ignore[no-untyped-call]
_lock = threading.Lock()
_names: dict[str, str] = {}  # name in torch, by op
_signatures: dict[str, Signature] = {}
_formulas: dict[str, Formula | None] = {}  # by op; None if no op computes the gradients
left_out: dict[str, str] = {}  # ops without a torch op, and the reason


@functools.cache
def host() -> Host:
    """The host whose ops are available in torch. Its workspaces are torch's memory."""
    return Host._for_torch()


def register() -> None:
    """Registers all ops of the host that torch does not have yet, including those of plugins loaded since."""
    with _lock:
        new = []
        for one in host().describe()["ops"]:
            op = one["op"]
            if op not in _signatures and op not in left_out:
                try:
                    _signatures[op] = Signature(host().op(op).parsed_signature())
                    new.append(op)
                except Exception as error:  # noqa: BLE001 - one op does without torch, the others do not
                    left_out[op] = str(error)
        for op in new:
            try:
                _define(op)
            except Exception as error:  # noqa: BLE001 - as above
                left_out[op] = str(error)
                _names.pop(op, None)
        # A new op may provide the gradients of an op that was registered before.
        _formulas.update((op, formula_of(one, _signatures)) for op, one in _signatures.items())


def overload(op: str, all_outputs: bool) -> Any:
    """Returns torch.ops.opdock.NAME.default, or the overload with all outputs."""
    if op not in _names:
        raise ValueError(f"torch has no op '{op}' of opdock" + (f": {left_out[op]}" if op in left_out else ""))
    packet = getattr(torch.ops.opdock, _names[op])
    has_optional = any(output.optional for output in _signatures[op].outputs)
    return packet.full if all_outputs and has_optional else packet.default


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator] # runs while a model is compiled
def tell_inductor() -> bool:
    """Registers the ops with the compiler as opaque calls, which is how it compiles them anyway.

    Otherwise torch before 2.15 formats the whole program before an op for a log line when it first meets that op. The
    text doubles with each layer, so that compiling 12 layers would not end.
    """
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 15):
        from torch._inductor import lowering

        for op in _names:
            for one in {overload(op, False), overload(op, True)}:
                if one not in lowering.lowerings:
                    lowering.make_fallback(one, warn=False)  # type: ignore[no-untyped-call]
    return True


def keeps_choice(fused: str, part: str, device: torch.device) -> bool:
    """False if the implementation that serves `fused` would also serve `part`, but another one is preferred for `part`.

    Otherwise a vendor that provides only `part` would be bypassed.
    """
    where = f"{device.type}:{device.index or 0}"
    serves = host().explain(fused, where)["chain"][:1]
    decision = host().explain(part, where)
    implements = [one["impl_id"] for one in decision["kept"] + decision["dropped"]]
    preferred = decision["chain"][:1]
    return bool(serves) and (not preferred or preferred == serves or serves[0] not in implements)


def _define(op: str) -> None:
    signature = _signatures[op]
    name = op.replace(".", "_")
    if name in _names.values():
        raise ValueError(f"another op already has the name opdock::{name}")
    if name in vars(torch.ops.opdock):
        raise ValueError(f"torch.ops.opdock.{name} is an attribute of torch's own")
    kinds = [("", False)]
    if any(output.optional for output in signature.outputs):
        kinds.append((".full", True))
    schemas = [schema(signature, name + suffix, all_outputs) for suffix, all_outputs in kinds]
    # Inputs may be arbitrary views, so that compiled code need not copy them.
    for text in schemas:
        _library.define(text, tags=(torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout))
    _names[op] = name
    for suffix, all_outputs in kinds:
        host().op(op)._implement_for_torch(name + suffix, all_outputs)
        torch.library.register_fake(f"opdock::{name}{suffix}", _fake(signature, all_outputs), lib=_library)
        _library.impl(name + suffix, _autograd_kernel(signature, all_outputs), "Autograd")
        if any(one.mut for one in signature.inputs):
            _library.impl(name + suffix, _counting_kernel(signature, all_outputs), "ADInplaceOrView")


def _fake(signature: Signature, all_outputs: bool) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        return fake(signature, args, named, all_outputs)

    return function


def _flat(values: Sequence[Any]) -> list[torch.Tensor]:
    return [
        one for value in values if value is not None for one in (value if isinstance(value, (list, tuple)) else [value])
    ]


def _counting_kernel(signature: Signature, all_outputs: bool) -> Callable[..., Any]:
    """Notifies autograd of inputs that were written."""
    plain = overload(signature.op, all_outputs)
    written = [i for i, one in enumerate(signature.inputs) if one.mut]

    def kernel(*inputs: Any, **attributes: Any) -> Any:
        with torch._C._AutoDispatchBelowADInplaceOrView():
            result = plain(*inputs, **attributes)
        torch.autograd.graph.increment_version(_flat([inputs[i] for i in written if i < len(inputs)]))
        return result

    return kernel


def _call(op: str, named: dict[str, Any], all_outputs: bool) -> dict[str, torch.Tensor]:
    with torch._C._AutoDispatchBelowAutograd():
        values = overload(op, all_outputs)(**named)
    outputs = _signatures[op].wanted(all_outputs)
    return {one.name: value for one, value in zip(outputs, [values] if len(outputs) == 1 else values, strict=True)}


def _autograd_kernel(signature: Signature, all_outputs: bool) -> Callable[..., Any]:
    below_autograd, is_recording = torch._C._AutoDispatchBelowAutograd, torch.is_grad_enabled
    plain = overload(signature.op, all_outputs)
    has_lists = any(one.is_list for one in signature.inputs)

    # The dispatcher passes inputs by position and attributes by name, and omits attributes with default values.
    def kernel(*inputs: Any, **attributes: Any) -> Any:
        if is_recording() or forward_ad._current_level >= 0:
            for one in _flat(inputs) if has_lists else inputs:
                if one is not None and (one.requires_grad or forward_ad._current_level >= 0):
                    return _recorded(signature, plain, all_outputs, inputs, attributes)
        with below_autograd():
            return plain(*inputs, **attributes)

    return kernel


def _recorded(signature: Signature, plain: Any, all_outputs: bool, inputs: Any, attributes: Mapping[str, Any]) -> Any:
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            f"opdock::{signature.op} does not support torch.func's grad, vjp and jvp; use torch.autograd"
        )
    for one, value in zip(signature.inputs, inputs, strict=False):
        if one.mut and any(tensor.requires_grad for tensor in _flat([value])):
            raise RuntimeError(
                f"opdock::{signature.op} writes '{one.name}', which requires a gradient; call it under torch.no_grad()"
            )
    formula = _formulas[signature.op]
    if formula is None:

        def call() -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return plain(*inputs, **attributes)

        return _NotRecorded.apply("opdock::" + signature.op, lambda *_: call(), None, *_flat(inputs))
    given, named = bind(signature, inputs, attributes)
    for one, value in zip(signature.inputs, given, strict=True):
        if value is not None and value.requires_grad and one.name not in formula.covers:
            raise RuntimeError(
                f"opdock::{signature.op} has no gradient for '{one.name}', which requires one; .detach() it"
            )
    wanted = [one.name for one in signature.wanted(all_outputs)]
    results = _Recorded.apply(signature, formula, wanted, named, *given)
    return results[0] if len(wanted) == 1 else results[: len(wanted)]


class _Recorded(torch.autograd.Function):
    """A call of an op with recorded gradients. Returns the requested outputs, then those kept for the backward pass."""

    @staticmethod
    def forward(
        signature: Signature,
        formula: Formula,
        wanted: list[str],
        attributes: Mapping[str, Any],
        *inputs: torch.Tensor | None,
    ) -> tuple[torch.Tensor, ...]:
        named = {one.name: value for one, value in zip(signature.inputs, inputs, strict=True)}
        optional = {one.name for one in signature.outputs if one.optional}
        needs_all = not optional.isdisjoint({*wanted, *formula.outputs})
        outputs = _call(signature.op, {**named, **attributes}, needs_all)
        return tuple(outputs[name] for name in _given(wanted, formula))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        signature, formula, wanted, ctx.attributes, *given = inputs
        by_name = {one.name: value for one, value in zip(signature.inputs, given, strict=True)}
        outputs = dict(zip(_given(wanted, formula), output, strict=True))
        kept = {name: by_name[name] for name in formula.inputs} | {name: outputs[name] for name in formula.outputs}
        ctx.names = list(kept)
        ctx.save_for_backward(*kept.values())
        ctx.signature, ctx.formula, ctx.wanted = signature, formula, wanted
        # Statistics, masks and other outputs beside the result.
        optional = {one.name for one in signature.outputs if one.optional}
        results = {name for name in wanted if name not in optional}
        ctx.mark_non_differentiable(
            *(one for name, one in outputs.items() if name not in results or not one.is_floating_point())
        )

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        kept = dict(zip(ctx.names, ctx.saved_tensors, strict=True))
        needed = ctx.needs_input_grad[4:]
        wanted = {one.name for one, is_needed in zip(ctx.signature.inputs, needed, strict=True) if is_needed}
        with torch.no_grad():
            by_output = {name: grad.contiguous() for name, grad in zip(ctx.wanted, grads, strict=False)}
            result = ctx.formula.compute(_call, kept, by_output, ctx.attributes, wanted)
        names = [one.name for one in ctx.signature.inputs]
        of_inputs = [result.get(name) if name in wanted else None for name in names]
        through = [one for one in (*grads, *kept.values()) if one is not None and one.requires_grad]
        if torch.is_grad_enabled() and through:
            op = "the gradients of opdock::" + ctx.signature.op
            of_inputs = [
                one if one is None else _NotRecorded.apply(op, one.view_as, one, *through) for one in of_inputs
            ]
        return (None,) * 4 + tuple(of_inputs)


def _given(wanted: list[str], formula: Formula) -> list[str]:
    return [*wanted, *(name for name in sorted(formula.outputs) if name not in wanted)]


class _NotRecorded(torch.autograd.Function):
    """Returns the result of `call`, without gradients."""

    @staticmethod
    def forward(ctx: Any, what: str, call: Callable[[Any], Any], argument: Any, *tensors: torch.Tensor) -> Any:
        ctx.what = what
        outputs = call(argument)
        ctx.mark_non_differentiable(*(one for one in _flat([outputs]) if not one.is_floating_point()))
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise RuntimeError(f"nothing computes gradients of {ctx.what}")
