"""Rotary embedding of transformers models by fused_rope_qk_fwd, or by fused_rope_fwd for q and k separately.

Both ops take angles; the models pass cosines and sines.
"""

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ._ops import keeps_choice, overload

OPS = ("fused_rope_qk_fwd", "fused_rope_fwd")
# These kinds of rope never change their frequencies.
_STATIC_ROPE = ("default", "linear", "llama3")


def _rotate(op_name: str, q: torch.Tensor, k: torch.Tensor, angle: torch.Tensor, sequence_dim: int) -> Any:
    # Views as (sequence, batch, heads, head size); batches with different positions are treated as one sequence.
    both = [one if sequence_dim == 1 else one.transpose(1, 2) for one in (q, k)]
    batch, sequence = both[0].shape[:2]
    op = overload(op_name, False)

    def turn(rows: list[torch.Tensor], angle: torch.Tensor) -> Any:
        return op(*rows, angle) if op_name == OPS[0] else [op(one, angle) for one in rows]

    if angle.shape[0] == sequence:
        turned = turn([one.transpose(0, 1) for one in both], angle)
        both = [one.transpose(0, 1) for one in turned]
    else:
        rows = batch * sequence
        if angle.shape[0] != rows:
            raise ValueError(f"there are {angle.shape[0]} positions for {batch} sequences of {sequence}")
        turned = turn([one.reshape(rows, 1, *one.shape[2:]) for one in both], angle)
        both = [one.view(batch, sequence, *one.shape[2:]) for one in turned]
    return tuple(one if sequence_dim == 1 else one.transpose(1, 2) for one in both)


def patch(module: types.ModuleType) -> None:
    """Makes the module's apply_rotary_pos_emb accept angles, with an op's name in place of sines.

    A replaced rope module returns those. The patch stays: copies of a model may need it after the model was restored,
    and no one else passes a name.
    """
    original = module.apply_rotary_pos_emb
    if hasattr(original, "opdock_original"):
        return

    def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, *args: Any, **named: Any) -> Any:
        if not isinstance(sin, str):
            return original(q, k, cos, sin, *args, **named)
        unsqueeze_dim = args[0] if args else named.get("unsqueeze_dim", 1)
        return _rotate(sin, q, k, cos, 3 - unsqueeze_dim)

    apply_rotary_pos_emb.opdock_original = original  # type: ignore[attr-defined]
    module.apply_rotary_pos_emb = apply_rotary_pos_emb  # type: ignore[attr-defined]


def op_for(device: torch.device, is_wanted: Callable[[str], bool]) -> str | None:
    """Returns the op that rotates, among the requested ones."""
    both, single = (is_wanted(op) for op in OPS)
    if both and (not single or keeps_choice(*OPS, device)):
        return OPS[0]
    return OPS[1] if single else None


def angles(op_name: str) -> Callable[..., Any]:
    """Returns the forward of a rope module: angles as the op takes them, one row per position, and the op's name.

    Compiled code would copy a view of them in each layer.
    """

    def forward(self: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        # Like cosines: one position may stand for those of all tokens.
        positions = position_ids.expand(-1, x.shape[-2])
        half = positions.reshape(-1, 1, 1, 1).float() * self.inv_freq.to(x.device, torch.float)
        return torch.cat((half, half), -1), op_name

    return forward


def _takes_sines(one: Any) -> bool:
    """True for a function that takes sines, or for the module that the package kernels makes of one."""
    function = one.forward if isinstance(one, nn.Module) else one
    return isinstance(one, (types.FunctionType, nn.Module)) and "sin" in inspect.signature(function).parameters


def why_not(model: nn.Module, name: str, module: nn.Module, op_name: str) -> str | None:
    """Returns None if the module is not a rope module; else the reason why it cannot be replaced, or ""."""
    frequencies = getattr(module, "inv_freq", None)
    if "RotaryEmbedding" not in type(module).__name__ or not isinstance(frequencies, torch.Tensor):
        return None
    source = sys.modules[type(module).__module__]
    function = getattr(source, "apply_rotary_pos_emb", None)
    rotating = [one for one in vars(source).values() if _takes_sines(one)]
    parent = model.get_submodule(name.rpartition(".")[0])
    around = [one for one in parent.modules() if hasattr(one, "q_proj") or "Attention" in type(one).__name__]
    if any(type(one).__module__ != source.__name__ for one in [parent, *around]):
        return "its model comes from another file, and may rotate in another way"
    if getattr(module, "rope_type", "default") not in _STATIC_ROPE:
        return f"its frequencies change ({module.rope_type})"
    if getattr(module, "attention_scaling", 1.0) != 1.0:
        return "it scales attention"
    if function is None or rotating != [function]:
        return "its model does not rotate by apply_rotary_pos_emb alone"
    size = 2 * frequencies.numel()
    q = torch.randn(2, 3, 5, size, generator=torch.Generator().manual_seed(1), device="cpu").to(frequencies.device)
    positions = torch.arange(5, device=q.device).expand(2, 5) + torch.tensor([[0], [3]], device=q.device)
    try:
        cos, sin = type(module).forward(module, q, positions)
        expected = function(q, q, cos, sin)[0]
        found = _rotate(op_name, q, q, angles(op_name)(module, q, positions)[0], 2)[0]
        close = found.dtype == expected.dtype and torch.allclose(found, expected, rtol=1e-3, atol=1e-4)
    except Exception as error:  # noqa: BLE001 - the module's, of any kind
        return str(error).partition("\n")[0] or type(error).__name__
    return "" if close else f"its results differ from {op_name}"
