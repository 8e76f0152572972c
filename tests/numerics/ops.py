"""What each op is tried on: how its inputs are drawn, on which shapes, with which attributes.

An entry of OPS says all that the cases of an op need. Shapes are tuples whose meaning only the op's own `draw` knows.
"""

from typing import Callable, NamedTuple

import numpy as np

import formulas
from tensors import rounded


class Op(NamedTuple):
    draw: Callable  # draw(Source, shape, attributes) -> {parameter: Tensor}, in the order of the signature
    formula: Callable
    outputs: dict  # name -> dtype, "T" and "U" being the variables of the case
    shapes: list  # the first one is varied, the second one in layout only
    attributes: list = [{}]
    optional: tuple = ()  # inputs and outputs that may be absent
    statistics: tuple = ()  # outputs that have no value for rows of no elements
    within: dict = {}  # output -> the dtype whose tolerance it has, where that is not its own
    in_place: dict = {}  # output -> the input it may share memory with
    two_dtypes: bool = False  # has U beside T
    special: list = []  # of Special


class Special(NamedTuple):
    """A case of its own."""

    label: str
    draw: Callable  # draw(Source) -> {parameter: Tensor}
    status: str = "OK"  # what the call must return
    message: str = ""  # a word its error must have


class Source:
    """Random tensors of a case's dtypes. A wild source mixes magnitudes, zeros included."""

    def __init__(self, rng, dtypes, wild=False):
        self.rng = rng
        self.dtypes = dtypes
        self.wild = wild

    def __call__(self, dtype, *shape, around=0.0):
        values = around + self.rng.standard_normal(shape)
        if self.wild:
            values *= 10 ** self.rng.uniform(-3, 1.3, shape)
            values[self.rng.random(shape) < 0.05] = 0
        return self.rounded(dtype, values)

    def rounded(self, dtype, values):
        if isinstance(values, formulas.Sum):
            values = values.value
        return rounded(values, self.dtypes.get(dtype, dtype))

    def classes(self, rows, count, ignore_index):
        """Targets of a loss, some of them ignored."""
        targets = self.rng.integers(0, max(count, 1), rows)
        ignored = self.rng.random(rows) < (0.2 if count else 2)
        return self.rounded("i64", np.where(ignored, ignore_index, targets))


# 1, odd sizes, no rows, rows of no elements, and a sum of more than 2^16.
ROWS = [(2, 3, 17), (33, 257), (1,), (5,), (1, 1), (3, 5), (2, 1, 3, 2, 40), (0, 8), (4, 0), (2, 0, 3), (3, 4099)]
LONG = [(1, 66001)]
MANY = [(66001, 2)]


def even(shape):
    return shape[:-1] + (2 * shape[-1],)


# --- normalization ----------------------------------------------------------------------------------------------------

NORM_ATTRIBUTES = [{}, {"eps": 1e-3}, {"zero_centered_gamma": True}, {"eps": 0.5, "zero_centered_gamma": True}]
NORM_BWD_ATTRIBUTES = [{}, {"zero_centered_gamma": True}]


def center(shape):
    """Rows far from 0 need a variance that is not a difference of large numbers; short ones may be nearly constant."""
    return 10.0 if shape[-1] > 16 else 0.0


def draw_rmsnorm(draw, shape, attributes):
    return {"input": draw("T", *shape), "weight": draw("U", shape[-1])}


def draw_fused_add_rmsnorm(draw, shape, attributes):
    return {"input": draw("T", *shape), "residual": draw("T", *shape), "weight": draw("U", shape[-1])}


def draw_rmsnorm_bwd(draw, shape, attributes):
    forward = draw_rmsnorm(draw, shape, attributes)
    saved = formulas.rmsnorm_fwd(forward["input"].values, forward["weight"].values)
    return {
        "grad": draw("T", *shape),
        "input": forward["input"],
        "rsigma": draw.rounded("f32", saved["rsigma"]),
        "weight": forward["weight"],
    }


def draw_layernorm(draw, shape, attributes):
    n = shape[-1]
    return {"input": draw("T", *shape, around=center(shape)), "weight": draw("U", n), "bias": draw("U", n)}


def draw_layernorm_bwd(draw, shape, attributes):
    forward = draw_layernorm(draw, shape, attributes)
    saved = formulas.layernorm_fwd(*(tensor.values for tensor in forward.values()))
    return {
        "grad": draw("T", *shape),
        "input": forward["input"],
        "mu": draw.rounded("f32", saved["mu"]),
        "rsigma": draw.rounded("f32", saved["rsigma"]),
        "weight": forward["weight"],
    }


# --- elementwise ------------------------------------------------------------------------------------------------------


def draw_inputs(*names):
    def draw_all(draw, shape, attributes):
        return {name: draw("T", *shape) for name in names}

    return draw_all


def draw_swiglu(draw, shape, attributes):
    return {"input": draw("T", *even(shape))}


def draw_dswiglu(draw, shape, attributes):
    return {"grad": draw("T", *shape), "input": draw("T", *even(shape))}


def activation(name):
    return Op(draw_inputs("input"), getattr(formulas, name), {"output": "T"}, ROWS, in_place={"output": "input"})


def activation_gradient(name):
    return Op(
        draw_inputs("grad", "input"),
        getattr(formulas, name),
        {"grad_input": "T"},
        ROWS,
        in_place={"grad_input": "grad"},
    )


# --- softmax, rope, linear --------------------------------------------------------------------------------------------


def draw_softmax_bwd(draw, shape, attributes):
    output = formulas.scaled_softmax_forward(draw("T", *shape).values)["output"]
    return {"grad": draw("T", *shape), "output": draw.rounded("T", output)}


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
    return Special("an odd number of rotated dims", draw_odd, "INVALID_ARGUMENT", "freqs")


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


# The leading dimensions of the input, k, n.
LINEAR_SHAPES = [
    (2, 3, 17, 9),
    (33, 129, 65),
    (1, 1, 1),
    (1, 1),
    (7, 5),
    (3, 5, 4),
    (64, 128, 96),
    (2, 4099, 19),  # more rows of the weight than the reference widens at a time
    (0, 8, 5),
    (2, 0, 3, 4),
    (4, 0, 3),
    (4, 8, 0),
    # Many rows, where the CPU plugin leaves the products to BLAS: one of everything, nothing to add up, more than one
    # block and one panel of widened rows.
    (20, 1, 1),
    (20, 0, 5),
    (5, 27, 1031, 70),
]


def draw_linear(draw, shape, attributes):
    *leading, k, n = shape
    return {"input": draw("T", *leading, k), "weight": draw("T", n, k), "bias": draw("T", n)}


# --- loss -------------------------------------------------------------------------------------------------------------

LOSS_SHAPES = [(6, 17), (33, 257), (1, 1), (1, 5), (5, 1), (0, 8), (3, 0), (3, 4099)]
LOSS_ATTRIBUTES = [{}, {"label_smoothing": 0.1}, {"ignore_index": 1}, {"label_smoothing": 0.3, "ignore_index": 0}]


def draw_loss(draw, shape, attributes):
    return {
        "logits": draw("T", *shape),
        "target": draw.classes(*shape, attributes.get("ignore_index", -100)),
    }


def draw_loss_bwd(draw, shape, attributes):
    forward = draw_loss(draw, shape, attributes)
    lse = formulas.log_sum_exp(forward["logits"].values)
    return {"grad_loss": draw("f32", shape[0]), **forward, "lse": draw.rounded("f32", lse)}


def wrong_class(draw_inputs, wrong):
    def draw_wrong(draw):
        return {**draw_inputs(draw, (4, 6), {}), "target": draw.rounded("i64", [0, -100, wrong, 5])}

    return Special(f"class {wrong} of 6 in row 2", draw_wrong, "INVALID_ARGUMENT", "row 2")


def impossible_classes(draw_inputs):
    """Logits of minus infinity, as a mask leaves them, but for the target's."""

    def draw_masked(draw):
        inputs = draw_inputs(draw, (5, 9), {})
        logits = np.where(np.arange(9) % 3 == 2, -np.inf, inputs["logits"].values)
        return {**inputs, "logits": draw.rounded("T", logits), "target": draw.rounded("i64", [0, 1, 3, 4, 7])}

    return Special("logits of minus infinity", draw_masked)


def loss_specials(draw_inputs):
    return [impossible_classes(draw_inputs)] + [wrong_class(draw_inputs, wrong) for wrong in (6, -1, 2**40)]


OPS = {
    "rmsnorm_fwd": Op(
        draw_rmsnorm,
        formulas.rmsnorm_fwd,
        {"output": "T", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("rsigma",),
        statistics=("rsigma",),
        two_dtypes=True,
    ),
    "rmsnorm_bwd": Op(
        draw_rmsnorm_bwd,
        formulas.rmsnorm_bwd,
        {"grad_input": "T", "grad_weight": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight",),
        two_dtypes=True,
    ),
    "fused_add_rmsnorm_fwd": Op(
        draw_fused_add_rmsnorm,
        formulas.fused_add_rmsnorm_fwd,
        {"output": "T", "sum": "T", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("rsigma",),
        statistics=("rsigma",),
        within={"rsigma": "T"},  # it may be that of the sum as stored
        two_dtypes=True,
    ),
    "layernorm_fwd": Op(
        draw_layernorm,
        formulas.layernorm_fwd,
        {"output": "T", "mu": "f32", "rsigma": "f32"},
        ROWS + LONG,
        NORM_ATTRIBUTES,
        optional=("mu", "rsigma"),
        statistics=("mu", "rsigma"),
        two_dtypes=True,
    ),
    "layernorm_bwd": Op(
        draw_layernorm_bwd,
        formulas.layernorm_bwd,
        {"grad_input": "T", "grad_weight": "U", "grad_bias": "U"},
        ROWS + LONG + MANY,
        NORM_BWD_ATTRIBUTES,
        optional=("grad_weight", "grad_bias"),
        two_dtypes=True,
    ),
    "gelu": activation("gelu"),
    "silu": activation("silu"),
    "relu": activation("relu"),
    "dgelu": activation_gradient("dgelu"),
    "dsilu": activation_gradient("dsilu"),
    "drelu": activation_gradient("drelu"),
    "swiglu": Op(draw_swiglu, formulas.swiglu, {"output": "T"}, ROWS),
    "dswiglu": Op(draw_dswiglu, formulas.dswiglu, {"grad_input": "T"}, ROWS),
    "silu_and_mul": Op(draw_inputs("gate", "up"), formulas.silu_and_mul, {"output": "T"}, ROWS),
    "scaled_softmax_forward": Op(
        draw_inputs("input"),
        formulas.scaled_softmax_forward,
        {"output": "T"},
        ROWS + LONG,
        [{}, {"scale": 0.37}, {"scale": -2.0}],
    ),
    "scaled_softmax_backward": Op(
        draw_softmax_bwd,
        formulas.scaled_softmax_backward,
        {"grad_input": "T"},
        ROWS + LONG,
        [{}, {"scale": 0.37}, {"scale": -2.0}],
    ),
    "fused_rope_forward": rope("fused_rope_forward", "input", "output"),
    "fused_rope_backward": rope("fused_rope_backward", "grad", "grad_input"),
    "linear_fwd": Op(
        draw_linear,
        formulas.linear_fwd,
        {"output": "T"},
        LINEAR_SHAPES,
        optional=("bias",),
    ),
    "cross_entropy_fwd": Op(
        draw_loss,
        formulas.cross_entropy_fwd,
        {"loss": "f32", "lse": "f32"},
        LOSS_SHAPES + LONG,
        LOSS_ATTRIBUTES,
        optional=("lse",),
        special=loss_specials(draw_loss),
    ),
    "cross_entropy_bwd": Op(
        draw_loss_bwd,
        formulas.cross_entropy_bwd,
        {"grad_logits": "T"},
        LOSS_SHAPES + LONG,
        LOSS_ATTRIBUTES,
        special=loss_specials(draw_loss_bwd),
    ),
    "add": Op(
        draw_inputs("a", "b"),
        formulas.add,
        {"output": "T"},
        ROWS,
        [{}, {"alpha": -0.5}, {"alpha": 0.0}],
        in_place={"output": "a"},
    ),
    "mul": Op(draw_inputs("a", "b"), formulas.mul, {"output": "T"}, ROWS, in_place={"output": "a"}),
}
