"""The ops of opdock/ops/rope.h."""

import numpy as np

from .cases import Op, Special
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


# --- what they are tried on ---


# s, b, h, d, m, r. Angles of the halves differ, so that a kernel that reads the wrong one is found.
ROPE_SHAPES = [
    (5, 2, 3, 8, 7, 4),
    (17, 1, 3, 130, 20, 128),
    (1, 1, 1, 2, 1, 2),
    (3, 1, 2, 7, 5, 6),
    (6, 2, 4, 64, 6, 64),
    (2, 2, 2, 8, 2, 0),
    (0, 2, 3, 4, 4, 4),
    (4, 0, 2, 6, 4, 2),
]
ROPE_ATTRIBUTES = [{}, {"interleaved": True}]


def draw_rope(first):
    def draw_all(draw, shape, attributes):
        s, b, h, d, m, r = shape
        positions = np.arange(m).reshape(m, 1, 1, 1)
        angles = (100 * positions + draw.rng.random((m, 1, 1, r))) * 10000.0 ** (-np.arange(r) / max(r, 1))
        return {first: draw("T", s, b, h, d), "freqs": draw.rounded("f32", angles)}

    return draw_all


def odd_rotation(first):
    draw_odd = lambda draw: draw_rope(first)(draw, (2, 1, 1, 6, 2, 5), {})
    return Special("an odd number of rotated dims", draw_odd, "INVALID_ARGUMENT", "freqs", refused=True)


def rope(first, output):
    return Op(
        draw_rope(first),
        {output: "T"},
        ROPE_SHAPES,
        ROPE_ATTRIBUTES,
        in_place={output: first},
        special=[odd_rotation(first)],
    )


def rope_of_both(first, second, outputs):
    def draw_both(draw, shape, attributes):
        s, b, h, d, m, r = shape
        drawn = draw_rope(first)(draw, shape, attributes)
        return {first: drawn[first], second: draw("T", s, b, h // 2 + 1, d), "freqs": drawn["freqs"]}

    return Op(
        draw_both,
        dict.fromkeys(outputs, "T"),
        ROPE_SHAPES,
        ROPE_ATTRIBUTES,
        in_place=dict(zip(outputs, (first, second))),
    )


OPS = {
    "fused_rope_fwd": rope("input", "output"),
    "fused_rope_bwd": rope("grad", "grad_input"),
    "fused_rope_qk_fwd": rope_of_both("query", "key", ("query_out", "key_out")),
    "fused_rope_qk_bwd": rope_of_both("grad_query_out", "grad_key_out", ("grad_query", "grad_key")),
}
