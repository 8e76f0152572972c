"""The ops of opdock/ops/loss.h."""

import numpy as np

from .cases import LONG, Op, Special, draw_inputs
from .sums import mean, total


def log_sum_exp(logits):
    largest = logits.max(-1, initial=-np.inf)
    with np.errstate(divide="ignore"):  # no classes: the log of 0
        return total(largest, np.log(np.exp(logits - largest[:, None]).sum(-1)))


def at_target(logits, target, used):
    rows = np.arange(len(target))
    return np.where(used, logits[rows, np.where(used, target, 0)], 0) if logits.shape[1] else np.zeros(len(target))


def cross_entropy_fwd(logits, target, *, ignore_index=-100, label_smoothing=0.0):
    used = target != ignore_index
    lse = log_sum_exp(logits)
    terms = [np.where(used, lse.value, 0), -(1 - label_smoothing) * at_target(logits, target, used)]
    if label_smoothing:  # not a product with 0: a logit may be -inf
        terms.append(np.where(used, -label_smoothing * mean(logits)[:, 0], 0))
    return {"loss": total(*terms), "lse": lse}


def cross_entropy_bwd(grad_loss, logits, target, lse, *, ignore_index=-100, label_smoothing=0.0):
    used = target != ignore_index
    classes = logits.shape[1]
    grad = np.where(used, grad_loss, 0)[:, None]
    one_hot = target[:, None] == np.arange(classes)
    return {
        "grad_logits": total(
            grad * np.exp(logits - lse[:, None]),
            -grad * (1 - label_smoothing) * one_hot,
            np.broadcast_to(-grad * label_smoothing / max(classes, 1), logits.shape),
        )
    }


def fused_cross_entropy(logits, target, *, ignore_index=-100, label_smoothing=0.0, scale=1.0):
    attributes = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    forward = cross_entropy_fwd(logits, target, **attributes)
    grad_loss = np.full(len(target), scale)
    backward = cross_entropy_bwd(grad_loss, logits, target, forward["lse"].value, **attributes)
    return {"loss": forward["loss"], "logits": backward["grad_logits"]}


# --- what they are tried on ---


LOSS_SHAPES = [(6, 17), (33, 257), (1, 1), (1, 5), (5, 1), (0, 8), (3, 0), (3, 4099)]
LOSS_ATTRIBUTES = [{}, {"label_smoothing": 0.1}, {"ignore_index": 1}, {"label_smoothing": 0.3, "ignore_index": 0}]


def draw_loss(draw, shape, attributes):
    return {
        "logits": draw("T", *shape),
        "target": draw.classes(*shape, attributes.get("ignore_index", -100)),
    }


def draw_loss_bwd(draw, shape, attributes):
    forward = draw_loss(draw, shape, attributes)
    lse = log_sum_exp(forward["logits"].values)
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
        {"loss": "f32", "lse": "f32"},
        LOSS_SHAPES + LONG,
        LOSS_ATTRIBUTES,
        optional=("lse",),
        special=loss_specials(draw_loss),
    ),
    "cross_entropy_bwd": Op(
        draw_loss_bwd,
        {"grad_logits": "T"},
        LOSS_SHAPES + LONG,
        LOSS_ATTRIBUTES,
        special=loss_specials(draw_loss_bwd),
    ),
    "fused_cross_entropy": Op(
        draw_loss,
        {"loss": "f32"},
        LOSS_SHAPES + LONG,
        [{}, *({**attributes, "scale": 0.25} for attributes in LOSS_ATTRIBUTES[1:])],
        changed={"logits": "T"},
        special=loss_specials(draw_loss),
    ),
}
