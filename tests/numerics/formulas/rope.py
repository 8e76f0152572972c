"""The ops of opdock/ops/rope.h."""

import numpy as np

from .sums import Sum


def rotation_pairs(r, interleaved):
    """Indices of the first and of the second element of each pair that turns together."""
    return (np.arange(0, r, 2), np.arange(1, r, 2)) if interleaved else (np.arange(r // 2), np.arange(r // 2, r))


def fused_rope_fwd(input, freqs, *, interleaved=False):
    angles = freqs[: input.shape[0]]
    first, second = rotation_pairs(freqs.shape[-1], interleaved)
    x, y = input[..., first], input[..., second]
    output = input.copy()
    output[..., first] = x * np.cos(angles[..., first]) - y * np.sin(angles[..., first])
    output[..., second] = y * np.cos(angles[..., second]) + x * np.sin(angles[..., second])
    return {"output": Sum(output, float(np.linalg.norm(np.ravel(input))))}


def fused_rope_bwd(grad, freqs, *, interleaved=False):
    angles = freqs[: grad.shape[0]]
    first, second = rotation_pairs(freqs.shape[-1], interleaved)
    x, y = grad[..., first], grad[..., second]
    grad_input = grad.copy()
    grad_input[..., first] = x * np.cos(angles[..., first]) + y * np.sin(angles[..., second])
    grad_input[..., second] = y * np.cos(angles[..., second]) - x * np.sin(angles[..., first])
    return {"grad_input": Sum(grad_input, float(np.linalg.norm(np.ravel(grad))))}


def fused_rope_qk_fwd(query, key, freqs, *, interleaved=False):
    both = (fused_rope_fwd(one, freqs, interleaved=interleaved)["output"] for one in (query, key))
    return dict(zip(("query_out", "key_out"), both))


def fused_rope_qk_bwd(grad_query_out, grad_key_out, freqs, *, interleaved=False):
    both = (fused_rope_bwd(one, freqs, interleaved=interleaved)["grad_input"] for one in (grad_query_out, grad_key_out))
    return dict(zip(("grad_query", "grad_key"), both))
