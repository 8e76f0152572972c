"""The ops of opdock/ops/linear.h."""

import numpy as np

from .cases import Op, Special
from .sums import Sum, total_over_rows


def product(a, b):
    """a @ b; the size of its terms is the norm of all individual products."""
    return Sum(a @ b, float(np.sqrt((a**2 @ b**2).sum())))


def matmul(a, b):
    return {"output": product(a, b)}


def linear_fwd(input, weight, bias=None):
    value, scale = product(input, weight.T)
    return {"output": Sum(value + (0 if bias is None else bias), scale)}


def linear_dgrad(grad, weight):
    return {"grad_input": product(grad, weight)}


def linear_wgrad(grad, input):
    rows = grad.reshape(int(np.prod(grad.shape[:-1])), grad.shape[-1])
    return {
        "grad_weight": product(rows.T, input.reshape(len(rows), input.shape[-1])),
        "grad_bias": total_over_rows(grad),
    }


def linear_fp8(input, weight, input_scale, weight_scale, bias=None, *, dtype):
    return linear_fwd(input * input_scale, weight * weight_scale, bias)


def linear_fp8_block(input, weight, input_scale, weight_scale, bias=None, *, dtype):
    n, k = weight.shape
    of_input = np.repeat(input_scale, 128, -1)[..., :k]
    of_weight = np.repeat(np.repeat(weight_scale, 128, 0), 128, 1)[:n, :k]
    return linear_fwd(input * of_input, weight * of_weight, bias)


def by_group(starts, rows, columns, product_of):
    """product_of(group, its rows) in the rows of each group, and 0 in the rows after the last group."""
    output, scale = np.zeros((rows, columns)), 0.0
    for group in range(len(starts) - 1):
        of_group = slice(starts[group], starts[group + 1])
        value, of_terms = product_of(group, of_group)
        output[of_group], scale = value, float(np.hypot(scale, of_terms))
    return Sum(output, scale)


def grouped_linear_fwd(input, weight, starts):
    of_group = lambda group, rows: product(input[rows], weight[group].T)
    return {"output": by_group(starts, len(input), weight.shape[1], of_group)}


def grouped_linear_dgrad(grad, weight, starts):
    of_group = lambda group, rows: product(grad[rows], weight[group])
    return {"grad_input": by_group(starts, len(grad), weight.shape[2], of_group)}


def grouped_linear_wgrad(grad, input, starts):
    groups = [slice(begin, end) for begin, end in zip(starts[:-1], starts[1:])]
    products = [product(grad[rows].T, input[rows]) for rows in groups]
    values = [one.value for one in products]
    shape = (len(groups), grad.shape[1], input.shape[1])
    scale = float(np.linalg.norm([one.scale for one in products]))
    return {"grad_weight": Sum(np.array(values).reshape(shape), scale)}


# --- cases ---


# The leading dimensions of the input, k, n.
LINEAR_SHAPES = [
    (2, 3, 17, 9),
    (33, 129, 65),
    (1, 1, 1),
    (1, 1),
    (7, 5),
    (3, 5, 4),
    (64, 128, 96),
    (2, 4099, 19),  # more weight rows than the reference widens at a time
    (0, 8, 5),
    (2, 0, 3, 4),
    (4, 0, 3),
    (4, 8, 0),
    # Many rows, so that the CPU plugin leaves the products to BLAS: all sizes 1, nothing to add up, more than one
    # block, and more than one panel of widened rows.
    (20, 1, 1),
    (20, 0, 5),
    (5, 27, 1031, 70),
]


# Full and partial blocks of 128, and more rows and columns than the CPU plugin handles at a time for that depth.
FP8_SHAPES = [(2, 3, 17, 9), (33, 129, 65), (1, 1), (7, 1, 5), (300, 257, 130), (0, 8, 5), (4, 0, 3), (4, 8, 0)]
FP8_SHAPES += [(2051, 3, 2), (2, 3, 8195)]


def draw_linear(draw, shape, attributes):
    *leading, k, n = shape
    return {"input": draw("T", *leading, k), "weight": draw("T", n, k), "bias": draw("T", n)}


def draw_linear_dgrad(draw, shape, attributes):
    *leading, k, n = shape
    return {"grad": draw("T", *leading, n), "weight": draw("T", n, k)}


def draw_linear_wgrad(draw, shape, attributes):
    *leading, k, n = shape
    return {"grad": draw("T", *leading, n), "input": draw("T", *leading, k)}


def draw_linear_fp8(draw, shape, attributes):
    *leading, k, n = shape
    scale = lambda *dims: draw.rounded("f32", 2 ** draw.rng.uniform(-6, 1, dims))
    return {
        "input": draw("F", *leading, k),
        "weight": draw("G", n, k),
        "input_scale": scale(1),
        "weight_scale": scale(1),
        "bias": draw("T", n),
    }


def draw_linear_fp8_block(draw, shape, attributes):
    *leading, k, n = shape
    blocks = lambda size: -(-size // 128)
    scale = lambda *dims: draw.rounded("f32", 2 ** draw.rng.uniform(-6, 1, dims))
    scales = {"input_scale": scale(*leading, blocks(k)), "weight_scale": scale(blocks(n), blocks(k))}
    return {**draw_linear_fp8(draw, shape, attributes), **scales}


# The leading dimensions, m, k, n.
MATMUL_SHAPES = [
    (2, 3, 5, 17, 9),
    (33, 129, 65),
    (1, 1, 1),
    (7, 1, 5),
    (3, 2, 40, 1),
    (2, 21, 4, 33),
    (150, 17, 3, 5),
    (5, 4099, 131),
    (0, 3, 4, 5),
    (2, 0, 4, 5),
    (2, 3, 0, 5),
    (20, 0, 5),
    (2, 3, 4, 0),
    (2, 27, 1031, 70),
]


def draw_matmul(draw, shape, attributes):
    *leading, m, k, n = shape
    return {"a": draw("T", *leading, m, k), "b": draw("T", *leading, k, n)}


# Groups, rows, k, n. Some groups have no rows, and some rows no group.
GROUPED_SHAPES = [
    (3, 29, 17, 9),
    (5, 70, 65, 33),
    (1, 1, 1, 1),
    (2, 7, 1031, 70),
    (9, 5, 3, 4),
    (0, 4, 5, 3),
    (2, 0, 3, 5),
    (2, 6, 0, 5),
    (2, 6, 5, 0),
    (4, 300, 64, 40),
]


def draw_starts(draw, groups, rows):
    return draw.rounded("i32", np.concatenate([[0], np.sort(draw.rng.integers(0, rows + 1, groups))]))


def draw_grouped(draw, shape, attributes):
    g, m, k, n = shape
    return {"input": draw("T", m, k), "weight": draw("T", g, n, k), "starts": draw_starts(draw, g, m)}


def draw_grouped_dgrad(draw, shape, attributes):
    g, m, k, n = shape
    return {"grad": draw("T", m, n), "weight": draw("T", g, n, k), "starts": draw_starts(draw, g, m)}


def draw_grouped_wgrad(draw, shape, attributes):
    g, m, k, n = shape
    return {"grad": draw("T", m, n), "input": draw("T", m, k), "starts": draw_starts(draw, g, m)}


def wrong_starts(draw_inputs, **shapes):
    def special(starts):
        def draw_wrong(draw):
            return {**draw_inputs(draw, (3, 6, 5, 4), {}), "starts": draw.rounded("i32", starts)}

        return Special(f"starts {starts}", draw_wrong, "INVALID_ARGUMENT", "starts", shapes=shapes)

    return [special(starts) for starts in ([0, 2, 1, 6], [1, 2, 3, 4], [0, 2, 4, 7], [-1, 0, 0, 0])]


OPS = {
    "matmul": Op(draw_matmul, {"output": "T"}, MATMUL_SHAPES),
    "linear_dgrad": Op(draw_linear_dgrad, {"grad_input": "T"}, LINEAR_SHAPES),
    "linear_wgrad": Op(
        draw_linear_wgrad,
        {"grad_weight": "T", "grad_bias": "T"},
        LINEAR_SHAPES + [(66001, 2, 3)],
        optional=("grad_bias",),
    ),
    "linear_fwd": Op(
        draw_linear,
        {"output": "T"},
        LINEAR_SHAPES,
        optional=("bias",),
    ),
    **{
        name: Op(
            draw_factors,
            {"output": "T"},
            FP8_SHAPES,
            [{"dtype": "T"}],
            optional=("bias",),
            F=("e4m3", "e5m2"),
            G=("e4m3", "e5m2"),
        )
        for name, draw_factors in (("linear_fp8", draw_linear_fp8), ("linear_fp8_block", draw_linear_fp8_block))
    },
    "grouped_linear_fwd": Op(
        draw_grouped, {"output": "T"}, GROUPED_SHAPES, special=wrong_starts(draw_grouped, output=(6, 4))
    ),
    "grouped_linear_dgrad": Op(
        draw_grouped_dgrad,
        {"grad_input": "T"},
        GROUPED_SHAPES,
        special=wrong_starts(draw_grouped_dgrad, grad_input=(6, 5)),
    ),
    "grouped_linear_wgrad": Op(
        draw_grouped_wgrad,
        {"grad_weight": "T"},
        GROUPED_SHAPES + [(2, 66001, 3, 2)],
        special=wrong_starts(draw_grouped_wgrad, grad_weight=(3, 4, 5)),
    ),
}
