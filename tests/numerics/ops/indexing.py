"""The ops of opdock/ops/indexing.h."""

import numpy as np

from .cases import Op, Special, draw_inputs
from .sums import Sum, total


def embedding(weight, indices):
    return {"output": weight[indices]}


def embedding_bwd(grad, weight, indices):
    grad_weight = np.zeros(weight.shape)
    np.add.at(grad_weight, indices, grad)
    return {"grad_weight": Sum(grad_weight, float(np.linalg.norm(np.ravel(grad))))}


def permute_021(input):
    return {"output": input.swapaxes(1, 2)}


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def topk(input, *, k):
    indices = np.argsort(-input, axis=-1, kind="stable")[..., :k]
    return {"values": np.take_along_axis(input, indices, -1), "indices": indices}


def topk_softmax_fwd(logits, *, k, renormalize=False):
    indices = np.argsort(-logits, axis=-1, kind="stable")[:, :k]
    chosen = np.take_along_axis(logits if renormalize else softmax(logits), indices, -1)
    return {"weights": softmax(chosen) if renormalize else chosen, "indices": indices.astype(np.int32)}


def topk_softmax_bwd(grad_weights, logits, weights, indices, *, renormalize=False):
    to_each = np.zeros(logits.shape)
    np.put_along_axis(to_each, indices, weights * grad_weights, -1)
    p = softmax(logits)
    if renormalize:
        p = np.zeros(logits.shape)
        np.put_along_axis(p, indices, weights, -1)
    return {"grad_logits": total(to_each, -p * (weights * grad_weights).sum(-1, keepdims=True))}


# --- cases ---


# The shape of the indices, v, n.
EMBEDDING_SHAPES = [
    (2, 3, 7, 17),
    (33, 5, 65),
    (9, 20, 257),
    (1, 1),
    (5, 3, 1),
    (0, 4, 8),
    (3, 4, 0),
    (0, 0, 3),
    (70, 2, 4099),
]


def draw_embedding(draw, shape, attributes):
    *leading, v, n = shape
    return {"weight": draw("T", v, n), "indices": draw.rounded("i64", draw.rng.integers(0, max(v, 1), leading))}


def draw_embedding_bwd(draw, shape, attributes):
    return {"grad": draw("T", *shape[:-2], shape[-1]), **draw_embedding(draw, shape, attributes)}


def wrong_index(draw_inputs, wrong, shapes):
    def draw_wrong(draw):
        return {**draw_inputs(draw, (4, 6, 5), {}), "indices": draw.rounded("i64", [0, 5, wrong, 5])}

    return Special(f"index {wrong} of 6", draw_wrong, "INVALID_ARGUMENT", "indices", shapes=shapes)


def wrong_indices(draw_inputs, **shapes):
    return [wrong_index(draw_inputs, wrong, shapes) for wrong in (6, -1, 2**40)]


MATRICES = [(3, 5, 17), (2, 65, 33), (1, 1, 1), (1, 1, 7), (4, 40, 1), (0, 3, 4), (2, 0, 3), (2, 3, 0), (1, 300, 129)]

# t, e. The second has many ties.
TOPK_SHAPES = [(6, 17), (33, 64), (5, 8), (1, 512), (0, 8), (3, 4099)]
TOPK_ATTRIBUTES = [{"k": 4}, {"k": 1}, {"k": 8, "renormalize": True}, {"k": 2, "renormalize": True}, {"k": 0}]


def draw_topk_softmax_bwd(draw, shape, attributes):
    logits = draw("T", *shape)
    k, renormalize = 4, attributes.get("renormalize", False)
    saved = topk_softmax_fwd(logits.values, k=k, renormalize=renormalize)
    return {
        "grad_weights": draw("f32", shape[0], k),
        "logits": logits,
        "weights": draw.rounded("f32", saved["weights"]),
        "indices": draw.rounded("i32", saved["indices"]),
    }


def equal_logits(draw):
    """Of equal values, those with the lower indices are chosen."""
    return {"logits": draw.rounded("T", np.tile([1.0, 0.5], (3, 6)))}


def no_expert(draw):
    inputs = draw_topk_softmax_bwd(draw, (3, 6), {})
    return {**inputs, "indices": draw.rounded("i32", [[0, 1, 2, 3], [1, 2, 3, 6], [0, 1, 2, 3]])}


OPS = {
    "embedding": Op(
        draw_embedding,
        {"output": "T"},
        EMBEDDING_SHAPES,
        special=wrong_indices(draw_embedding, output=(4, 5)),
    ),
    "embedding_bwd": Op(
        draw_embedding_bwd,
        {"grad_weight": "T"},
        EMBEDDING_SHAPES + [(66001, 2, 3)],
        special=wrong_indices(draw_embedding_bwd, grad_weight=(6, 5)),
    ),
    "permute_021": Op(draw_inputs("input"), {"output": "T"}, MATRICES),
    "topk": Op(
        draw_inputs("input"),
        {"values": "T", "indices": "i64"},
        [(2, 3, 17), (33, 64), (8,), (1, 512), (0, 8), (3, 4099), (2, 66001)],
        [{"k": 4}, {"k": 1}, {"k": 8}, {"k": 0}],
        special=[Special("equals", lambda draw: {"input": equal_logits(draw)["logits"]}, attributes={"k": 7})],
    ),
    "topk_softmax_fwd": Op(
        draw_inputs("logits"),
        {"weights": "f32", "indices": "i32"},
        TOPK_SHAPES,
        TOPK_ATTRIBUTES,
        special=[Special("equal logits", equal_logits, attributes={"k": 7})],
    ),
    "topk_softmax_bwd": Op(
        draw_topk_softmax_bwd,
        {"grad_logits": "T"},
        TOPK_SHAPES,
        [{}, {"renormalize": True}],
        special=[Special("no expert", no_expert, "INVALID_ARGUMENT", "row 1")],
    ),
}
