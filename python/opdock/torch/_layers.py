"""Decoder layers whose sums are normalized: what attention gives and the residual, and what the MLP gives and the sum.

fused_add_rmsnorm_fwd does both at once. The second sum is what the layer gives, and the next module that is called, the
next layer's first norm or the norm after all layers, is the one that normalizes it. The layer computes that too and
leaves it there; the norm takes it where it is called with that sum.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from ._ops import overload
from ._schema import FLOATS
from ._trial import Tried, eps_of, random

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PARTS = ("self_attn", "mlp", "input_layernorm", "post_attention_layernorm")


AFTER, READY = "_opdock_after", "_opdock_ready"  # attributes of layers, and of norms: a sum and what is made of it


@dataclass
class After:
    """The norm after a layer."""

    norm: nn.Module
    eps: float
    zero_centered: bool


@dataclass
class Ready:
    """What is kept for a norm until it is called. Copies of a model start without."""

    total: torch.Tensor
    normed: torch.Tensor

    def __deepcopy__(self, memo: Any) -> None:
        return None


def _has_hooks(module: Any) -> bool:
    return any(getattr(module, name) for name in _HOOKS)


def _forward(
    own: Callable[..., Any], names: list[str], defaults: dict[str, Any], eps: float, zero_centered: bool
) -> Callable[..., Any]:
    """Of a layer whose `own` forward takes the hidden states and `names`, which it gives to attention."""
    op = overload("fused_add_rmsnorm_fwd", False)

    def forward(self: Any, hidden_states: torch.Tensor, *args: Any, **named: Any) -> Any:
        if self.training and getattr(self, "gradient_checkpointing", False):
            return own(self, hidden_states, *args, **named)  # which may be where checkpoints are made
        named = {**defaults, **dict(zip(names, args, strict=False)), **named}
        attended = self.self_attn(hidden_states=self.input_layernorm(hidden_states), **named)[0]
        norm = self.post_attention_layernorm
        if _adds(norm, attended, hidden_states):
            normed, total = op(attended, hidden_states, norm.weight, eps=eps, zero_centered_gamma=zero_centered)
        else:
            total = hidden_states + attended
            normed = norm(total)
        made = self.mlp(normed)
        after: After | None = getattr(self, AFTER, None)
        # A weight that somebody shards is not at hand before its own layer is called, and is no Parameter then.
        if after is None or type(after.norm.weight) is not nn.Parameter or not _adds(after.norm, made, total):
            return total + made
        normed, total = op(made, total, after.norm.weight, eps=after.eps, zero_centered_gamma=after.zero_centered)
        setattr(after.norm, READY, Ready(total, normed))
        return total

    return forward


def _adds(norm: Any, made: torch.Tensor, residual: torch.Tensor) -> bool:
    """Whether the sum may be made with what the norm makes of it."""
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
    """Its forward with the sum and the norm as one op; None where the layer is of another kind."""
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
        forward = _forward(type(module).forward, names, defaults, eps, zero_centered)
        try:
            with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
                if _gives_the_same(module, forward, device):
                    return forward
        except Exception:  # noqa: BLE001 - the module's, of any kind: a layer of another kind
            return None
    return None


def behind(model: nn.Module) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Layers in a list, each with the norm after it: the next layer's first one, or the one beside the list."""
    for parent in model.modules():
        for layers in parent.children():
            if isinstance(layers, nn.ModuleList):
                norms = [getattr(layer, "input_layernorm", None) for layer in layers]
                for layer, norm in zip(layers, [*norms[1:], getattr(parent, "norm", None)], strict=True):
                    if isinstance(norm, nn.Module):
                        yield layer, norm


def after(norm: Any, device: torch.device) -> After | None:
    """What a layer has to know of an RMSNorm after it; None where the op does not compute the same."""
    eps, n = eps_of(norm), norm.weight.numel()
    if eps is None:
        return None
    op, weight, x = overload("fused_add_rmsnorm_fwd", False), random(device, n), random(device, 2, 3, n)
    expected = type(norm).forward(Tried(norm, {"weight": weight}, False), x[0] + x[1])
    for zero_centered in (False, True):
        found = op(x[0], x[1], weight, eps=eps, zero_centered_gamma=zero_centered)[0]
        if torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
            return After(norm, eps, zero_centered)
    return None


def ready(norm: Any, total: torch.Tensor) -> torch.Tensor | None:
    """What the layer before the norm made of that sum, if it did."""
    kept: Ready | None = getattr(norm, READY, None)
    if kept is None:
        return None
    setattr(norm, READY, None)
    return kept.normed if kept.total is total else None
