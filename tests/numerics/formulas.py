"""Every op in float64, from its definition, sharing nothing with the C++ it is compared to.

Functions are named as the op and take its inputs and attributes by name; they return the outputs by name. An output is
an array or, where it is a sum whose terms may cancel, a Sum: errors are then measured against the size of the terms
when that is larger than the result, since a result that is nearly zero by cancellation has no correct digits to lose.
"""

from typing import NamedTuple

import numpy as np


class Sum(NamedTuple):
    value: np.ndarray
    scale: float  # Euclidean norm of the largest term


def total(*terms):
    """The sum of a few terms, element by element."""
    return Sum(sum(terms), max(float(np.linalg.norm(np.ravel(term))) for term in terms))


def total_over_rows(terms):
    """The sum over all dimensions but the last."""
    return Sum(terms.sum(tuple(range(terms.ndim - 1))), float(np.linalg.norm(np.ravel(terms))))


def mean(x):
    """Over the last dimension, which stays with size 1; 0 when it is empty."""
    return x.sum(-1, keepdims=True) / max(x.shape[-1], 1)


# --- normalization ----------------------------------------------------------------------------------------------------


def gamma(weight, zero_centered_gamma):
    return 1 + weight if zero_centered_gamma else weight


def rmsnorm_fwd(input, weight, *, eps=1e-5, zero_centered_gamma=False):
    rsigma = 1 / np.sqrt(mean(input**2) + eps)
    return {"output": input * rsigma * gamma(weight, zero_centered_gamma), "rsigma": rsigma[..., 0]}


def rmsnorm_bwd(grad, input, rsigma, weight, *, zero_centered_gamma=False):
    rsigma = rsigma[..., None]
    normalized = input * rsigma
    grad_normalized = grad * gamma(weight, zero_centered_gamma)
    return {
        "grad_input": total(
            rsigma * grad_normalized, -rsigma * normalized * mean(grad_normalized * normalized)
        ),
        "grad_weight": total_over_rows(grad * normalized),
    }


def fused_add_rmsnorm_fwd(input, residual, weight, *, eps=1e-5, zero_centered_gamma=False):
    added = input + residual
    normalized = rmsnorm_fwd(added, weight, eps=eps, zero_centered_gamma=zero_centered_gamma)
    return {"output": normalized["output"], "sum": total(input, residual), "rsigma": normalized["rsigma"]}


def layernorm_fwd(input, weight, bias, *, eps=1e-5, zero_centered_gamma=False):
    mu = mean(input)
    rsigma = 1 / np.sqrt(mean((input - mu) ** 2) + eps)
    scaled = (input - mu) * rsigma * gamma(weight, zero_centered_gamma)
    return {
        "output": total(scaled, np.broadcast_to(bias, scaled.shape)),
        "mu": Sum(mu[..., 0], float(np.linalg.norm(np.ravel(input))) / max(input.shape[-1], 1)),
        "rsigma": rsigma[..., 0],
    }


def layernorm_bwd(grad, input, mu, rsigma, weight, *, zero_centered_gamma=False):
    rsigma = rsigma[..., None]
    normalized = (input - mu[..., None]) * rsigma
    grad_normalized = grad * gamma(weight, zero_centered_gamma)
    return {
        "grad_input": total(
            rsigma * grad_normalized,
            -rsigma * mean(grad_normalized),
            -rsigma * normalized * mean(grad_normalized * normalized),
        ),
        "grad_weight": total_over_rows(grad * normalized),
        "grad_bias": total_over_rows(grad),
    }


# --- activations ------------------------------------------------------------------------------------------------------


def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))  # does not overflow


GELU_SCALE = np.sqrt(2 / np.pi)
GELU_CUBIC = 0.044715


def gelu_tanh(x):
    return np.tanh(GELU_SCALE * (x + GELU_CUBIC * x**3))


def gelu(input):
    return {"output": total(0.5 * input, 0.5 * input * gelu_tanh(input))}


def dgelu(grad, input):
    t = gelu_tanh(input)
    inner = GELU_SCALE * (1 + 3 * GELU_CUBIC * input**2)
    return {"grad_input": total(0.5 * grad, 0.5 * grad * t, 0.5 * grad * input * (1 - t**2) * inner)}


def silu(input):
    return {"output": input * sigmoid(input)}


def dsilu(grad, input):
    s = sigmoid(input)
    return {"grad_input": total(grad * s, grad * input * s * (1 - s))}


def relu(input):
    return {"output": np.maximum(input, 0)}


def drelu(grad, input):
    return {"grad_input": np.where(input > 0, grad, 0)}


def halves(x):
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


def swiglu(input):
    gate, up = halves(input)
    return silu_and_mul(gate, up)


def dswiglu(grad, input):
    gate, up = halves(input)
    grad_gate = dsilu(grad * up, gate)["grad_input"]
    grad_up = grad * gate * sigmoid(gate)
    return {"grad_input": Sum(np.concatenate([grad_gate.value, grad_up], -1), grad_gate.scale)}


def silu_and_mul(gate, up):
    return {"output": gate * sigmoid(gate) * up}


# --- softmax ----------------------------------------------------------------------------------------------------------


def scaled_softmax_forward(input, *, scale=1.0):
    z = scale * input
    e = np.exp(z - z.max(-1, keepdims=True, initial=-np.inf))
    return {"output": e / e.sum(-1, keepdims=True)}


def scaled_softmax_backward(grad, output, *, scale=1.0):
    weighted = grad * output
    return {"grad_input": total(scale * weighted, -scale * output * weighted.sum(-1, keepdims=True))}


# --- rotary embedding -------------------------------------------------------------------------------------------------


def rotation_pairs(r, interleaved):
    """Indices of the first and of the second element of each pair that turns together."""
    return (np.arange(0, r, 2), np.arange(1, r, 2)) if interleaved else (np.arange(r // 2), np.arange(r // 2, r))


def fused_rope_forward(input, freqs, *, interleaved=False):
    angles = freqs[: input.shape[0]]
    first, second = rotation_pairs(freqs.shape[-1], interleaved)
    x, y = input[..., first], input[..., second]
    output = input.copy()
    output[..., first] = x * np.cos(angles[..., first]) - y * np.sin(angles[..., first])
    output[..., second] = y * np.cos(angles[..., second]) + x * np.sin(angles[..., second])
    return {"output": Sum(output, float(np.linalg.norm(np.ravel(input))))}


def fused_rope_backward(grad, freqs, *, interleaved=False):
    angles = freqs[: grad.shape[0]]
    first, second = rotation_pairs(freqs.shape[-1], interleaved)
    x, y = grad[..., first], grad[..., second]
    grad_input = grad.copy()
    grad_input[..., first] = x * np.cos(angles[..., first]) + y * np.sin(angles[..., second])
    grad_input[..., second] = y * np.cos(angles[..., second]) - x * np.sin(angles[..., first])
    return {"grad_input": Sum(grad_input, float(np.linalg.norm(np.ravel(grad))))}


# --- linear algebra, elementwise --------------------------------------------------------------------------------------


def linear_fwd(input, weight, bias=None):
    products = float(np.sqrt((input**2 @ weight.T**2).sum()))  # the norm of all products
    return {"output": Sum(input @ weight.T + (0 if bias is None else bias), products)}


def add(a, b, *, alpha=1.0):
    return {"output": total(a, alpha * b)}


def mul(a, b):
    return {"output": a * b}


# --- loss -------------------------------------------------------------------------------------------------------------


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
