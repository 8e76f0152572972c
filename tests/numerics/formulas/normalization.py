"""The ops of opdock/ops/normalization.h."""

import numpy as np

from .sums import mean, Sum, total, total_over_rows


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
