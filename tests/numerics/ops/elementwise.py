"""The ops of opdock/ops/elementwise.h."""

import numpy as np

from tensors import FP8, Tensor, fp8_codes, fp8_values

from .cases import LONG, Op, ROWS, Special, draw_inputs
from .sums import total


def add(a, b, *, alpha=1.0):
    return {"output": total(a, alpha * b)}


def mul(a, b):
    return {"output": a * b}


WORD = np.uint64(0xFFFFFFFF)


def philox(counters, key):
    """Philox 4x32-10: each row of counters has four 32-bit words, the key has two."""
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


def eight_bits(input, amax, dtype):
    """The quotients and the scales. For each element of input, amax is the maximum of its scale's group."""
    largest = 127 if dtype == "i8" else FP8[dtype].largest
    scale = (amax / largest).astype(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        quotient = np.where(scale == 0, 0, input / np.where(scale == 0, 1, scale))
    quotient = quotient.astype(np.float32).astype(np.float64)
    if dtype == "i8":
        return np.clip(np.rint(np.nan_to_num(quotient)), -127, 127), scale
    return fp8_values(fp8_codes(quotient, dtype), dtype), scale


def quantize_per_token(input, *, dtype):
    output, scale = eight_bits(input, np.abs(input).max(-1, initial=0)[..., None], dtype)
    return {"output": output, "scale": scale[..., 0]}


def in_blocks(input, rows, dtype):
    """Blocks of 128 columns and the given number of rows."""
    *leading, n = input.shape
    flat = input.reshape(int(np.prod(leading)), n)
    down, across = -(-len(flat) // rows), -(-n // 128)
    padded = np.pad(np.abs(flat), ((0, down * rows - len(flat)), (0, across * 128 - n)))
    amax = padded.reshape(down, rows, across, 128).max((1, 3), initial=0)
    of_each = np.repeat(np.repeat(amax, rows, 0), 128, 1)[: len(flat), :n]
    return {
        "output": eight_bits(flat, of_each, dtype)[0].reshape(input.shape),
        "scale": eight_bits(amax, amax, dtype)[1].reshape(*(leading if rows == 1 else [down]), across),
    }


def quantize_1x128(input, *, dtype):
    return in_blocks(input, 1, dtype)


def quantize_128x128(input, *, dtype):
    return in_blocks(input, 128, dtype)


def rmsnorm_quantize(input, weight, *, dtype, eps=1e-5, zero_centered_gamma=False):
    mean = (input**2).sum(-1, keepdims=True) / max(input.shape[-1], 1)
    gamma = weight + (1 if zero_centered_gamma else 0)
    return quantize_per_token(input / np.sqrt(mean + eps) * gamma, dtype=dtype)


def silu_and_mul_quantize(gate, up, *, dtype):
    return quantize_per_token(gate / (1 + np.exp(-gate)) * up, dtype=dtype)


# --- cases ---


DROPOUT_ATTRIBUTES = [{"p": 0.3}, {"p": 0.0}, {"p": 1.0}, {"p": 0.999}]


def draw_dropout(draw, shape, attributes):
    state = draw.rng.integers(-(2**63), 2**63, 2, dtype=np.int64)
    return {"input": draw("T", *shape), "rng_state": draw.rounded("i64", state)}


def draw_dropout_bwd(draw, shape, attributes):
    kept = draw.rng.random(shape) >= attributes["p"]
    return {"grad": draw("T", *shape), "mask": draw.rounded("u8", kept)}


def improbable(draw_inputs):
    draw_any = lambda draw: draw_inputs(draw, (2, 5), {"p": 0.5})
    return [Special(f"p = {p}", draw_any, "INVALID_ARGUMENT", "p:", {"p": p}, refused=True) for p in (-0.1, 1.5)]


def draw_quantize(draw, shape, attributes):
    return {
        "input": draw("T", *shape),
        "scale": draw.rounded("f32", 2 ** draw.rng.uniform(-12, 10, 1)),
        "amax": draw.rounded("f32", draw.rng.uniform(0, 3, 1)),
    }


def not_numbers(draw):
    inputs = draw_quantize(draw, (4, 9), {})
    values = inputs["input"].values.copy()
    values[1, :4] = np.nan, np.inf, -np.inf, -0.0
    return {**inputs, "input": draw.rounded("T", values)}


def infinite(draw):
    inputs = not_numbers(draw)
    values = inputs["input"].values
    return {**inputs, "input": draw.rounded("T", np.where(np.isnan(values), 1, values))}


def not_a_number(draw):
    values = draw("T", 3, 17).values.copy()
    values[1, 4] = np.nan
    return {"input": draw.rounded("T", values)}


def rows_of_zeros(draw):
    return {"input": draw.rounded("T", np.diag([0.0, 3, 0, -1e-3]))}


def draw_dequantize(draw, shape, attributes):
    return {"input": draw("F", *shape), "scale_inv": draw.rounded("f32", 2 ** draw.rng.uniform(-4, 4, 1))}


def all_codes(draw):
    dtype = draw.dtypes["F"]
    codes = np.arange(256, dtype=np.uint8)
    return {"input": Tensor(dtype, codes, fp8_values(codes, dtype)), "scale_inv": draw.rounded("f32", [0.37])}


def draw_rmsnorm_quantize(draw, shape, attributes):
    return {"input": draw("T", *shape), "weight": draw("U", shape[-1], around=1.0)}


BLOCKED = [(2, 3, 257), (33, 128), (1,), (5, 1), (0, 8), (4, 0), (300, 129), (2, 4099)]
SQUARES = [(130, 257), (33, 128), (1, 1), (0, 8), (4, 0), (300, 129), (2, 4099)]


def eight_bit_op(draw_all, shapes, formats, **more):
    return Op(draw_all, {"output": "F", "scale": "f32"}, shapes, [{"dtype": "F"}], F=formats, **more)


# The tolerance of one element, for factors that differ in their last digit.
A_STEP = {"output": "bf16"}

OPS = {
    "quantize_1x128": eight_bit_op(draw_inputs("input"), BLOCKED, ("i8", "e4m3", "e5m2")),
    "quantize_128x128": eight_bit_op(draw_inputs("input"), SQUARES, ("i8", "e4m3", "e5m2")),
    "rmsnorm_quantize": eight_bit_op(
        draw_rmsnorm_quantize, ROWS, ("e4m3", "e5m2"), two_dtypes=True, within=A_STEP
    )._replace(attributes=[{"dtype": "F"}, {"dtype": "F", "eps": 0.1, "zero_centered_gamma": True}]),
    "silu_and_mul_quantize": eight_bit_op(draw_inputs("gate", "up"), ROWS, ("e4m3", "e5m2"), within=A_STEP),
    "add": Op(
        draw_inputs("a", "b"),
        {"output": "T"},
        ROWS,
        [{}, {"alpha": -0.5}, {"alpha": 0.0}],
        in_place={"output": "a"},
    ),
    "mul": Op(draw_inputs("a", "b"), {"output": "T"}, ROWS, in_place={"output": "a"}),
    "dropout_fwd": Op(
        draw_dropout,
        {"output": "T", "mask": "u8"},
        ROWS + LONG,
        DROPOUT_ATTRIBUTES,
        in_place={"output": "input"},
        special=improbable(draw_dropout),
    ),
    "dropout_bwd": Op(
        draw_dropout_bwd,
        {"grad_input": "T"},
        ROWS,
        DROPOUT_ATTRIBUTES,
        in_place={"grad_input": "grad"},
        special=improbable(draw_dropout_bwd),
    ),
    "quantize": Op(
        draw_quantize,
        {"output": "F"},
        ROWS + LONG,
        [{"dtype": "F"}],
        optional=("amax",),
        changed={"amax": "f32"},
        F=("e4m3", "e5m2"),
        special=[
            Special("not numbers", not_numbers, attributes={"dtype": "F"}),
            Special("infinite", infinite, attributes={"dtype": "F"}),
        ],
    ),
    "dequantize": Op(
        draw_dequantize,
        {"output": "T"},
        ROWS,
        [{"dtype": "T"}],
        F=("e4m3", "e5m2"),
        special=[Special("every code", all_codes, attributes={"dtype": "T"})],
    ),
    "quantize_per_token": Op(
        draw_inputs("input"),
        {"output": "F", "scale": "f32"},
        ROWS + LONG,
        [{"dtype": "F"}],
        F=("i8", "e4m3", "e5m2"),
        special=[
            Special("rows of zeros", rows_of_zeros, attributes={"dtype": "F"}),
            Special("not a number", not_a_number, attributes={"dtype": "F"}),
        ],
    ),
}
