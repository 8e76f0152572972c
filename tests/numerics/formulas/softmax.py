"""The ops of opdock/ops/softmax.h."""

import numpy as np

from .sums import total


def visible_softmax(z, visible):
    """Over the keys that are visible; 0 for the others, and for all where none is."""
    largest = z.max(-1, keepdims=True, initial=-np.inf, where=visible)
    e = np.exp(z - np.where(visible, largest, z)) * visible
    total = e.sum(-1, keepdims=True)
    return e / np.where(visible.any(-1, keepdims=True), total, 1)


def scaled_softmax_fwd(input, *, scale=1.0):
    return {"output": visible_softmax(scale * input, np.full(input.shape, True))}


def scaled_softmax_bwd(grad, output, *, scale=1.0):
    weighted = grad * output
    return {"grad_input": total(scale * weighted, -scale * output * weighted.sum(-1, keepdims=True))}


def scaled_masked_softmax_fwd(input, mask, *, scale=1.0):
    return {"output": visible_softmax(scale * input, np.broadcast_to(mask == 0, input.shape))}


def scaled_aligned_causal_masked_softmax_fwd(input, *, scale=1.0):
    visible = np.tri(*input.shape[-2:], input.shape[-1] - input.shape[-2], dtype=bool)
    return {"output": visible_softmax(scale * input, np.broadcast_to(visible, input.shape))}


scaled_upper_triang_masked_softmax_fwd = scaled_aligned_causal_masked_softmax_fwd
scaled_masked_softmax_bwd = scaled_softmax_bwd
scaled_upper_triang_masked_softmax_bwd = scaled_softmax_bwd
scaled_aligned_causal_masked_softmax_bwd = scaled_softmax_bwd
