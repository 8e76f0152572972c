"""Decoder layers that normalize sums: the residual plus the attention's result, and that sum plus the MLP's result.

fused_add_rmsnorm_fwd computes a sum and its norm at once. The layer returns the second sum, and the next module to be
called normalizes it: the next layer's first norm, or the norm after all layers. If no code can see or change anything
in between, the layer computes that norm too and leaves the result for the norm module. This is the case in the layer
loop of a transformers model, without gradients and without hooks.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import _has_any_global_hook

from ._ops import overload
from ._schema import FLOATS
from ._trial import Tried, eps_of, random

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PARTS = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")


AFTER, LOOP, READY = "_opdock_after", "_opdock_loop", "_opdock_ready"  # attributes of layers, their model, and norms


@dataclass
class Loop:
    """State of a module that calls layers one after the other."""

    norms: list[nn.Module]
    runs: bool = False


@dataclass
class After:
    """The modules after a layer: a norm, and the layer that starts with this norm, if any."""

    norm: nn.Module
    layer: nn.Module | None
    loop: Loop
    eps: float
    zero_centered: bool

    def is_seen_by_nobody(self, before: nn.Module) -> bool:
        """True if no code runs between the end of the previous layer and the norm."""
        if not self.loop.runs or torch.is_grad_enabled() or _has_hooks(before):
            return False
        return self.layer is None or not _has_hooks(self.layer)


@dataclass
class Ready:
    """A result that is kept for a norm until the norm is called. Not copied with a model."""

    total: torch.Tensor
    weight: torch.Tensor
    normed: torch.Tensor

    def __deepcopy__(self, memo: Any) -> None:
        return None


def _has_hooks(module: Any) -> bool:
    return any(getattr(module, name) for name in _HOOKS) or bool(_has_any_global_hook())  # type: ignore[no-untyped-call]


def _forward(
    own: Callable[..., Any],
    names: list[str],
    defaults: dict[str, Any],
    eps: float,
    zero_centered: bool,
    kind: type[nn.Module] | None,
) -> Callable[..., Any]:
    """Returns a forward for layers whose `own` forward takes the hidden states and `names`, which go to attention.

    Each call checks that the layer's norm is still of class `kind` and has `eps`. `kind` is None during the trial.
    """
    op = overload("fused_add_rmsnorm_fwd", False)

    def forward(self: Any, hidden_states: torch.Tensor, *args: Any, **named: Any) -> Any:
        if self.training and getattr(self, "gradient_checkpointing", False):
            return own(self, hidden_states, *args, **named)  # checkpoints may be made here
        named = {**defaults, **dict(zip(names, args, strict=False)), **named}
        attended = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **named)[0]
        norm = self.post_attention_layernorm
        is_as_tried = kind is None or (type(norm) is kind and eps_of(norm) == eps)
        if is_as_tried and _adds(norm, attended, hidden_states):
            normed, total = op(attended, hidden_states, norm.weight, eps=eps, zero_centered_gamma=zero_centered)
        else:
            total = hidden_states + attended
            normed = norm(total)
        made = self.mlp(normed)
        after: After | None = getattr(self, AFTER, None)
        if after is None or not after.is_seen_by_nobody(self) or not _adds(after.norm, made, total):
            return total + made
        normed, total = op(made, total, after.norm.weight, eps=after.eps, zero_centered_gamma=after.zero_centered)
        setattr(after.norm, READY, Ready(total, after.norm.weight, normed))  # type: ignore[arg-type]
        return total

    return forward


def _adds(norm: Any, made: torch.Tensor, residual: torch.Tensor) -> bool:
    """True if the sum may be computed together with its norm."""
    weight, dtype = norm.weight, residual.dtype
    fits = dtype in FLOATS and made.dtype == dtype and weight.dtype == dtype and weight.device == residual.device
    return fits and made.shape == residual.shape and weight.shape == residual.shape[-1:] and not _has_hooks(norm)


def _gives_the_same(module: nn.Module, forward: Callable[..., Any], device: torch.device) -> bool:
    norm = module.post_attention_layernorm
    n = norm.weight.numel()  # type: ignore[union-attr, operator]
    weight, x = random(device, n), random(device, 2, 3, n)
    own = inspect.unwrap(type(module).forward)
    given = {"position_embeddings": (x, x), "more": 1}
    asked: list[dict[str, Any]] = []

    def attention(hidden_states: torch.Tensor, **named: Any) -> Any:
        asked.append(named)
        return hidden_states.sin(), None

    parts: dict[str, Any] = {"self_attn": attention, "mlp": torch.cos, "input_layernorm": lambda x: x * 1.5}
    for training in (False, True):
        tried = Tried(norm, {"weight": weight}, training)  # type: ignore[arg-type]
        seen = {**parts, "post_attention_layernorm": functools.partial(type(norm).forward, tried)}  # type: ignore[union-attr]
        expected = own(Tried(module, seen, training), x, **given)
        plain = SimpleNamespace(weight=weight, **dict.fromkeys(_HOOKS))
        found = forward(SimpleNamespace(**parts, post_attention_layernorm=plain, training=False), x, **given)
        if not isinstance(expected, torch.Tensor) or not torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
            return False
    first = asked[0]
    return all(one.keys() == first.keys() and all(one[key] is first[key] for key in first) for one in asked)


def offer(module: nn.Module, device: torch.device) -> Callable[..., Any] | None:
    """Returns the layer's forward with sum and norm as one op; None if the layer is of another kind."""
    parts = [getattr(module, name, None) for name in _PARTS]
    if not all(isinstance(one, nn.Module) and "forward" not in vars(one) for one in parts):
        return None
    norm = module.post_attention_layernorm
    weight = getattr(norm, "weight", None)
    eps = eps_of(norm)  # type: ignore[arg-type]
    if "RMSNorm" not in type(norm).__name__ or not isinstance(weight, torch.Tensor) or weight.dim() != 1 or eps is None:
        return None
    if any(isinstance(one, nn.Dropout) and one.p > 0 for one in module.children()):
        return None
    if _has_hooks(norm) or getattr(norm, "bias", None) is not None or getattr(module, "gradient_checkpointing", False):
        return None
    parameters = list(inspect.signature(type(module).forward).parameters.values())[2:]
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    for zero_centered in (False, True):
        forward = functools.partial(_forward, type(module).forward, names, defaults, eps, zero_centered)
        try:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                if _gives_the_same(module, forward(None), device):
                    return forward(type(norm))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001 - the module's, of any kind: a layer of another kind
            return None
    return None


def loops(model: nn.Module) -> Iterator[tuple[nn.Module, list[tuple[nn.Module, nn.Module, nn.Module | None]]]]:
    """Yields modules of transformers that call a list of layers; each layer with the norm and the layer after it."""
    for parent in model.modules():
        if not type(parent).__module__.startswith("transformers.") or "forward" in vars(parent):
            continue
        for layers in parent.children():
            if isinstance(layers, nn.ModuleList) and len(layers) > 0:
                norms = [getattr(layer, "input_layernorm", None) for layer in layers]
                after = zip(layers, [*norms[1:], getattr(parent, "norm", None)], [*layers[1:], None], strict=True)
                yield parent, [(layer, norm, behind) for layer, norm, behind in after if isinstance(norm, nn.Module)]


def after(norm: Any, behind: nn.Module | None, loop: Loop, device: torch.device) -> After | None:
    """Describes an RMSNorm that follows a layer; None if the op does not compute the same."""
    eps, n = eps_of(norm), norm.weight.numel()
    if eps is None:
        return None
    op, weight, x = overload("fused_add_rmsnorm_fwd", False), random(device, n), random(device, 2, 3, n)
    expected = type(norm).forward(Tried(norm, {"weight": weight}, False), x[0] + x[1])
    for zero_centered in (False, True):
        found = op(x[0], x[1], weight, eps=eps, zero_centered_gamma=zero_centered)[0]
        if torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
            return After(norm, behind, loop, eps, zero_centered)
    return None


def running(own: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps the forward of a module that calls layers, and tells the layers that it is their only caller."""

    @functools.wraps(own)
    def forward(self: Any, *args: Any, **named: Any) -> Any:
        loop: Loop = getattr(self, LOOP)
        loop.runs = True
        try:
            return own(self, *args, **named)
        finally:
            loop.runs = False
            for norm in loop.norms:
                setattr(norm, READY, None)

    return forward


def ready(norm: Any, total: torch.Tensor) -> torch.Tensor | None:
    """Returns the norm of that sum if the previous layer computed it."""
    kept: Ready | None = getattr(norm, READY, None)
    if kept is None:
        return None
    setattr(norm, READY, None)
    is_meant = kept.total is total and kept.weight is norm.weight and not torch.is_grad_enabled()
    return kept.normed if is_meant else None
