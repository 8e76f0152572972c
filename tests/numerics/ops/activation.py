"""The ops of opdock/ops/activation.h."""

import formulas

from .cases import LONG, MANY, Op, ROWS, draw_inputs

ACTIVATIONS = ("gelu", "qgelu", "relu", "silu", "srelu")


def activation(name):
    return Op(draw_inputs("input"), getattr(formulas, name), {"output": "T"}, ROWS, in_place={"output": "input"})


def activation_gradient(name):
    return Op(
        draw_inputs("grad", "input"),
        getattr(formulas, name),
        {"grad_input": "T"},
        ROWS,
        in_place={"grad_input": "grad"},
    )


def activation_gradient_with_bias(name):
    return Op(
        draw_inputs("grad", "input"),
        getattr(formulas, name),
        {"grad_bias": "T", "grad_input": "T"},
        ROWS + LONG + MANY,
    )


OPS = {
    **{name: activation(name) for name in ACTIVATIONS},
    **{name + "_bwd": activation_gradient(name + "_bwd") for name in ACTIVATIONS},
    **{name + "_bwd_bias": activation_gradient_with_bias(name + "_bwd_bias") for name in ACTIVATIONS},
}
