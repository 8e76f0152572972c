"""The ops of opdock/ops/rope.h."""

import numpy as np

import formulas

from .cases import Op, Special

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


def rope(name, first, output):
    return Op(
        draw_rope(first),
        getattr(formulas, name),
        {output: "T"},
        ROPE_SHAPES,
        ROPE_ATTRIBUTES,
        in_place={output: first},
        special=[odd_rotation(first)],
    )


def rope_of_both(name, first, second, outputs):
    def draw_both(draw, shape, attributes):
        s, b, h, d, m, r = shape
        drawn = draw_rope(first)(draw, shape, attributes)
        return {first: drawn[first], second: draw("T", s, b, h // 2 + 1, d), "freqs": drawn["freqs"]}

    return Op(
        draw_both,
        getattr(formulas, name),
        dict.fromkeys(outputs, "T"),
        ROPE_SHAPES,
        ROPE_ATTRIBUTES,
        in_place=dict(zip(outputs, (first, second))),
    )


OPS = {
    "fused_rope_fwd": rope("fused_rope_fwd", "input", "output"),
    "fused_rope_bwd": rope("fused_rope_bwd", "grad", "grad_input"),
    "fused_rope_qk_fwd": rope_of_both("fused_rope_qk_fwd", "query", "key", ("query_out", "key_out")),
    "fused_rope_qk_bwd": rope_of_both(
        "fused_rope_qk_bwd", "grad_query_out", "grad_key_out", ("grad_query", "grad_key")
    ),
}
