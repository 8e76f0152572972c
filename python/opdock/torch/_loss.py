"""Cross entropy, also together with the preceding product, through opdock's ops."""

from typing import Any

import torch

from ._ops import overload

_MOST_LOGITS = 1 << 28  # bytes per chunk


def _expect_reduction(reduction: str, *allowed: str) -> None:
    if reduction not in allowed:
        raise ValueError(f"reduction must be one of {', '.join(allowed)}, but '{reduction}' was given")


def cross_entropy(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """Like torch.nn.functional.cross_entropy, in f32: logits (rows, classes), target (rows) of i64."""
    rows: torch.Tensor = overload("cross_entropy_fwd", False)(
        logits, target, ignore_index=ignore_index, label_smoothing=label_smoothing
    )
    _expect_reduction(reduction, "none", "sum", "mean")
    if reduction == "none":
        return rows
    return rows.sum() if reduction == "sum" else rows.sum() / (target != ignore_index).sum()


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum of the rows' losses. Computes the logits of one chunk of rows at a time, and gradients with the loss."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int
    ) -> torch.Tensor:
        rows = max(1, _MOST_LOGITS // (weight.shape[0] * weight.element_size()))
        if weight.dtype == torch.float16:  # sums over more rows may overflow f16
            rows = min(rows, 1024)
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.empty_like(hidden) if needs_hidden else None
        grad_weight = torch.zeros_like(weight, dtype=torch.float32) if needs_weight else None
        total = hidden.new_zeros((), dtype=torch.float32)
        for begin in range(0, hidden.shape[0], rows):
            part = hidden[begin : begin + rows]
            logits = overload("linear_fwd", False)(part, weight)
            # Overwrites the logits with their gradient.
            losses = overload("fused_cross_entropy", False)(
                logits, target[begin : begin + rows], ignore_index=ignore_index
            )
            total += losses.sum()
            if grad_hidden is not None:
                grad_hidden[begin : begin + rows] = overload("linear_dgrad", False)(logits, weight)
            if grad_weight is not None:
                grad_weight += overload("linear_wgrad", False)(logits, part)
            del logits
        ctx.dtype = weight.dtype
        # For sums over many rows, only the mean may fit f16.
        if grad_weight is not None and weight.dtype != torch.float16:
            grad_weight = grad_weight.to(weight.dtype)
        ctx.save_for_backward(grad_hidden, grad_weight)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        grad_hidden, grad_weight = ctx.saved_tensors
        of_hidden = None if grad_hidden is None else grad_hidden * grads[0].to(grad_hidden.dtype)
        of_weight = None
        if grad_weight is not None:
            of_weight = torch.empty_like(grad_weight, dtype=ctx.dtype)
            torch.mul(grad_weight, grads[0], out=of_weight)
        return of_hidden, of_weight, None, None


def linear_cross_entropy(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, reduction: str = "mean"
) -> torch.Tensor:
    """Computes cross_entropy(hidden @ weight.T, target) without memory for all logits.

    hidden (rows, k), weight (classes, k), target (rows) of i64; the loss is f32.
    """
    _expect_reduction(reduction, "sum", "mean")
    kind = hidden.device.type
    if torch.is_autocast_enabled(kind):
        hidden, weight = (one.to(torch.get_autocast_dtype(kind)) for one in (hidden, weight))
    total: torch.Tensor = _LinearCrossEntropy.apply(hidden, weight, target, ignore_index)
    return total if reduction == "sum" else total / (target != ignore_index).sum()
