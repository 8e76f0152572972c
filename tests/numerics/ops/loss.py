"""The ops of opdock/ops/loss.h."""

import numpy as np

import formulas

from .cases import LONG, Op, Special, draw_inputs

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
}
