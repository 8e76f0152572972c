"""The ops of opdock/ops/sampling.h."""

import numpy as np

from .cases import Op, Special
from .elementwise import philox

HALF = np.uint64(32)


def weights_of(row):
    """The weights of a row's logits, which are exact in f32, relative to the largest logit that is a number."""
    largest = np.float32(np.fmax.reduce(row))
    x = row.astype(np.float32)
    with np.errstate(invalid="ignore"):
        below = np.where(x == largest, np.float32(0), largest - x)
    has_weight = below < 32
    z = np.floor(np.where(has_weight, below, 0).astype(np.float64) * 2**27).astype(np.uint64)
    y = np.uint64(3098164009) * z
    f = (y >> np.uint64(26)) & np.uint64(0xFFFFFFFF)
    a = f * np.uint64(4035806) >> HALF
    for next_one in (39487045, 237459814, 1031553340, 2977028413):
        a = f * (np.uint64(next_one) - a) >> HALF
    return np.where(has_weight, (np.uint64(2**32) - a) << np.uint64(8) >> (y >> np.uint64(58)), np.uint64(0))


def draw_index(row, k, p, number):
    if not np.fmax.reduce(row, initial=-np.inf) > -np.inf:
        return -1
    weights = [int(weight) for weight in weights_of(row)]
    order = np.lexsort((np.arange(row.size), -row))  # NaN comes last
    left = order[: k if 0 < k < row.size else row.size]
    if p < 1:
        share = int(np.floor(max(float(p), 0.0) * 2**32)) * sum(weights[i] for i in left)
        before, all_left, left = 0, left, []
        for i in all_left:
            if left and 2**32 * before >= share:
                break
            left.append(i)
            before += weights[i]
    target = number * sum(weights[i] for i in left) >> 64
    for i in sorted(left):
        target -= weights[i]
        if target < 0:
            return i


def sample_top_k_top_p(logits, rng_state, k, p):
    halves = lambda number: (int(number) % 2**32, int(number) % 2**64 >> 32)
    indices = []
    for i, row in enumerate(logits):
        a, b, _, _ = (int(word) for word in philox((*halves(i), *halves(rng_state[1])), halves(rng_state[0])))
        indices.append(draw_index(row, 0 if k is None else k[i], 1.0 if p is None else p[i], a | b << 32))
    return {"indices": np.array(indices, np.int64).reshape(len(logits))}


# --- cases ---


# b, v
SAMPLING_SHAPES = [(6, 17), (33, 64), (5, 8), (1, 1), (3, 512), (0, 8), (2, 0), (4, 4099), (2, 66001)]


def draw_sampling(draw, shape, attributes):
    b, v = shape
    k = np.where(draw.rng.random(b) < 0.3, draw.rng.integers(-1, 1, b), draw.rng.integers(1, v + 2, b))
    return {
        "logits": draw("T", b, v),
        "rng_state": draw.rounded("i64", draw.rng.integers(-(2**63), 2**63 - 1, 2)),
        "k": draw.rounded("i32", k),
        "p": draw.rounded("f32", draw.rng.uniform(-0.1, 1.2, b)),
    }


def far_rows(draw):
    """Values without weight, infinities and NaN; ties; and each filter at its limits."""
    inf, nan = np.inf, np.nan
    rows = [
        [-inf, -inf, -inf, -inf],
        [nan, nan, nan, nan],
        [nan, -inf, nan, -inf],
        [0, inf, 5, inf],
        [nan, 1, 2, nan],
        [-inf, -31, 0, -33],
        [3, 3, 3, 3],
        [3, 3, 3, 3],
        [-0.0, 0.0, -0.0, 0.0],
        [1, 2, 3, 4],
    ]
    inputs = draw_sampling(draw, (len(rows), 4), {})
    k = [0, 1, 2, 1, 3, 0, 3, 0, 1, 2**31 - 1]
    p = [1, 0.5, 1, 1, 1, 1, 0.5, 0.51, 1, nan]
    return {**inputs, "logits": draw.rounded("T", rows), "k": draw.rounded("i32", k), "p": draw.rounded("f32", p)}


OPS = {
    "sample_top_k_top_p": Op(
        draw_sampling,
        {"indices": "i64"},
        SAMPLING_SHAPES,
        optional=("k", "p"),
        special=[Special("far rows", far_rows) for _ in range(3)],
    ),
}
