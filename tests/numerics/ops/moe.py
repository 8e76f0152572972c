"""The ops of opdock/ops/moe.h."""

import numpy as np

from .cases import Op, Special
from .sums import Sum, total

LEAST_SUM = 1e-20


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def topk_sigmoid_fwd(logits, bias=None, *, k, renormalize=False, scale=1.0):
    s = sigmoid(logits)
    of_choice = s.astype(np.float32) + (np.float32(0) if bias is None else bias.astype(np.float32))
    indices = np.argsort(-of_choice, axis=-1, kind="stable")[:, :k]
    chosen = np.take_along_axis(s, indices, -1)
    weights = scale * (chosen / (chosen.sum(-1, keepdims=True) + LEAST_SUM) if renormalize else chosen)
    return {"weights": weights, "indices": indices.astype(np.int32)}


def topk_sigmoid_bwd(grad_weights, logits, indices, *, renormalize=False, scale=1.0):
    s = sigmoid(np.take_along_axis(logits, indices, -1))
    slope = s * (1 - s)
    grads = [scale * grad_weights]
    if renormalize:
        d = s.sum(-1, keepdims=True) + LEAST_SUM
        grads = [grads[0] / d, -(grads[0] * s).sum(-1, keepdims=True) / d**2]
    value, scale_of_terms = total(*(grad * slope for grad in grads))
    grad_logits = np.zeros(logits.shape)
    np.put_along_axis(grad_logits, indices, value, -1)
    return {"grad_logits": Sum(grad_logits, scale_of_terms)}


def moe_align(indices, *, experts):
    experts_of = np.where(indices < 0, experts, indices).ravel()
    order = np.argsort(experts_of, kind="stable")
    places = np.empty(order.shape, np.int32)
    places[order] = np.arange(len(order))
    places = np.where(experts_of < experts, places, -1 - places).reshape(indices.shape)
    starts = np.searchsorted(experts_of[order], np.arange(experts + 1))
    return {name: array.astype(np.int32) for name, array in [("places", places), ("order", order), ("starts", starts)]}


def moe_permute(input, places):
    output = np.zeros((places.size, input.shape[1]))
    for (token, choice), place in np.ndenumerate(places):
        if place >= 0:
            output[place] = input[token]
    return {"output": output}


def rows_of_choices(rows, places):
    """Rows as [t, k, n]; 0 for dropped ones."""
    return np.where(places[..., None] < 0, 0, rows[np.maximum(places, 0)])


def moe_permute_bwd(grad, places):
    rows = rows_of_choices(grad, places)
    return {"grad_input": Sum(rows.sum(1), float(np.linalg.norm(np.ravel(rows))))}


def moe_unpermute(input, places, weights):
    rows = weights[..., None] * rows_of_choices(input, places)
    return {"output": Sum(rows.sum(1), float(np.linalg.norm(np.ravel(rows))))}


def moe_unpermute_bwd(grad, input, places, weights):
    grad_input = np.zeros(input.shape)
    for (token, choice), place in np.ndenumerate(places):
        if place >= 0:
            grad_input[place] = weights[token, choice] * grad[token]
    products = grad[:, None, :] * rows_of_choices(input, places)
    return {"grad_input": grad_input, "grad_weights": Sum(products.sum(-1), float(np.linalg.norm(np.ravel(products))))}


# --- cases ---


# t, e
TOPK_SHAPES = [(6, 17), (33, 64), (5, 8), (1, 512), (0, 8), (3, 4099)]
TOPK_ATTRIBUTES = [
    {"k": 4},
    {"k": 1, "scale": 2.5},
    {"k": 8, "renormalize": True, "scale": 2.5},
    {"k": 2, "renormalize": True},
    {"k": 0},
]


def draw_topk_sigmoid(draw, shape, attributes):
    return {"logits": draw("T", *shape), "bias": draw("f32", shape[1])}


def draw_topk_sigmoid_bwd(draw, shape, attributes):
    forward = draw_topk_sigmoid(draw, shape, attributes)
    saved = topk_sigmoid_fwd(*(tensor.values for tensor in forward.values()), k=4)
    return {
        "grad_weights": draw("f32", shape[0], 4),
        "logits": forward["logits"],
        "indices": draw.rounded("i32", saved["indices"]),
    }


def equal_scores(draw):
    """Of equal values, those with the lower indices are chosen; the large logits all give 1."""
    return {"logits": draw.rounded("T", np.tile([1.0, 30.0, 40.0], (3, 4))), "bias": None}


def no_expert(draw):
    inputs = draw_topk_sigmoid_bwd(draw, (3, 6), {})
    return {**inputs, "indices": draw.rounded("i32", [[0, 1, 2, 3], [1, 2, 3, 6], [0, 1, 2, 3]])}


# t, k, n
MOE_SHAPES = [(5, 2, 17), (33, 3, 64), (1, 1, 1), (7, 8, 257), (0, 2, 5), (3, 0, 4), (4, 2, 0), (6, 1, 4099), (1030, 2, 8)]
ALIGN_ATTRIBUTES = [{"experts": 4}, {"experts": 1}, {"experts": 300}, {"experts": 0}]


def draw_indices(draw, shape, attributes):
    return {"indices": draw.rounded("i32", draw.rng.integers(-1, attributes["experts"], shape[:2]))}


def draw_places(draw, shape):
    indices = draw_indices(draw, shape, {"experts": 5})["indices"]
    return draw.rounded("i32", moe_align(indices.values, experts=5)["places"])


def draw_permute(draw, shape, attributes):
    return {"input": draw("T", shape[0], shape[2]), "places": draw_places(draw, shape)}


def draw_permute_bwd(draw, shape, attributes):
    t, k, n = shape
    return {"grad": draw("T", t * k, n), "places": draw_places(draw, shape)}


def draw_unpermute(draw, shape, attributes):
    t, k, n = shape
    return {"input": draw("T", t * k, n), "places": draw_places(draw, shape), "weights": draw("f32", t, k)}


def draw_unpermute_bwd(draw, shape, attributes):
    return {"grad": draw("T", shape[0], shape[2]), **draw_unpermute(draw, shape, attributes)}


def too_large(draw):
    return {"indices": draw.rounded("i32", [[0, 1], [-1, 3], [4, 0]])}


def wrong_places(draw_inputs, **shapes):
    def special(wrong):
        def draw_wrong(draw):
            return {**draw_inputs(draw, (3, 2, 5), {}), "places": draw.rounded("i32", [[0, 1], [wrong, 2], [-4, 5]])}

        return Special(f"place {wrong} of 6", draw_wrong, "INVALID_ARGUMENT", "places: row 1", shapes=shapes)

    return [special(wrong) for wrong in (6, -7)]


OPS = {
    "topk_sigmoid_fwd": Op(
        draw_topk_sigmoid,
        {"weights": "f32", "indices": "i32"},
        TOPK_SHAPES,
        TOPK_ATTRIBUTES,
        optional=("bias",),
        special=[Special("equal scores", equal_scores, attributes={"k": 7})],
    ),
    "topk_sigmoid_bwd": Op(
        draw_topk_sigmoid_bwd,
        {"grad_logits": "T"},
        TOPK_SHAPES,
        [{}, {"renormalize": True, "scale": 2.5}],
        special=[Special("no expert", no_expert, "INVALID_ARGUMENT", "row 1")],
    ),
    "moe_align": Op(
        draw_indices,
        {"places": "i32", "order": "i32", "starts": "i32"},
        MOE_SHAPES,
        ALIGN_ATTRIBUTES,
        special=[
            Special(
                "no expert",
                too_large,
                "INVALID_ARGUMENT",
                "indices: row 2",
                {"experts": 4},
                shapes={"places": (3, 2), "order": (6,), "starts": (5,)},
            )
        ],
    ),
    "moe_permute": Op(
        draw_permute,
        {"output": "T"},
        MOE_SHAPES,
        distinct=("places",),
        special=wrong_places(draw_permute, output=(6, 5)),
    ),
    "moe_permute_bwd": Op(
        draw_permute_bwd, {"grad_input": "T"}, MOE_SHAPES, special=wrong_places(draw_permute_bwd, grad_input=(3, 5))
    ),
    "moe_unpermute": Op(
        draw_unpermute, {"output": "T"}, MOE_SHAPES, special=wrong_places(draw_unpermute, output=(3, 5))
    ),
    "moe_unpermute_bwd": Op(
        draw_unpermute_bwd,
        {"grad_input": "T", "grad_weights": "f32"},
        MOE_SHAPES,
        optional=("grad_weights",),
        distinct=("places",),
        special=wrong_places(draw_unpermute_bwd, grad_input=(6, 5), grad_weights=(3, 2)),
    ),
}
