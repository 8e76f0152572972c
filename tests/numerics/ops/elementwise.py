"""The ops of opdock/ops/elementwise.h."""

import numpy as np

import formulas
from tensors import Tensor, fp8_values

from .cases import LONG, Op, ROWS, Special, draw_inputs

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


def draw_dequantize(draw, shape, attributes):
    return {"input": draw("F", *shape), "scale_inv": draw.rounded("f32", 2 ** draw.rng.uniform(-4, 4, 1))}


def all_codes(draw):
    dtype = draw.dtypes["F"]
    codes = np.arange(256, dtype=np.uint8)
    return {"input": Tensor(dtype, codes, fp8_values(codes, dtype)), "scale_inv": draw.rounded("f32", [0.37])}


OPS = {
    "add": Op(
        draw_inputs("a", "b"),
        formulas.add,
        {"output": "T"},
        ROWS,
        [{}, {"alpha": -0.5}, {"alpha": 0.0}],
        in_place={"output": "a"},
    ),
    "mul": Op(draw_inputs("a", "b"), formulas.mul, {"output": "T"}, ROWS, in_place={"output": "a"}),
    "dropout_fwd": Op(
        draw_dropout,
        formulas.dropout_fwd,
        {"output": "T", "mask": "u8"},
        ROWS + LONG,
        DROPOUT_ATTRIBUTES,
        in_place={"output": "input"},
        special=improbable(draw_dropout),
    ),
    "dropout_bwd": Op(
        draw_dropout_bwd,
        formulas.dropout_bwd,
        {"grad_input": "T"},
        ROWS,
        DROPOUT_ATTRIBUTES,
        in_place={"grad_input": "grad"},
        special=improbable(draw_dropout_bwd),
    ),
    "quantize": Op(
        draw_quantize,
        formulas.quantize,
        {"output": "F"},
        ROWS + LONG,
        [{"dtype": "F"}],
        optional=("amax",),
        changed={"amax": "f32"},
        fp8=True,
        special=[
            Special("not numbers", not_numbers, attributes={"dtype": "F"}),
            Special("infinite", infinite, attributes={"dtype": "F"}),
        ],
    ),
    "dequantize": Op(
        draw_dequantize,
        formulas.dequantize,
        {"output": "T"},
        ROWS,
        [{"dtype": "T"}],
        fp8=True,
        special=[Special("every code", all_codes, attributes={"dtype": "T"})],
    ),
}
