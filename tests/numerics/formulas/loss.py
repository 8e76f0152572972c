"""The ops of opdock/ops/loss.h."""

import numpy as np

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
