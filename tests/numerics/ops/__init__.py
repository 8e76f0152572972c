"""What each op is tried on: how its inputs are drawn, on which shapes, with which attributes.

An entry of OPS says all that the cases of an op need. Shapes are tuples whose meaning only the op's own `draw` knows.
"""

from . import activation, elementwise, gated, linear, loss, normalization, optimizer, rope, softmax
from .cases import Source, Special

OPS = {}
for family in (normalization, activation, gated, softmax, rope, linear, loss, elementwise, optimizer):
    OPS |= family.OPS
