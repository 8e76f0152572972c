"""Tries a module's own forward independently of its weights."""

from typing import Any

import torch
from torch import nn


class Tried:
    """A module as its own forward sees it during a trial, for example with other projections."""

    def __init__(self, module: nn.Module, seen: dict[str, Any], training: bool) -> None:
        self.__dict__.update(seen, _module=module, training=training)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def random(device: torch.device, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(20261126), device="cpu").to(device)


_EPS = ("variance_epsilon", "eps", "epsilon", "rms_norm_eps", "layer_norm_eps")


def eps_of(norm: nn.Module) -> float | None:
    return next((getattr(norm, name) for name in _EPS if isinstance(getattr(norm, name, None), float)), None)
