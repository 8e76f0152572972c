"""The ops of opdock/ops/loss.h."""

import numpy as np

from .cases import LONG, Op, Special, draw_inputs
from .linear import product
from .sums import Sum, mean, total, total_over_rows


def log_sum_exp(logits):
    largest = logits.max(-1, initial=-np.inf)
    with np.errstate(divide="ignore"):  # no classes: log(0)
        return total(largest, np.log(np.exp(logits - largest[:, None]).sum(-1)))


def at_target(logits, target, used):
    rows = np.arange(len(target))
    return np.where(used, logits[rows, np.where(used, target, 0)], 0) if logits.shape[1] else np.zeros(len(target))


def cross_entropy_fwd(logits, target, *, ignore_index=-100, label_smoothing=0.0):
    used = target != ignore_index
    lse = log_sum_exp(logits)
    terms = [np.where(used, lse.value, 0), -(1 - label_smoothing) * at_target(logits, target, used)]
    if label_smoothing:  # rather than a product with 0: a logit may be -inf
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


def fused_linear_cross_entropy(
    input, weight, target, bias=None, scale=None, *, ignore_index=-100, label_smoothing=0.0
):
    logits = input @ weight.T + (0 if bias is None else bias)
    factor = 1.0 if scale is None else scale[0]
    attributes = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    fused = fused_cross_entropy(logits, target, scale=factor, **attributes)
    grad = fused["logits"].value
    return {
        "loss": Sum(fused["loss"].value, float(np.linalg.norm(logits))),
        "grad_input": product(grad, weight),
        "grad_weight": product(grad.T, input),
        "grad_bias": total_over_rows(grad),
    }


def kl_div(input, target, *, log_target=False):
    p = np.exp(target) if log_target else target
    log_p = target if log_target else np.log(np.where(p > 0, p, 1))
    return {"loss": total_of_row(p * log_p, -np.where(p > 0, p * input, 0))}


def total_of_row(*terms):
    """The row sums of several terms per element."""
    return Sum(sum(terms).sum(-1), max(float(np.linalg.norm(np.ravel(term))) for term in terms))


def kl_div_bwd(grad_loss, target, *, log_target=False):
    return {"grad_input": -grad_loss[:, None] * (np.exp(target) if log_target else target)}


def mixture(input, target, beta):
    """q, p and the log of the mixture they are compared with, each as it counts in the loss."""
    q, p = np.exp(input), np.exp(target)
    if beta == 0:
        return 0 * q, p, input
    if beta == 1:
        return q, 0 * p, target
    return (1 - beta) * q, beta * p, np.log(beta * p + (1 - beta) * q)


def jsd(input, target, *, beta=0.5):
    q, p, log_m = mixture(input, target, beta)
    return {"loss": total_of_row(p * target, -p * log_m, q * input, -q * log_m)}


def jsd_bwd(grad_loss, input, target, *, beta=0.5):
    q, p, log_m = mixture(input, target, beta)
    grad_loss = grad_loss[:, None]
    if beta == 0:
        return {"grad_input": -grad_loss * p}
    by_beta_1 = grad_loss * q if beta == 1 else 0 * q
    return {"grad_input": total(grad_loss * q * input, -grad_loss * q * log_m, by_beta_1)}


# --- cases ---


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


# n, i, v. The last one has more rows than the CPU plugin computes logits for at a time.
LINEAR_LOSS_SHAPES = [(6, 9, 17), (33, 65, 129), (1, 1, 1), (5, 1, 3), (0, 3, 4), (20, 70, 1031), (1100, 5, 33)]


def draw_linear_loss(draw, shape, attributes):
    n, i, v = shape
    return {
        "input": draw("T", n, i),
        "weight": draw("T", v, i),
        "target": draw.classes(n, v, attributes.get("ignore_index", -100)),
        "bias": draw("T", v),
        "scale": draw.rounded("f32", draw.rng.uniform(0.1, 2, 1)),
    }


def wrong_class(draw_inputs, wrong):
    def draw_wrong(draw):
        return {**draw_inputs(draw, (4, 6), {}), "target": draw.rounded("i64", [0, -100, wrong, 5])}

    return Special(f"class {wrong} of 6 in row 2", draw_wrong, "INVALID_ARGUMENT", "row 2")


def impossible_classes(draw_inputs):
    """All logits but the target's are minus infinity, as after masking."""

    def draw_masked(draw):
        inputs = draw_inputs(draw, (5, 9), {})
        logits = np.where(np.arange(9) % 3 == 2, -np.inf, inputs["logits"].values)
        return {**inputs, "logits": draw.rounded("T", logits), "target": draw.rounded("i64", [0, 1, 3, 4, 7])}

    return Special("logits of minus infinity", draw_masked)


def loss_specials(draw_inputs):
    return [impossible_classes(draw_inputs)] + [wrong_class(draw_inputs, wrong) for wrong in (6, -1, 2**40)]


def log_probabilities(draw, shape):
    logits = draw("T", *shape).values
    return draw.rounded("T", logits - log_sum_exp(logits).value[:, None])


def draw_kl_div(draw, shape, attributes):
    target = log_probabilities(draw, shape)
    if not attributes.get("log_target"):  # some are 0
        target = draw.rounded("T", np.where(draw.rng.random(shape) < 0.2, 0, np.exp(target.values)))
    return {"input": log_probabilities(draw, shape), "target": target}


def draw_kl_div_bwd(draw, shape, attributes):
    return {"grad_loss": draw("f32", shape[0]), "target": draw_kl_div(draw, shape, attributes)["target"]}


def draw_jsd(draw, shape, attributes):
    return {"input": log_probabilities(draw, shape), "target": log_probabilities(draw, shape)}


def draw_jsd_bwd(draw, shape, attributes):
    return {"grad_loss": draw("f32", shape[0]), **draw_jsd(draw, shape, attributes)}


def strange_beta(draw_inputs, **shapes):
    draw_any = lambda draw: draw_inputs(draw, (2, 5), {})
    return [
        Special(f"beta {beta}", draw_any, "INVALID_ARGUMENT", "beta", {"beta": beta}, refused=True, shapes=shapes)
        for beta in (-0.1, 1.5)
    ]


KL_ATTRIBUTES = [{}, {"log_target": True}]
JSD_ATTRIBUTES = [{}, {"beta": 0.0}, {"beta": 1.0}, {"beta": 0.1}]

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
    "fused_linear_cross_entropy": Op(
        draw_linear_loss,
        {"loss": "f32", "grad_input": "T", "grad_weight": "T", "grad_bias": "T"},
        LINEAR_LOSS_SHAPES,
        LOSS_ATTRIBUTES,
        optional=("bias", "scale", "grad_input", "grad_weight", "grad_bias"),
        within={"loss": "T"},
    ),
    "kl_div": Op(draw_kl_div, {"loss": "f32"}, LOSS_SHAPES + LONG, KL_ATTRIBUTES),
    "kl_div_bwd": Op(draw_kl_div_bwd, {"grad_input": "T"}, LOSS_SHAPES + LONG, KL_ATTRIBUTES),
    "jsd": Op(draw_jsd, {"loss": "f32"}, LOSS_SHAPES + LONG, JSD_ATTRIBUTES, special=strange_beta(draw_jsd, loss=(2,))),
    "jsd_bwd": Op(
        draw_jsd_bwd,
        {"grad_input": "T"},
        LOSS_SHAPES + LONG,
        JSD_ATTRIBUTES,
        special=strange_beta(draw_jsd_bwd, grad_input=(2, 5)),
    ),
}
