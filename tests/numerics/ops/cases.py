"""The entries of OPS, and helpers that most ops share.

The formula of an op is the function with its name in the same module. It takes inputs and attributes by name, and
returns the outputs by name. An output is an array or, if it is a sum whose terms may cancel, a Sum.
"""

from typing import Callable, NamedTuple

import numpy as np

from tensors import rounded

from .sums import Sum


class Op(NamedTuple):
    draw: Callable  # draw(Source, shape, attributes) -> {parameter: Tensor or list of them}, as in the signature
    outputs: dict  # name -> dtype, where "T" and "U" are the variables of the case
    shapes: list  # the first is varied in every way, the second in its layout only
    attributes: list = [{}]
    optional: tuple = ()  # inputs and outputs that may be absent
    within: dict = {}  # output -> the dtype whose tolerance applies, if not its own
    in_place: dict = {}  # output -> the input it may share memory with
    changed: dict = {}  # inputs that the op writes -> dtype; the formula returns their new values
    two_dtypes: bool = False  # has U in addition to T
    F: tuple = ()  # dtypes of the variable F; an attribute `dtype` names a variable
    G: tuple = ()  # likewise for G
    P: tuple = ()  # dtypes of the variable P, used in turn
    distinct: tuple = ()  # inputs whose rows must not share memory
    special: list = []  # Special cases


class Special(NamedTuple):
    """A special case."""

    label: str
    draw: Callable  # draw(Source) -> {parameter: Tensor}
    status: str = "OK"  # what the call must return
    message: str = ""  # a word that the error message must contain
    attributes: dict = {}
    refused: bool = False  # it fails whatever the data are, so preparing it fails too
    shapes: dict = {}  # of a failing call's outputs, if they differ from those of the corresponding input


class Source:
    """Random tensors of a case's dtypes. A wild source mixes magnitudes, zeros included."""

    def __init__(self, rng, dtypes, wild=False):
        self.rng = rng
        self.dtypes = dtypes
        self.wild = wild

    def __call__(self, dtype, *shape, around=0.0):
        values = around + self.rng.standard_normal(shape)
        if self.wild:
            values *= 10 ** self.rng.uniform(-3, 1.3, shape)
            values[self.rng.random(shape) < 0.05] = 0
        return self.rounded(dtype, values)

    def rounded(self, dtype, values):
        if isinstance(values, Sum):
            values = values.value
        return rounded(values, self.dtypes.get(dtype, dtype))

    def classes(self, rows, count, ignore_index):
        """Targets of a loss, some of them ignored."""
        targets = self.rng.integers(0, max(count, 1), rows)
        ignored = self.rng.random(rows) < (0.2 if count else 2)
        return self.rounded("i64", np.where(ignored, ignore_index, targets))


# Size 1, odd sizes, no rows, rows without elements, and a sum of more than 2^16 elements.
ROWS = [(2, 3, 17), (33, 257), (1,), (5,), (1, 1), (3, 5), (2, 1, 3, 2, 40), (0, 8), (4, 0), (2, 0, 3), (3, 4099)]
LONG = [(1, 66001)]
MANY = [(66001, 2)]


def draw_inputs(*names):
    def draw_all(draw, shape, attributes):
        return {name: draw("T", *shape) for name in names}

    return draw_all
