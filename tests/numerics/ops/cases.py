"""What an entry of OPS says, and what most ops have in common.

The formula of an op is the function of its name in the same module: it takes inputs and attributes by name, and returns
the outputs by name. An output is an array or, where it is a sum whose terms may cancel, a Sum.
"""

from typing import Callable, NamedTuple

import numpy as np

from tensors import rounded

from .sums import Sum


class Op(NamedTuple):
    draw: Callable  # draw(Source, shape, attributes) -> {parameter: Tensor or list of them}, as in the signature
    outputs: dict  # name -> dtype, "T" and "U" being the variables of the case
    shapes: list  # the first one is varied, the second one in layout only
    attributes: list = [{}]
    optional: tuple = ()  # inputs and outputs that may be absent
    within: dict = {}  # output -> the dtype whose tolerance it has, where that is not its own
    in_place: dict = {}  # output -> the input it may share memory with
    changed: dict = {}  # inputs that the op writes -> dtype; the formula returns what they become
    two_dtypes: bool = False  # has U beside T
    F: tuple = ()  # dtypes of the variable F; an attribute `dtype` names a variable
    G: tuple = ()  # the same of G
    P: tuple = ()  # dtypes of the variable P, in turn
    distinct: tuple = ()  # inputs whose rows may not all be one
    special: list = []  # of Special


class Special(NamedTuple):
    """A case of its own."""

    label: str
    draw: Callable  # draw(Source) -> {parameter: Tensor}
    status: str = "OK"  # what the call must return
    message: str = ""  # a word its error must have
    attributes: dict = {}
    refused: bool = False  # it fails whatever the data are, and is not prepared either
    shapes: dict = {}  # of outputs of one that fails, where they are not those of the input that they are like


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


# 1, odd sizes, no rows, rows of no elements, and a sum of more than 2^16.
ROWS = [(2, 3, 17), (33, 257), (1,), (5,), (1, 1), (3, 5), (2, 1, 3, 2, 40), (0, 8), (4, 0), (2, 0, 3), (3, 4099)]
LONG = [(1, 66001)]
MANY = [(66001, 2)]


def draw_inputs(*names):
    def draw_all(draw, shape, attributes):
        return {name: draw("T", *shape) for name in names}

    return draw_all
