"""The ops of opdock/ops/gated.h."""

import formulas

from .cases import Op, ROWS, draw_inputs

GATED = ("geglu", "qgeglu", "reglu", "sreglu", "swiglu")


def even(shape):
    return shape[:-1] + (2 * shape[-1],)


def draw_halves(draw, shape, attributes):
    return {"input": draw("T", *even(shape))}


def draw_halves_bwd(draw, shape, attributes):
    return {"grad": draw("T", *shape), "input": draw("T", *even(shape))}


def gated(name, attributes=({},)):
    return Op(draw_halves, getattr(formulas, name), {"output": "T"}, ROWS, list(attributes))


def gated_gradient(name, attributes=({},)):
    return Op(draw_halves_bwd, getattr(formulas, name), {"grad_input": "T"}, ROWS, list(attributes))


def gated_tensors(name):
    return Op(draw_inputs("gate", "up"), getattr(formulas, name), {"output": "T"}, ROWS)


def gated_tensors_gradient(name):
    outputs = {"grad_gate": "T", "grad_up": "T"}
    return Op(draw_inputs("grad", "gate", "up"), getattr(formulas, name), outputs, ROWS)


# Both limits are reached by inputs of a normal distribution.
CLAMPED_ATTRIBUTES = ({"limit": 1.0}, {}, {"limit": 0.5, "alpha": 1.0})


OPS = {
    **{name: gated(name) for name in GATED},
    **{name + "_bwd": gated_gradient(name + "_bwd") for name in GATED},
    "clamped_swiglu": gated("clamped_swiglu", CLAMPED_ATTRIBUTES),
    "clamped_swiglu_bwd": gated_gradient("clamped_swiglu_bwd", CLAMPED_ATTRIBUTES),
    "silu_and_mul": gated_tensors("silu_and_mul"),
    "gelu_and_mul": gated_tensors("gelu_and_mul"),
    "silu_and_mul_bwd": gated_tensors_gradient("silu_and_mul_bwd"),
    "gelu_and_mul_bwd": gated_tensors_gradient("gelu_and_mul_bwd"),
}
