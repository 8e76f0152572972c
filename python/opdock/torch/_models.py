"""Sends a model's layers through opdock's ops, where an op computes what the layer does."""

import sys
import types
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from . import _rope
from ._loss import cross_entropy, linear_cross_entropy
from ._ops import overload

Forward = Callable[..., Any]
_SEED = 20261126


@dataclass
class Place:
    """A module of a model that a rule is for."""

    module: str  # its name in the model, "" for the model itself
    kind: str  # its class
    ops: tuple[str, ...]  # that compute it; none where it was left alone
    why: str  # it was left alone
    calls: int = 0  # outside of compiled code

    def __str__(self) -> str:
        name = f"{self.module or '(model)'} ({self.kind})"
        if not self.ops:
            return f"{name}: left alone: {self.why}"
        return f"{name}: {', '.join(self.ops)}: {self.calls or 'no'} call{'' if self.calls == 1 else 's'}"


@dataclass
class _Offer:
    """What a rule would put in a module's place."""

    ops: tuple[str, ...]
    forward: Forward  # of the module and its arguments
    inputs: tuple[torch.Tensor, ...]  # on which both have to agree


class Use:
    """What use() changed. A context manager: leaving it undoes that."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.places: list[Place] = []
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        """The model as it was."""
        live.discard(self)
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    def __str__(self) -> str:
        return "\n".join(str(place) for place in self.places)

    def _leave(self, module: nn.Module, name: str, why: str) -> None:
        self.places.append(Place(name, type(module).__name__, (), why))

    def _replace(self, module: nn.Module, name: str, ops: tuple[str, ...], forward: Forward) -> None:
        counted = self._counted(Place(name, type(module).__name__, ops, ""), forward)
        _set_attribute(self._undo, module, "forward", types.MethodType(counted, module))

    def _counted(self, place: Place, function: Forward) -> Forward:
        self.places.append(place)

        def counted(*args: Any, **named: Any) -> Any:
            if not torch.compiler.is_compiling():
                place.calls += 1
            return function(*args, **named)

        return counted


def _set_attribute(undo: list[Callable[[], None]], owner: Any, name: str, value: Any) -> None:
    own = vars(owner)
    if name in own:
        before = own[name]
        undo.append(lambda: setattr(owner, name, before))
    else:
        undo.append(lambda: delattr(owner, name))
    setattr(owner, name, value)


def _random(like: torch.Tensor, *shape: int) -> torch.Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(_SEED))
    return values.to(like.device, like.dtype)


def _takes(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether an op takes both: weights are of the same dtype, or f32."""
    return x.dtype == weight.dtype or weight.dtype == torch.float32


def _rmsnorm(module: nn.Module) -> Iterable[_Offer]:
    weight = getattr(module, "weight", None)
    eps = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if "RMSNorm" not in type(module).__name__ or not isinstance(weight, torch.Tensor) or weight.dim() != 1:
        return
    op, original = overload("rmsnorm_fwd", False), type(module).forward
    for zero_centered in (False, True):

        def forward(self: Any, x: torch.Tensor, zero_centered: bool = zero_centered) -> Any:
            if not _takes(x, self.weight):
                return original(self, x)
            own = torch.finfo(x.dtype).eps if eps is None else eps
            return op(x, self.weight, eps=own, zero_centered_gamma=zero_centered)

        yield _Offer(("rmsnorm_fwd",), forward, (_random(weight, 2, weight.numel()),))


def _layernorm(module: nn.Module) -> Iterable[_Offer]:
    if not isinstance(module, nn.LayerNorm) or module.weight is None or module.bias is None or module.weight.dim() != 1:
        return
    op, original = overload("layernorm_fwd", False), type(module).forward

    def forward(self: Any, input: torch.Tensor) -> Any:
        if not _takes(input, self.weight) or self.bias.dtype != self.weight.dtype:
            return original(self, input)
        return op(input, self.weight, self.bias, eps=self.eps)

    yield _Offer(("layernorm_fwd",), forward, (_random(module.weight, 2, module.weight.numel()),))


_ACTIVATIONS = {"silu": ("silu",), "gelu": ("gelu", "qgelu"), "relu": ("relu", "srelu")}  # by what classes are called


def _activation(module: nn.Module) -> Iterable[_Offer]:
    name = type(module).__name__.lower()
    if any(True for _ in module.parameters()):
        return
    for op_name in (op for word, ops in _ACTIVATIONS.items() if word in name for op in ops):
        op = overload(op_name, False)

        def forward(self: Any, input: torch.Tensor, op: Any = op) -> Any:
            return op(input)

        yield _Offer((op_name,), forward, (_random(torch.empty(0), 64, 64) * 3,))


def _has_children(module: nn.Module, *names: str) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in names)


def _gated_mlp(module: nn.Module) -> Iterable[_Offer]:
    if _has_children(module, "gate_proj", "up_proj", "down_proj"):
        for op_name in ("silu_and_mul", "gelu_and_mul"):
            op = overload(op_name, False)

            def forward(self: Any, x: torch.Tensor, op: Any = op) -> Any:
                return self.down_proj(op(self.gate_proj(x), self.up_proj(x)))

            weight = next(module.get_submodule("gate_proj").parameters())
            yield _Offer((op_name,), forward, (_random(weight, 2, weight.shape[-1]),))
    elif _has_children(module, "gate_up_proj", "down_proj"):
        for op_name in ("swiglu", "geglu"):
            op = overload(op_name, False)

            def fused(self: Any, hidden_states: torch.Tensor, op: Any = op) -> Any:
                return self.down_proj(op(self.gate_up_proj(hidden_states)))

            weight = next(module.get_submodule("gate_up_proj").parameters())
            yield _Offer((op_name,), fused, (_random(weight, 2, weight.shape[-1]),))


def _cross_entropy(module: nn.Module) -> Iterable[_Offer]:
    if not isinstance(module, nn.CrossEntropyLoss) or module.weight is not None:
        return
    original = type(module).forward

    def forward(self: Any, input: torch.Tensor, target: torch.Tensor) -> Any:
        if input.dim() != 2 or target.dtype != torch.int64 or target.dim() != 1:
            return original(self, input, target)
        return cross_entropy(input, target, self.ignore_index, self.label_smoothing, self.reduction)

    yield _Offer(("cross_entropy_fwd",), forward, (_random(torch.empty(0), 4, 16), torch.arange(4)))


_RULES: list[Callable[[nn.Module], Iterable[_Offer]]] = [
    _gated_mlp,
    _rmsnorm,
    _layernorm,
    _activation,
    _cross_entropy,
]


def _why_not(module: nn.Module, offer: _Offer) -> str | None:
    """None where the op computes what the module does; else what went wrong, or "" where it gives other results."""
    try:
        with torch.no_grad():
            expected = module.forward(*offer.inputs)
            found = offer.forward(module, *offer.inputs)
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        return str(error).partition("\n")[0]
    precise = expected.dtype in (torch.float32, torch.float64)
    close = found.dtype == expected.dtype and torch.allclose(
        found.float(), expected.float(), rtol=1e-4 if precise else 2e-2, atol=1e-5 if precise else 2e-2
    )
    return None if close else ""


def _labels_of_next(labels: torch.Tensor, ignore_index: int, shift_labels: torch.Tensor | None) -> torch.Tensor:
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    return shift_labels.reshape(-1)


def _loss_of_causal_lm(
    logits: torch.Tensor,
    labels: torch.Tensor,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    target = _labels_of_next(labels, ignore_index, shift_labels).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    loss = cross_entropy(logits.reshape(-1, vocab_size), target, ignore_index, reduction=reduction)
    return loss if num_items_in_batch is None else loss / num_items_in_batch


_LINEAR_OPS = ("linear_fwd", "fused_cross_entropy", "linear_dgrad", "linear_wgrad")


def _why_logits_are_needed(model: nn.Module) -> str:
    """Why the loss cannot be computed from what the base model gives; "" where it can."""
    head = getattr(model, "lm_head", None)
    if not isinstance(head, nn.Linear) or head.bias is not None:
        return "its lm_head is not a product alone"
    config: Any = model.config
    if getattr(config, "final_logit_softcapping", None) is not None:
        return "it caps its logits"
    if getattr(config, "logit_scale", 1.0) != 1.0 or getattr(config, "logits_scaling", 1.0) != 1.0:
        return "it scales its logits"
    return ""


def _training_forward(model: nn.Module) -> Forward:
    """Of a causal language model in training: the loss without logits."""
    original = type(model).forward
    output = sys.modules["transformers.modeling_outputs"].CausalLMOutputWithPast

    def forward(self: Any, *args: Any, labels: torch.Tensor | None = None, **named: Any) -> Any:
        if labels is None or not self.training or args or not named.get("return_dict", True):
            return original(self, *args, labels=labels, **named)
        shift_labels = named.pop("shift_labels", None)
        items = named.pop("num_items_in_batch", None)
        for name in ("logits_to_keep", "return_dict"):
            named.pop(name, None)
        outputs = self.base_model(**named)
        target = _labels_of_next(labels, -100, shift_labels)
        hidden = outputs.last_hidden_state.reshape(target.numel(), -1)
        reduction = "mean" if items is None else "sum"
        loss = linear_cross_entropy(hidden, self.lm_head.weight, target.to(hidden.device), reduction=reduction)
        fields = {name: outputs[name] for name in ("hidden_states", "attentions") if outputs.get(name) is not None}
        return output(loss=loss if items is None else loss / items, **fields)

    return forward


def _use_loss(done: Use, model: nn.Module, is_wanted: Callable[[str], bool], without_logits: bool) -> None:
    transformers = sys.modules.get("transformers.loss.loss_utils")
    is_causal_lm = transformers and getattr(model, "loss_function", None) is transformers.ForCausalLMLoss
    if is_causal_lm and is_wanted("cross_entropy_fwd"):
        place = Place("", "loss_function", ("cross_entropy_fwd",), "")
        _set_attribute(done._undo, model, "_loss_function", done._counted(place, _loss_of_causal_lm))
    if without_logits:
        why = _why_logits_are_needed(model) if is_causal_lm else "it is no causal language model of transformers"
        if why:
            raise ValueError(f"linear_cross_entropy: {type(model).__name__}: {why}")
        done._replace(model, "", _LINEAR_OPS, _training_forward(model))


live: "weakref.WeakSet[Use]" = weakref.WeakSet()  # whose changes are in force


def use(
    model: nn.Module,
    *,
    only: Iterable[str] | None = None,
    unused: Iterable[str] = (),
    linear_cross_entropy: bool = False,
) -> Use:
    """Sends layers of a model through opdock's ops: norms, activations, gated MLPs, rope and losses.

    A layer is replaced where an op gives what the layer itself gives on random input; nothing else changes, and
    parameters stay where they are. Give the model its device and dtype before. `only` and `unused` name ops. With
    `linear_cross_entropy`, a causal language model in training computes its loss without memory for all logits, and
    returns none. Returns what was changed, which undoes it, also as a context manager.
    """
    chosen = None if only is None else set(only)
    left = set(unused)
    for name in (chosen or set()) | left:
        overload(name, False)  # raises where there is none

    def is_wanted(op: str) -> bool:
        return (chosen is None or op in chosen) and op not in left

    done = Use(model)
    covered: set[nn.Module] = set()
    try:
        for name, module in list(model.named_modules()):
            if module not in covered:
                covered |= _use_ops(done, module, name, is_wanted)
            why = _rope.why_not(module) if is_wanted("fused_rope_fwd") else None
            if why:
                done._leave(module, name, why)
            elif why is not None:
                _rope.patch(done._undo, sys.modules[type(module).__module__])
                done._replace(module, name, ("fused_rope_fwd",), _rope.angles)
        _use_loss(done, model, is_wanted, linear_cross_entropy)
    except BaseException:
        done.undo()
        raise
    live.add(done)
    return done


def _use_ops(done: Use, module: nn.Module, name: str, is_wanted: Callable[[str], bool]) -> set[nn.Module]:
    """Gives the modules inside whose work the op does too."""
    offers = [offer for rule in _RULES for offer in rule(module) if all(is_wanted(op) for op in offer.ops)]
    reasons = []
    for offer in offers:
        reason = _why_not(module, offer)
        if reason is None:
            done._replace(module, name, offer.ops, offer.forward)
            return set(module.children()) - set(_with_parameters(module))
        reasons.append(reason)
    if offers:
        tried = ", ".join(dict.fromkeys(op for offer in offers for op in offer.ops))
        why = next((reason for reason in reasons if reason), "")
        done._leave(module, name, f"it computes something else than {tried}" + (f"; {why}" if why else ""))
    return set()


def _with_parameters(module: nn.Module) -> Iterable[nn.Module]:
    return (child for child in module.children() if any(True for _ in child.parameters()))
