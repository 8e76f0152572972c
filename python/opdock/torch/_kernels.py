"""Layers for the package `kernels`, which replaces the marked layers of models by those that a mapping names."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ._ops import overload
from ._schema import FLOATS
from ._trial import eps_of


class _Layer:
    """A layer of a mapping, in place of a repository of `kernels`."""

    def __init__(self, layer_name: str, forward: Callable[..., Any]) -> None:
        self.layer_name = layer_name
        self._class = type(layer_name, (nn.Module,), {"forward": forward, "can_torch_compile": True})

    def load(self) -> type[nn.Module]:
        return self._class

    def __str__(self) -> str:
        return f"opdock.torch, {self.layer_name}"


def _rmsnorm() -> Callable[..., Any]:
    op = overload("rmsnorm_fwd", False)

    def forward(self: Any, hidden_states: torch.Tensor) -> Any:
        eps = eps_of(self)
        if hidden_states.dtype not in FLOATS or self.weight.dtype != hidden_states.dtype or eps is None:
            return type(self).forward(self, hidden_states)
        return op(hidden_states, self.weight, eps=eps)

    return forward


def _activation(name: str) -> Callable[..., Any]:
    op = overload(name, False)

    def forward(self: Any, input: torch.Tensor) -> Any:
        return op(input) if input.dtype in FLOATS else type(self).forward(self, input)

    return forward


def kernel_mapping() -> dict[str, dict[str, dict[Any, _Layer]]]:
    """Mapping of opdock's ops for `kernels.use_kernel_mapping` and `register_kernel_mapping`, in all modes.

    Replaces only marked layers: norms and activations. `use` replaces these and more, and needs no marks.
    """
    from kernels import Mode  # type: ignore[import-untyped, import-not-found, unused-ignore]

    forwards = {"RMSNorm": _rmsnorm(), "SiLU": _activation("silu"), "QuickGELU": _activation("qgelu")}
    forwards |= dict.fromkeys(("GeluTanh", "NewGELU", "FastGELU"), _activation("gelu"))
    layers = {name: {Mode.TRAINING | Mode.TORCH_COMPILE: _Layer(name, one)} for name, one in forwards.items()}
    return {name: dict.fromkeys(("cpu", "cuda", "rocm"), one) for name, one in layers.items()}
