"""Every op in float64, from its definition, sharing nothing with the C++ it is compared to.

Functions are named as the op and take its inputs and attributes by name; they return the outputs by name. An output is
an array or, where it is a sum whose terms may cancel, a Sum: errors are then measured against the size of the terms
when that is larger than the result, since a result that is nearly zero by cancellation has no correct digits to lose.
"""

from typing import NamedTuple

import numpy as np

from tensors import fp8_codes, fp8_values


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


def rmsnorm_bwd_add(grad, input, add, rsigma, weight, **attributes):
    gradients = rmsnorm_bwd(grad, input, rsigma, weight, **attributes)
    without = gradients["grad_input"]
    added = Sum(without.value + add, max(without.scale, float(np.linalg.norm(np.ravel(add)))))
    return {**gradients, "grad_input": added}


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


def qgelu(input):
    return {"output": input * sigmoid(1.702 * input)}


def dqgelu(grad, input):
    s = sigmoid(1.702 * input)
    return {"grad_input": total(grad * s, grad * 1.702 * input * s * (1 - s))}


def relu(input):
    return {"output": np.maximum(input, 0)}


def drelu(grad, input):
    return {"grad_input": np.where(input > 0, grad, 0)}


def srelu(input):
    return {"output": np.maximum(input, 0) ** 2}


def dsrelu(grad, input):
    return {"grad_input": 2 * grad * np.maximum(input, 0)}


def with_bias(derivative):
    def backward(grad, input):
        grad_input = derivative(grad, input)["grad_input"]
        terms = grad_input.value if isinstance(grad_input, Sum) else grad_input
        return {"grad_bias": total_over_rows(terms), "grad_input": grad_input}

    return backward


dbias_dgelu, dbias_dqgelu, dbias_drelu = with_bias(dgelu), with_bias(dqgelu), with_bias(drelu)
dbias_dsilu, dbias_dsrelu = with_bias(dsilu), with_bias(dsrelu)


# --- gated activations ------------------------------------------------------------------------------------------------


def halves(x):
    n = x.shape[-1] // 2
    return x[..., :n], x[..., n:]


def as_sum(output):
    return output if isinstance(output, Sum) else Sum(output, 0.0)


def scaled(output, factor):
    """An output times a factor; the terms grow with it."""
    value, scale = as_sum(output)
    return Sum(value * factor, scale * float(np.sqrt(np.mean(factor**2))) if scale else 0.0)


def gate_of(activation):
    """act(gate) * up, for the op's name act."""

    def forward(gate, up):
        return {"output": scaled(activation(gate)["output"], up)}

    return forward


def gate_gradient_of(activation, derivative):
    def backward(grad, gate, up):
        return {
            "grad_gate": derivative(grad * up, gate)["grad_input"],
            "grad_up": scaled(activation(gate)["output"], grad),
        }

    return backward


silu_and_mul, silu_and_mul_bwd = gate_of(silu), gate_gradient_of(silu, dsilu)
gelu_and_mul, gelu_and_mul_bwd = gate_of(gelu), gate_gradient_of(gelu, dgelu)


def glu(activation):
    return lambda input: gate_of(activation)(*halves(input))


def dglu(activation, derivative):
    def backward(grad, input):
        gradients = gate_gradient_of(activation, derivative)(grad, *halves(input))
        first, second = as_sum(gradients["grad_gate"]), as_sum(gradients["grad_up"])
        return {"grad_input": Sum(np.concatenate([first.value, second.value], -1), max(first.scale, second.scale))}

    return backward


geglu, dgeglu = glu(gelu), dglu(gelu, dgelu)
qgeglu, dqgeglu = glu(qgelu), dglu(qgelu, dqgelu)
reglu, dreglu = glu(relu), dglu(relu, drelu)
sreglu, dsreglu = glu(srelu), dglu(srelu, dsrelu)
swiglu, dswiglu = glu(silu), dglu(silu, dsilu)


def clamped_swiglu(input, *, limit=7.0, alpha=1.702):
    first, second = halves(input)
    a, b = np.minimum(first, limit), np.clip(second, -limit, limit)
    gated = a * sigmoid(alpha * a)
    return {"output": total(gated * b, gated)}


def clamped_dswiglu(grad, input, *, limit=7.0, alpha=1.702):
    first, second = halves(input)
    a, b = np.minimum(first, limit), np.clip(second, -limit, limit)
    s = sigmoid(alpha * a)
    above = grad * (b + 1) * np.where(first <= limit, 1, 0)
    by_first = total(above * s, above * alpha * a * s * (1 - s))
    by_second = grad * a * s * np.where(np.abs(second) <= limit, 1, 0)
    shifted = float(np.linalg.norm(np.ravel(grad * b)))  # b + 1 may cancel
    return {"grad_input": Sum(np.concatenate([by_first.value, by_second], -1), max(by_first.scale, shifted))}


# --- softmax ----------------------------------------------------------------------------------------------------------


def visible_softmax(z, visible):
    """Over the keys that are visible; 0 for the others, and for all where none is."""
    largest = z.max(-1, keepdims=True, initial=-np.inf, where=visible)
    e = np.exp(z - np.where(visible, largest, z)) * visible
    total = e.sum(-1, keepdims=True)
    return e / np.where(visible.any(-1, keepdims=True), total, 1)


def scaled_softmax_forward(input, *, scale=1.0):
    return {"output": visible_softmax(scale * input, np.full(input.shape, True))}


def scaled_softmax_backward(grad, output, *, scale=1.0):
    weighted = grad * output
    return {"grad_input": total(scale * weighted, -scale * output * weighted.sum(-1, keepdims=True))}


def scaled_masked_softmax_forward(input, mask, *, scale=1.0):
    return {"output": visible_softmax(scale * input, np.broadcast_to(mask == 0, input.shape))}


def scaled_aligned_causal_masked_softmax_forward(input, *, scale=1.0):
    visible = np.tri(*input.shape[-2:], input.shape[-1] - input.shape[-2], dtype=bool)
    return {"output": visible_softmax(scale * input, np.broadcast_to(visible, input.shape))}


scaled_upper_triang_masked_softmax_forward = scaled_aligned_causal_masked_softmax_forward
scaled_masked_softmax_backward = scaled_softmax_backward
scaled_upper_triang_masked_softmax_backward = scaled_softmax_backward
scaled_aligned_causal_masked_softmax_backward = scaled_softmax_backward


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


def product(a, b):
    """a @ b; the size of its terms is the norm of all products."""
    return Sum(a @ b, float(np.sqrt((a**2 @ b**2).sum())))


def matmul(a, b):
    return {"output": product(a, b)}


def linear_fwd(input, weight, bias=None):
    value, scale = product(input, weight.T)
    return {"output": Sum(value + (0 if bias is None else bias), scale)}


def linear_dgrad(grad, weight):
    return {"grad_input": product(grad, weight)}


def linear_wgrad(grad, input):
    rows = grad.reshape(int(np.prod(grad.shape[:-1])), grad.shape[-1])
    return {
        "grad_weight": product(rows.T, input.reshape(len(rows), input.shape[-1])),
        "grad_bias": total_over_rows(grad),
    }


def add(a, b, *, alpha=1.0):
    return {"output": total(a, alpha * b)}


def mul(a, b):
    return {"output": a * b}


# --- dropout, quantization --------------------------------------------------------------------------------------------

WORD = np.uint64(0xFFFFFFFF)


def philox(counters, key):
    """Philox 4x32-10: counters are rows of four 32-bit words, the key is two."""
    a, b, c, d = (np.asarray(word, np.uint64) for word in counters)
    low_key, high_key = (int(word) for word in key)
    for _ in range(10):
        of_a, of_c = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        a, b, c, d = (
            (of_c >> shift) ^ b ^ np.uint64(low_key),
            of_c & WORD,
            (of_a >> shift) ^ d ^ np.uint64(high_key),
            of_a & WORD,
        )
        low_key, high_key = (low_key + 0x9E3779B9) % 2**32, (high_key + 0xBB67AE85) % 2**32
    return np.stack([a, b, c, d], -1)


def halves_of(number):
    number = int(number) % 2**64
    return number % 2**32, number // 2**32


def dropout_fwd(input, rng_state, *, p):
    counters = np.arange(-(-input.size // 4), dtype=np.uint64)
    offset = (np.full(counters.shape, half, np.uint64) for half in halves_of(rng_state[1]))
    words = philox((counters & WORD, counters >> np.uint64(32), *offset), halves_of(rng_state[0]))
    kept = words.reshape(-1)[: input.size].reshape(input.shape) >= np.uint64(np.floor(p * 2**32 + 0.5))
    return {"output": dropout_bwd(input, kept, p=p)["grad_input"], "mask": kept.astype(np.uint8)}


def dropout_bwd(grad, mask, *, p):
    return {"grad_input": np.where(mask != 0, grad, 0) / (1 - p if p < 1 else 1)}


def quantize(input, scale, amax, *, dtype):
    product = (input * scale).astype(np.float32).astype(np.float64)
    quantized = {"output": fp8_values(fp8_codes(product, dtype), dtype)}
    if amax is not None:
        quantized["amax"] = np.maximum(amax, np.abs(input).max(initial=-np.inf))
    return quantized


def dequantize(input, scale_inv, *, dtype):
    return {"output": input * scale_inv}


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


def fused_cross_entropy(logits, target, *, ignore_index=-100, label_smoothing=0.0, scale=1.0):
    attributes = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    forward = cross_entropy_fwd(logits, target, **attributes)
    grad_loss = np.full(len(target), scale)
    backward = cross_entropy_bwd(grad_loss, logits, target, forward["lse"].value, **attributes)
    return {"loss": forward["loss"], "logits": backward["grad_logits"]}


# --- optimizer --------------------------------------------------------------------------------------------------------


def lists(rows):
    """A list of tuples as a tuple of lists."""
    return [list(column) for column in zip(*rows)]


def multi_tensor_adam(
    grads,
    params,
    exp_avg,
    exp_avg_sq,
    lr,
    step,
    noop,
    *,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    weight_decay=0.0,
    decoupled=True,
):
    if noop is not None and noop[0] != 0:
        return {"params": params, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq, "step": step}
    steps = step + 1

    def update(g, p, m, v):
        if not decoupled:
            g = g + weight_decay * p
        m = total(beta1 * m, (1 - beta1) * g)
        v = beta2 * v + (1 - beta2) * g**2
        change = lr * (m.value / (1 - beta1**steps)) / (np.sqrt(v / (1 - beta2**steps)) + eps)
        return total(p * (1 - lr * weight_decay if decoupled else 1), -change), m, v

    params, exp_avg, exp_avg_sq = lists(map(update, grads, params, exp_avg, exp_avg_sq))
    return {"params": params, "exp_avg": exp_avg, "exp_avg_sq": exp_avg_sq, "step": steps}


def multi_tensor_sgd(
    grads,
    params,
    momentum_buffers,
    lr,
    noop,
    *,
    momentum=0.0,
    dampening=0.0,
    weight_decay=0.0,
    nesterov=False,
    first_run=False,
):
    if noop is not None and noop[0] != 0:
        return {"params": params, "momentum_buffers": momentum_buffers}

    def update(g, p, buffer):
        step = total(g, weight_decay * p)
        if momentum:
            taken = Sum(step.value * (1 - dampening), step.scale * (1 - dampening))
            buffer = step if first_run else total(momentum * buffer, taken.value)
            step = Sum(step.value + momentum * buffer.value, buffer.scale + step.scale) if nesterov else buffer
        terms = max(float(np.linalg.norm(p)), float(lr[0]) * step.scale)
        return Sum(p - lr * step.value, terms), buffer

    params, momentum_buffers = lists(map(update, grads, params, momentum_buffers))
    return {"params": params, "momentum_buffers": momentum_buffers}


def multi_tensor_l2norm(inputs):
    return {"norm": np.sqrt(sum((x**2).sum() for x in inputs)).reshape(1)}


def multi_tensor_scale(tensors, scale, found_inf):
    tensors = [x * scale for x in tensors]
    if found_inf is None:
        return {"tensors": tensors}
    return {"tensors": tensors, "found_inf": found_inf if all(np.isfinite(x).all() for x in tensors) else found_inf * 0 + 1}
