"""What each op is tried on: how its inputs are drawn, on which shapes, with which attributes.

An entry of OPS says all that the cases of an op need. Shapes are tuples whose meaning only the op's own `draw` knows.
"""

from typing import Callable, NamedTuple

import numpy as np

import formulas
from tensors import Tensor, fp8_values, rounded


class Op(NamedTuple):
    draw: Callable  # draw(Source, shape, attributes) -> {parameter: Tensor or list of them}, as in the signature
    formula: Callable
    outputs: dict  # name -> dtype, "T" and "U" being the variables of the case
    shapes: list  # the first one is varied, the second one in layout only
    attributes: list = [{}]
    optional: tuple = ()  # inputs and outputs that may be absent
    statistics: tuple = ()  # outputs that have no value for rows of no elements
    within: dict = {}  # output -> the dtype whose tolerance it has, where that is not its own
    in_place: dict = {}  # output -> the input it may share memory with
    changed: dict = {}  # inputs that the op writes -> dtype; the formula returns what they become
    two_dtypes: bool = False  # has U beside T
    fp8: bool = False  # has F; an attribute `dtype` names a variable
    special: list = []  # of Special


class Special(NamedTuple):
    """A case of its own."""

    label: str
    draw: Callable  # draw(Source) -> {parameter: Tensor}
    status: str = "OK"  # what the call must return
    message: str = ""  # a word its error must have
    attributes: dict = {}
    refused: bool = False  # it fails whatever the data are, and is not prepared either


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


def draw_rmsnorm_bwd_add(draw, shape, attributes):
    inputs = draw_rmsnorm_bwd(draw, shape, attributes)
    return {"grad": inputs["grad"], "input": inputs["input"], "add": draw("T", *shape), **inputs}


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


def draw_halves(draw, shape, attributes):
    return {"input": draw("T", *even(shape))}


def draw_halves_bwd(draw, shape, attributes):
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


def activation_gradient_with_bias(name):
    return Op(
        draw_inputs("grad", "input"),
        getattr(formulas, name),
        {"grad_bias": "T", "grad_input": "T"},
        ROWS + LONG + MANY,
    )


def gated(name, attributes=({},)):
    return Op(draw_halves, getattr(formulas, name), {"output": "T"}, ROWS, list(attributes))


def gated_gradient(name, attributes=({},)):
    return Op(draw_halves_bwd, getattr(formulas, name), {"grad_input": "T"}, ROWS, list(attributes))


def gated_tensors(name):
    return Op(draw_inputs("gate", "up"), getattr(formulas, name), {"output": "T"}, ROWS)


def gated_tensors_gradient(name):
    outputs = {"grad_gate": "T", "grad_up": "T"}
    return Op(draw_inputs("grad", "gate", "up"), getattr(formulas, name), outputs, ROWS)


# Both limits are reached by inputs of a normal distribution.
CLAMPED_ATTRIBUTES = ({"limit": 1.0}, {}, {"limit": 0.5, "alpha": 1.0})


# --- softmax, rope, linear --------------------------------------------------------------------------------------------


def draw_softmax_bwd(draw, shape, attributes):
    output = formulas.scaled_softmax_forward(draw("T", *shape).values)["output"]
    return {"grad": draw("T", *shape), "output": draw.rounded("T", output)}


SOFTMAX_ATTRIBUTES = [{}, {"scale": 0.37}, {"scale": -2.0}]

# b, h, q, k, m. The longest rows are of more than one block of the CPU plugin.
MASKED_SHAPES = [
    (2, 3, 5, 17, 2),
    (3, 2, 7, 33, 1),
    (1, 1, 1, 1, 1),
    (1, 2, 17, 5, 1),
    (2, 1, 40, 129, 2),
    (1, 1, 3, 9001, 1),
    (0, 2, 3, 4, 1),
    (2, 0, 3, 4, 2),
    (2, 2, 0, 4, 1),
    (2, 2, 3, 0, 1),
]
CAUSAL_SHAPES = [shape[:-1] for shape in MASKED_SHAPES]
# b, s
TRIANGLE_SHAPES = [(3, 17), (2, 65), (1, 1), (5, 2), (0, 4), (3, 0), (1, 700)]


def draw_mask(draw, b, q, k):
    """A third is hidden, and of some queries everything."""
    hidden = draw.rng.random((b, 1, q, k)) < 0.3
    hidden[draw.rng.random((b, 1, q)) < 0.2] = True
    return draw.rounded("u8", hidden)


def draw_masked_softmax(draw, shape, attributes):
    b, h, q, k, m = shape
    return {"input": draw("T", b, h, q, k), "mask": draw_mask(draw, m, q, k)}


def draw_masked_softmax_bwd(draw, shape, attributes):
    inputs = draw_masked_softmax(draw, shape, attributes)
    output = formulas.scaled_masked_softmax_forward(inputs["input"].values, inputs["mask"].values)["output"]
    return {"grad": draw("T", *shape[:-1]), "output": draw.rounded("T", output)}


def draw_causal_softmax_bwd(draw, shape, attributes):
    output = formulas.scaled_aligned_causal_masked_softmax_forward(draw("T", *shape).values)["output"]
    return {"grad": draw("T", *shape), "output": draw.rounded("T", output)}


def square(draw_of):
    return lambda draw, shape, attributes: draw_of(draw, (*shape, shape[-1]), attributes)


def nothing_to_see(draw):
    return {"input": draw("T", 1, 2, 3, 9), "mask": draw.rounded("u8", np.ones((1, 1, 3, 9)))}


def softmax(name, draw_of, shapes, special=()):
    return Op(draw_of, getattr(formulas, name), {"output": "T"}, shapes, SOFTMAX_ATTRIBUTES, special=list(special))


def softmax_gradient(name, draw_of, shapes):
    return Op(draw_of, getattr(formulas, name), {"grad_input": "T"}, shapes, SOFTMAX_ATTRIBUTES)


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


def draw_linear_dgrad(draw, shape, attributes):
    *leading, k, n = shape
    return {"grad": draw("T", *leading, n), "weight": draw("T", n, k)}


def draw_linear_wgrad(draw, shape, attributes):
    *leading, k, n = shape
    return {"grad": draw("T", *leading, n), "input": draw("T", *leading, k)}


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


# --- dropout, quantization --------------------------------------------------------------------------------------------

DROPOUT_ATTRIBUTES = [{"p": 0.3}, {"p": 0.0}, {"p": 1.0}, {"p": 0.999}]


def draw_dropout(draw, shape, attributes):
    state = draw.rng.integers(-(2**63), 2**63, 2, dtype=np.int64)
    return {"input": draw("T", *shape), "rng_state": draw.rounded("i64", state)}


def draw_dropout_bwd(draw, shape, attributes):
    kept = draw.rng.random(shape) >= attributes["p"]
    return {"grad": draw("T", *shape), "mask": draw.rounded("u8", kept)}


def improbable(draw_inputs):
    draw_any = lambda draw: draw_inputs(draw, (2, 5), {"p": 0.5})
    return [Special(f"p = {p}", draw_any, "INVALID_ARGUMENT", "p:", {"p": p}, refused=True) for p in (-0.1, 1.5)]


def draw_quantize(draw, shape, attributes):
    return {
        "input": draw("T", *shape),
        "scale": draw.rounded("f32", 2 ** draw.rng.uniform(-12, 10, 1)),
        "amax": draw.rounded("f32", draw.rng.uniform(0, 3, 1)),
    }


def not_numbers(draw):
    inputs = draw_quantize(draw, (4, 9), {})
    values = inputs["input"].values.copy()
    values[1, :4] = np.nan, np.inf, -np.inf, -0.0
    return {**inputs, "input": draw.rounded("T", values)}


def infinite(draw):
    inputs = not_numbers(draw)
    values = inputs["input"].values
    return {**inputs, "input": draw.rounded("T", np.where(np.isnan(values), 1, values))}


def draw_dequantize(draw, shape, attributes):
    return {"input": draw("F", *shape), "scale_inv": draw.rounded("f32", 2 ** draw.rng.uniform(-4, 4, 1))}


def all_codes(draw):
    dtype = draw.dtypes["F"]
    codes = np.arange(256, dtype=np.uint8)
    return {"input": Tensor(dtype, codes, fp8_values(codes, dtype)), "scale_inv": draw.rounded("f32", [0.37])}


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


# --- optimizer --------------------------------------------------------------------------------------------------------

# The sizes of a list's tensors; the CPU plugin cuts long ones.
LISTS = [(17, 1, 4099, 5), (257,), (1,), (0, 3, 0), (0,), (5, 66001, 2)]


def draw_list(draw, dtype, sizes):
    return [draw(dtype, size) for size in sizes]


def draw_flag(draw, flag):
    return draw.rounded("i32", [flag])


def draw_adam(draw, sizes, attributes, noop=0):
    exp_avg = draw_list(draw, "f32", sizes)
    # The average of squares is no less than the square of the average.
    exp_avg_sq = [m.values**2 + draw("f32", len(m.values)).values ** 2 for m in exp_avg]
    return {
        "grads": draw_list(draw, "T", sizes),
        "params": draw_list(draw, "U", sizes),
        "exp_avg": exp_avg,
        "exp_avg_sq": [draw.rounded("f32", v) for v in exp_avg_sq],
        "lr": draw.rounded("f32", draw.rng.uniform(0.001, 0.1, 1)),
        "step": draw.rounded("f32", draw.rng.integers(0, 50, 1)),
        "noop": draw_flag(draw, noop),
    }


def draw_sgd(draw, sizes, attributes, noop=0):
    return {
        "grads": draw_list(draw, "T", sizes),
        "params": draw_list(draw, "U", sizes),
        "momentum_buffers": draw_list(draw, "f32", sizes),
        "lr": draw.rounded("f32", draw.rng.uniform(0.001, 0.1, 1)),
        "noop": draw_flag(draw, noop),
    }


def idle(draw_inputs):
    return [Special("noop", lambda draw: draw_inputs(draw, (7, 33), {}, noop=1))]


def large_gradients(draw):
    """Squares of bf16 and f32 past the range of f32, where their average is within it."""
    inputs = draw_adam(draw, (9,), {})
    largest = 1e20 if draw.dtypes["T"] != "f16" else 6e4
    return {**inputs, "grads": [draw.rounded("T", np.full(9, largest))]}


def draw_norm(draw, sizes, attributes):
    return {"inputs": draw_list(draw, "T", sizes)}


def far_from_1(draw):
    """Squares past the range of f32, on both sides."""
    large, small = (1e25, 1e-25) if draw.dtypes["T"] != "f16" else (6e4, 1e-6)
    return {"inputs": [draw.rounded("T", np.full(3, large)), draw.rounded("T", np.full(100, small))]}


def near_0(draw):
    return {"inputs": [draw.rounded("T", np.full(5, 1e-25 if draw.dtypes["T"] != "f16" else 1e-6))]}


def draw_scale(draw, sizes, attributes):
    return {
        "tensors": draw_list(draw, "T", sizes),
        "scale": draw("f32", 1),
        "found_inf": draw_flag(draw, draw.rng.integers(0, 2)),
    }


def scale_no_numbers(draw):
    return {
        "tensors": [draw("T", 40), draw.rounded("T", [0.5, np.nan, np.inf])],
        "scale": draw("f32", 1),
        "found_inf": draw_flag(draw, 0),
    }


ACTIVATIONS = ("gelu", "qgelu", "relu", "silu", "srelu")
GATED = ("geglu", "qgeglu", "reglu", "sreglu", "swiglu")

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
    "rmsnorm_bwd_add": Op(
        draw_rmsnorm_bwd_add,
        formulas.rmsnorm_bwd_add,
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
    **{name: activation(name) for name in ACTIVATIONS},
    **{"d" + name: activation_gradient("d" + name) for name in ACTIVATIONS},
    **{"dbias_d" + name: activation_gradient_with_bias("dbias_d" + name) for name in ACTIVATIONS},
    **{name: gated(name) for name in GATED},
    **{"d" + name: gated_gradient("d" + name) for name in GATED},
    "clamped_swiglu": gated("clamped_swiglu", CLAMPED_ATTRIBUTES),
    "clamped_dswiglu": gated_gradient("clamped_dswiglu", CLAMPED_ATTRIBUTES),
    "silu_and_mul": gated_tensors("silu_and_mul"),
    "gelu_and_mul": gated_tensors("gelu_and_mul"),
    "silu_and_mul_bwd": gated_tensors_gradient("silu_and_mul_bwd"),
    "gelu_and_mul_bwd": gated_tensors_gradient("gelu_and_mul_bwd"),
    "scaled_softmax_forward": softmax("scaled_softmax_forward", draw_inputs("input"), ROWS + LONG),
    "scaled_softmax_backward": softmax_gradient("scaled_softmax_backward", draw_softmax_bwd, ROWS + LONG),
    "scaled_masked_softmax_forward": softmax(
        "scaled_masked_softmax_forward",
        draw_masked_softmax,
        MASKED_SHAPES,
        [Special("everything hidden", nothing_to_see)],
    ),
    "scaled_masked_softmax_backward": softmax_gradient(
        "scaled_masked_softmax_backward", draw_masked_softmax_bwd, MASKED_SHAPES
    ),
    "scaled_upper_triang_masked_softmax_forward": softmax(
        "scaled_upper_triang_masked_softmax_forward", square(draw_inputs("input")), TRIANGLE_SHAPES
    ),
    "scaled_upper_triang_masked_softmax_backward": softmax_gradient(
        "scaled_upper_triang_masked_softmax_backward", square(draw_causal_softmax_bwd), TRIANGLE_SHAPES
    ),
    "scaled_aligned_causal_masked_softmax_forward": softmax(
        "scaled_aligned_causal_masked_softmax_forward", draw_inputs("input"), CAUSAL_SHAPES
    ),
    "scaled_aligned_causal_masked_softmax_backward": softmax_gradient(
        "scaled_aligned_causal_masked_softmax_backward", draw_causal_softmax_bwd, CAUSAL_SHAPES
    ),
    "fused_rope_forward": rope("fused_rope_forward", "input", "output"),
    "fused_rope_backward": rope("fused_rope_backward", "grad", "grad_input"),
    "matmul": Op(draw_matmul, formulas.matmul, {"output": "T"}, MATMUL_SHAPES),
    "linear_dgrad": Op(draw_linear_dgrad, formulas.linear_dgrad, {"grad_input": "T"}, LINEAR_SHAPES),
    "linear_wgrad": Op(
        draw_linear_wgrad,
        formulas.linear_wgrad,
        {"grad_weight": "T", "grad_bias": "T"},
        LINEAR_SHAPES + [(66001, 2, 3)],
        optional=("grad_bias",),
    ),
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
    "fused_cross_entropy": Op(
        draw_loss,
        formulas.fused_cross_entropy,
        {"loss": "f32"},
        LOSS_SHAPES + LONG,
        [{}, *({**attributes, "scale": 0.25} for attributes in LOSS_ATTRIBUTES[1:])],
        changed={"logits": "T"},
        special=loss_specials(draw_loss),
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
    "dropout_fwd": Op(
        draw_dropout,
        formulas.dropout_fwd,
        {"output": "T", "mask": "u8"},
        ROWS + LONG,
        DROPOUT_ATTRIBUTES,
        in_place={"output": "input"},
        special=improbable(draw_dropout),
    ),
    "dropout_bwd": Op(
        draw_dropout_bwd,
        formulas.dropout_bwd,
        {"grad_input": "T"},
        ROWS,
        DROPOUT_ATTRIBUTES,
        in_place={"grad_input": "grad"},
        special=improbable(draw_dropout_bwd),
    ),
    "quantize": Op(
        draw_quantize,
        formulas.quantize,
        {"output": "F"},
        ROWS + LONG,
        [{"dtype": "F"}],
        optional=("amax",),
        changed={"amax": "f32"},
        fp8=True,
        special=[
            Special("not numbers", not_numbers, attributes={"dtype": "F"}),
            Special("infinite", infinite, attributes={"dtype": "F"}),
        ],
    ),
    "dequantize": Op(
        draw_dequantize,
        formulas.dequantize,
        {"output": "T"},
        ROWS,
        [{"dtype": "T"}],
        fp8=True,
        special=[Special("every code", all_codes, attributes={"dtype": "T"})],
    ),
    "multi_tensor_adam": Op(
        draw_adam,
        formulas.multi_tensor_adam,
        {},
        LISTS,
        [
            {},
            {"weight_decay": 0.1},
            {"weight_decay": 0.1, "decoupled": False},
            {"beta1": 0.5, "beta2": 0.9, "eps": 1e-3},
        ],
        optional=("noop",),
        changed={"params": "U", "exp_avg": "f32", "exp_avg_sq": "f32", "step": "f32"},
        two_dtypes=True,
        special=[*idle(draw_adam), Special("large gradients", large_gradients)],
    ),
    "multi_tensor_sgd": Op(
        draw_sgd,
        formulas.multi_tensor_sgd,
        {},
        LISTS,
        [
            {},
            {"momentum": 0.9},
            {"momentum": 0.9, "dampening": 0.5, "weight_decay": 0.1},
            {"momentum": 0.8, "nesterov": True},
            {"momentum": 0.9, "dampening": 0.5, "first_run": True},
        ],
        optional=("noop",),
        changed={"params": "U", "momentum_buffers": "f32"},
        two_dtypes=True,
        special=idle(draw_sgd),
    ),
    "multi_tensor_l2norm": Op(
        draw_norm,
        formulas.multi_tensor_l2norm,
        {"norm": "f32"},
        LISTS,
        special=[Special("far from 1", far_from_1), Special("near 0", near_0)],
    ),
    "multi_tensor_scale": Op(
        draw_scale,
        formulas.multi_tensor_scale,
        {},
        LISTS,
        optional=("found_inf",),
        changed={"tensors": "T", "found_inf": "i32"},
        special=[Special("not numbers", scale_no_numbers)],
    ),
}
