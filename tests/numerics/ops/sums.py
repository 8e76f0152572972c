"""Outputs that are sums whose terms may cancel: errors are measured relative to the size of the terms.

A result that is nearly zero through cancellation has no correct digits to lose.
"""

from typing import NamedTuple

import numpy as np


class Sum(NamedTuple):
    value: np.ndarray
    scale: float  # Euclidean norm of the largest term


def total(*terms):
    """The elementwise sum of several terms."""
    return Sum(sum(terms), max(float(np.linalg.norm(np.ravel(term))) for term in terms))


def total_over_rows(terms):
    """The sum over all dimensions but the last."""
    return Sum(terms.sum(tuple(range(terms.ndim - 1))), float(np.linalg.norm(np.ravel(terms))))


def as_sum(output):
    return output if isinstance(output, Sum) else Sum(output, 0.0)


def scaled(output, factor):
    """An output multiplied by a factor; the size of its terms grows with it."""
    value, scale = as_sum(output)
    return Sum(value * factor, scale * float(np.sqrt(np.mean(factor**2))) if scale else 0.0)


def mean(x):
    """The mean over the last dimension, kept with size 1; 0 if it is empty."""
    return x.sum(-1, keepdims=True) / max(x.shape[-1], 1)
