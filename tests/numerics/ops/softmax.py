"""The ops of opdock/ops/softmax.h."""

import numpy as np

from .cases import LONG, Op, ROWS, Special, draw_inputs
from .sums import total


def visible_softmax(z, visible):
    """Softmax over the visible keys; 0 for hidden ones, and everywhere if none is visible."""
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


def log_softmax_fwd(input):
    largest = input.max(-1, keepdims=True, initial=-np.inf)
    with np.errstate(divide="ignore"):  # nothing is visible: log(0)
        log_sum = np.log(np.exp(input - largest).sum(-1, keepdims=True))
    return {"output": total(input, np.broadcast_to(-largest - log_sum, input.shape))}


def log_softmax_bwd(grad, output):
    return {"grad_input": total(grad, -np.exp(output) * grad.sum(-1, keepdims=True))}


# --- cases ---


def draw_softmax_bwd(draw, shape, attributes):
    output = scaled_softmax_fwd(draw("T", *shape).values)["output"]
    return {"grad": draw("T", *shape), "output": draw.rounded("T", output)}


SOFTMAX_ATTRIBUTES = [{}, {"scale": 0.37}, {"scale": -2.0}]

# b, h, q, k, m. The longest rows span more than one block of the CPU plugin.
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
    """A third of the keys is hidden, and for some queries all of them."""
    hidden = draw.rng.random((b, 1, q, k)) < 0.3
    hidden[draw.rng.random((b, 1, q)) < 0.2] = True
    return draw.rounded("u8", hidden)


def draw_masked_softmax(draw, shape, attributes):
    b, h, q, k, m = shape
    return {"input": draw("T", b, h, q, k), "mask": draw_mask(draw, m, q, k)}


def draw_masked_softmax_bwd(draw, shape, attributes):
    inputs = draw_masked_softmax(draw, shape, attributes)
    output = scaled_masked_softmax_fwd(inputs["input"].values, inputs["mask"].values)["output"]
    return {"grad": draw("T", *shape[:-1]), "output": draw.rounded("T", output)}


def draw_causal_softmax_bwd(draw, shape, attributes):
    output = scaled_aligned_causal_masked_softmax_fwd(draw("T", *shape).values)["output"]
    return {"grad": draw("T", *shape), "output": draw.rounded("T", output)}


def draw_log_softmax_bwd(draw, shape, attributes):
    output = log_softmax_fwd(draw("T", *shape).values)["output"].value
    return {"grad": draw("T", *shape), "output": draw.rounded("T", output)}


def impossible_keys(draw):
    """Some elements are minus infinity, as after masking."""
    values = draw("T", 5, 9).values
    return {"input": draw.rounded("T", np.where(np.arange(9) % 3 == 2, -np.inf, values))}


def square(draw_of):
    return lambda draw, shape, attributes: draw_of(draw, (*shape, shape[-1]), attributes)


def nothing_to_see(draw):
    return {"input": draw("T", 1, 2, 3, 9), "mask": draw.rounded("u8", np.ones((1, 1, 3, 9)))}


def forward(draw_of, shapes, special=()):
    return Op(draw_of, {"output": "T"}, shapes, SOFTMAX_ATTRIBUTES, special=list(special))


def backward(draw_of, shapes):
    return Op(draw_of, {"grad_input": "T"}, shapes, SOFTMAX_ATTRIBUTES)


OPS = {
    "scaled_softmax_fwd": forward(draw_inputs("input"), ROWS + LONG),
    "scaled_softmax_bwd": backward(draw_softmax_bwd, ROWS + LONG),
    "scaled_masked_softmax_fwd": forward(
        draw_masked_softmax, MASKED_SHAPES, [Special("everything hidden", nothing_to_see)]
    ),
    "scaled_masked_softmax_bwd": backward(draw_masked_softmax_bwd, MASKED_SHAPES),
    "scaled_upper_triang_masked_softmax_fwd": forward(square(draw_inputs("input")), TRIANGLE_SHAPES),
    "scaled_upper_triang_masked_softmax_bwd": backward(square(draw_causal_softmax_bwd), TRIANGLE_SHAPES),
    "scaled_aligned_causal_masked_softmax_fwd": forward(draw_inputs("input"), CAUSAL_SHAPES),
    "scaled_aligned_causal_masked_softmax_bwd": backward(draw_causal_softmax_bwd, CAUSAL_SHAPES),
    "log_softmax_fwd": Op(
        draw_inputs("input"), {"output": "T"}, ROWS + LONG, special=[Special("minus infinity", impossible_keys)]
    ),
    "log_softmax_bwd": Op(draw_log_softmax_bwd, {"grad_input": "T"}, ROWS + LONG),
}
