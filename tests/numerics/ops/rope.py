"""The ops of opdock/ops/rope.h."""

import numpy as np

from .cases import Op, Special
from .sums import Sum, mean, total, total_over_rows


def rotation_pairs(r, interleaved):
    """Indices of the first and the second element of each pair that is rotated together."""
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


def rope_positions(input, positions, cos, sin, *, interleaved=False):
    first, second = rotation_pairs(2 * cos.shape[1], interleaved)
    c, s = cos[positions][:, None], sin[positions][:, None]
    x, y = input[..., first], input[..., second]
    output = input.copy()
    output[..., first], output[..., second] = x * c - y * s, y * c + x * s
    return {"output": Sum(output, float(np.linalg.norm(np.ravel(input))))}


def rope_positions_bwd(grad, positions, cos, sin, *, interleaved=False):
    return {"grad_input": rope_positions(grad, positions, cos, -sin, interleaved=interleaved)["output"]}


def rope_qk_positions(query, key, positions, cos, sin, *, interleaved=False):
    both = (rope_positions(one, positions, cos, sin, interleaved=interleaved)["output"] for one in (query, key))
    return dict(zip(("query_out", "key_out"), both))


def rope_qk_positions_bwd(grad_query_out, grad_key_out, positions, cos, sin, *, interleaved=False):
    both = (
        rope_positions(one, positions, cos, -sin, interleaved=interleaved)["output"]
        for one in (grad_query_out, grad_key_out)
    )
    return dict(zip(("grad_query", "grad_key"), both))


def of_unit_size(x, eps):
    """The normalized heads of x, and the factors that were applied."""
    factors = 1 / np.sqrt(mean(x**2) + eps)
    return x * factors, factors


def qk_norm_rope(query, key, query_weight, key_weight, positions, cos, sin, *, eps=1e-6, interleaved=False):
    query, key = of_unit_size(query, eps)[0] * query_weight, of_unit_size(key, eps)[0] * key_weight
    return rope_qk_positions(query, key, positions, cos, sin, interleaved=interleaved)


def qk_norm_rope_bwd(
    grad_query_out,
    grad_key_out,
    query,
    key,
    query_weight,
    key_weight,
    positions,
    cos,
    sin,
    *,
    eps=1e-6,
    interleaved=False,
):
    turned = rope_qk_positions_bwd(grad_query_out, grad_key_out, positions, cos, sin, interleaved=interleaved)
    grads = {}
    for name, x, weight in (("query", query, query_weight), ("key", key, key_weight)):
        y, factors = of_unit_size(x, eps)
        u = turned[f"grad_{name}"].value
        v = u * weight
        grads[f"grad_{name}"] = total(v * factors, -y * factors * mean(v * y))
        grads[f"grad_{name}_weight"] = total_over_rows(u * y)
    return grads


# --- cases ---


# s, b, h, d, m, r. The angles of the two halves differ, so that a kernel that reads the wrong half is found.
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


# t, h, d, m, r
POSITIONS_SHAPES = [
    (5, 3, 8, 7, 2),
    (17, 4, 130, 20, 64),
    (1, 1, 2, 1, 1),
    (3, 2, 7, 5, 3),
    (6, 5, 64, 9, 32),
    (4, 2, 8, 2, 0),
    (0, 2, 4, 4, 2),
    (2, 0, 6, 4, 1),
    (9, 3, 600, 11, 100),
]


def draw_tables(draw, shape):
    t, _, _, m, r = shape
    angles = 100 * draw.rng.random((m, r))
    positions = draw.rng.integers(0, m, t)
    tables = {"cos": draw.rounded("f32", np.cos(angles)), "sin": draw.rounded("f32", np.sin(angles))}
    return {"positions": draw.rounded("P", positions), **tables}


def at_positions(*names):
    """The first input has all heads of the shape, another one fewer."""

    def draw_all(draw, shape, attributes):
        t, h, d, _, _ = shape
        tensors = {name: draw("T", t, h if i % 2 == 0 else h // 2 + 1, d) for i, name in enumerate(names)}
        return {**tensors, **draw_tables(draw, shape)}

    return draw_all


def with_weights(*names):
    def draw_all(draw, shape, attributes):
        drawn = at_positions(*names)(draw, shape, attributes)
        weights = {name: draw("U", shape[2], around=1.0) for name in ("query_weight", "key_weight")}
        tables = ("positions", "cos", "sin")
        tensors = {name: tensor for name, tensor in drawn.items() if name not in tables}
        return {**tensors, **weights, **{name: drawn[name] for name in tables}}

    return draw_all


def wrong_position(draw_all, wrong, shapes):
    def draw_wrong(draw):
        return {**draw_all(draw, (3, 2, 8, 6, 2), {}), "positions": draw.rounded("P", [0, wrong, 5])}

    return Special(f"position {wrong} of 6", draw_wrong, "INVALID_ARGUMENT", "token 1", shapes=shapes)


def rope_at_positions(names, outputs):
    draw_all = at_positions(*names)
    shapes = dict.fromkeys(outputs, (3, 2, 8))
    return Op(
        draw_all,
        dict.fromkeys(outputs, "T"),
        POSITIONS_SHAPES,
        ROPE_ATTRIBUTES,
        in_place=dict(zip(outputs, names)),
        P=("i64", "i32"),
        special=[wrong_position(draw_all, wrong, shapes) for wrong in (6, -1)],
    )


OPS = {
    "fused_rope_fwd": rope("input", "output"),
    "fused_rope_bwd": rope("grad", "grad_input"),
    "fused_rope_qk_fwd": rope_of_both("query", "key", ("query_out", "key_out")),
    "fused_rope_qk_bwd": rope_of_both("grad_query_out", "grad_key_out", ("grad_query", "grad_key")),
    "rope_positions": rope_at_positions(("input",), ("output",)),
    "rope_positions_bwd": rope_at_positions(("grad",), ("grad_input",)),
    "rope_qk_positions": rope_at_positions(("query", "key"), ("query_out", "key_out")),
    "rope_qk_positions_bwd": rope_at_positions(("grad_query_out", "grad_key_out"), ("grad_query", "grad_key")),
    "qk_norm_rope": Op(
        with_weights("query", "key"),
        {"query_out": "T", "key_out": "T"},
        POSITIONS_SHAPES,
        [{}, {"interleaved": True, "eps": 0.1}],
        in_place={"query_out": "query", "key_out": "key"},
        two_dtypes=True,
        P=("i64", "i32"),
    ),
    "qk_norm_rope_bwd": Op(
        with_weights("grad_query_out", "grad_key_out", "query", "key"),
        {"grad_query": "T", "grad_key": "T", "grad_query_weight": "U", "grad_key_weight": "U"},
        POSITIONS_SHAPES,
        [{}, {"interleaved": True, "eps": 0.1}],
        optional=("grad_query_weight", "grad_key_weight"),
        in_place={"grad_query": "grad_query_out", "grad_key": "grad_key_out"},
        two_dtypes=True,
        P=("i64", "i32"),
    ),
}
