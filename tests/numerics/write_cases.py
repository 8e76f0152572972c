"""Writes the cases that implementations are tested with: OP.json and OP.safetensors for each op.

    python3 write_cases.py FOLDER [--seed N] [--op NAME]

Inputs are random and rounded to the dtype of the case; the expected outputs are computed from those in float64. The
seed is new each time unless it is given, here or in OPDOCK_NUMERICS_SEED, and is stored in every file.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import random
import zlib
from typing import NamedTuple

import numpy as np

from ops import FORMULAS, OPS
from ops.cases import Source, Special
from ops.sums import Sum
from tensors import Tensor, rounded, write_safetensors

EXACT = 1e-12
TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2, "e4m3": EXACT, "e5m2": EXACT, "i8": EXACT, "u8": EXACT, "i32": EXACT, "i64": EXACT}
STEP = {"e4m3": 1 / 8, "e5m2": 1 / 4}  # the largest step between neighbours, relative to the lower one
LONG_SUM, LONG_SUM_TOLERANCE = 2**16, 1e-4
LAYOUTS = ("contiguous", "padded", "transposed", "spread", "backwards", "repeated")


def strides_of(shape, layout):
    """In elements; None for row-major without gaps."""
    if layout == "contiguous":
        return None
    if layout == "transposed":  # the first dimension is the innermost
        return [math.prod(shape[:d]) for d in range(len(shape))]
    gap = 3 if layout == "padded" else 0  # at the end of each row
    strides = [math.prod((*shape[d + 1 : -1], shape[-1] + gap)) if d + 1 < len(shape) else 1 for d in range(len(shape))]
    if layout == "spread":  # every second element in every dimension
        return [2 * stride for stride in strides]
    if layout == "backwards":  # rows are stored from right to left
        return strides[:-1] + [-1]
    if layout == "repeated" and len(shape) > 1:  # what a framework's expand() makes
        return [0] + strides[1:]
    return strides


class Variation(NamedTuple):
    layouts: dict = {}  # parameter -> layout; others are contiguous
    absent: tuple = ()
    in_place: bool = False


def repeated(tensor):
    """Under a repeated layout, only the elements at the first index exist."""
    if tensor.stored.ndim < 2:
        return tensor
    first = lambda array: np.broadcast_to(array[:1], array.shape)
    return Tensor(tensor.dtype, first(tensor.stored), first(tensor.values))


def in_list(given):
    """The tensors of a parameter: several if it is a list."""
    return given if isinstance(given, list) else [given]


def each(given, function):
    if isinstance(given, list):
        return [function(tensor) for tensor in given]
    return None if given is None else function(given)


class CaseWriter:
    def __init__(self, name, op, seed):
        self.name, self.op, self.seed = name, op, seed
        self.rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        self.tensors = {}
        self.cases = []

    def add(self, label, dtypes, inputs, attributes, variation=Variation(), expect=Special("", None)):
        # Tensors that the op writes, or whose rows must be distinct, are never repeated.
        once = (*self.op.changed, *self.op.distinct)
        layouts = {n: "padded" if l == "repeated" and n in once else l for n, l in variation.layouts.items()}
        variation = variation._replace(layouts=layouts)
        attributes = {n: dtypes.get(v, v) if n == "dtype" else v for n, v in attributes.items()}
        inputs = {name: None if name in variation.absent else given for name, given in inputs.items()}
        for name, given in inputs.items():
            if layouts.get(name) == "repeated" and given is not None:
                inputs[name] = [repeated(t) for t in given] if isinstance(given, list) else repeated(given)
        flat = [(name, tensor) for name, given in inputs.items() for tensor in in_list(given)]
        outputs, changed = self.written(inputs, attributes, dtypes, variation, expect)
        case = {
            "name": f"{','.join(dtypes.values())} {label}",
            "attributes": attributes,
            "status": expect.status,
            "message": expect.message,
            "refused": expect.refused,
            "inputs": [self.input(name, tensor, variation) for name, tensor in flat],
            "list_sizes": [len(given) for given in inputs.values() if isinstance(given, list)],
            "outputs": outputs,
            "changed": changed,
        }
        self.cases.append(case)

    def input(self, name, tensor, variation):
        if tensor is None:
            return None
        strides = strides_of(tensor.stored.shape, variation.layouts.get(name, "contiguous"))
        return {"name": name, "tensor": self.store(name, tensor), "strides": strides}

    def written(self, inputs, attributes, dtypes, variation, expect):
        """The expected outputs, and the new values of inputs that the op writes."""
        values = {name: each(given, lambda tensor: tensor.values) for name, given in inputs.items()}
        # A call that must fail writes nothing; its outputs have the sizes of a valid call's.
        results = FORMULAS[self.name](**values, **attributes) if expect.status == "OK" else self.blank(inputs, expect.shapes)
        flat = [(name, tensor) for name, given in inputs.items() for tensor in in_list(given)]
        sums = [n for _, tensor in flat if tensor for n in self.longest_sums(tensor.stored.shape)]
        long_sum = max(sums, default=0) > LONG_SUM

        def describe(name, dtype, result, shared, layout):
            scale = result.scale if isinstance(result, Sum) and np.isfinite(result.scale) else 0.0
            result = result.value if isinstance(result, Sum) else result
            within = self.op.within.get(name, dtype)
            tolerance = TOLERANCE[dtypes.get(within, within)]
            return {
                "name": name,
                "expected": self.store(name, rounded(result, "f64")),
                "dtype": dtypes.get(dtype, dtype),
                # No two elements of an output may share memory.
                "strides": strides_of(np.shape(result), "padded" if layout == "repeated" else layout),
                "scale": scale,
                "tolerance": max(tolerance, LONG_SUM_TOLERANCE) if long_sum else tolerance,
                "step": STEP.get(dtypes.get(dtype, dtype), 0) if name in self.op.within else 0,
                "in_place_of": shared,
            }

        layout_of = lambda name: variation.layouts.get(name, "contiguous")
        outputs = []
        for name, dtype in self.op.outputs.items():
            shared = self.op.in_place.get(name) if variation.in_place else None
            place = [input_name for input_name, _ in flat].index(shared) if shared else None
            absent = name in variation.absent
            outputs.append(None if absent else describe(name, dtype, results[name], place, layout_of(shared or name)))
        changed = []
        for name, dtype in self.op.changed.items() if expect.status == "OK" else ():
            places = [i for i, (input_name, tensor) in enumerate(flat) if input_name == name and tensor]
            for place, result in zip(places, in_list(results.get(name))):
                changed.append(describe(name, dtype, result, place, layout_of(name)))
        return outputs, changed

    def blank(self, inputs, shapes):
        like = {
            "loss": "target",
            "lse": "target",
            "grad_logits": "logits",
            "output": "input",
            "mask": "input",
            "grad_input": "grad",
        }
        shape_of = lambda name: shapes[name] if name in shapes else inputs[like[name]].stored.shape
        return {name: np.zeros(shape_of(name)) for name in self.op.outputs}

    @staticmethod
    def longest_sums(shape):
        return math.prod(shape[-1:]), math.prod(shape[:-1])

    def store(self, name, tensor):
        key = f"{len(self.tensors)}.{name}"
        self.tensors[key] = tensor
        return key

    def layouts(self, inputs, layout):
        """The given layout for every parameter, or a random one for each."""
        pick = lambda: str(self.rng.choice(LAYOUTS)) if layout == "mixed" else layout
        return {name: pick() for name in (*inputs, *self.op.outputs)}

    def add_all(self, dtypes):
        op = self.op
        draw = Source(self.rng, dtypes)
        turn = itertools.cycle(op.attributes)
        for shape in op.shapes:
            attributes = next(turn)
            self.add(f"{shape} {attributes}", dtypes, op.draw(draw, shape, attributes), attributes)

        shape = op.shapes[0]
        for attributes in op.attributes[1:]:
            self.add(f"{shape} {attributes}", dtypes, op.draw(draw, shape, attributes), attributes)
        wild = Source(self.rng, dtypes, wild=True)
        self.add(f"{shape} wild", dtypes, op.draw(wild, shape, op.attributes[0]), op.attributes[0])

        def vary(label, shape, variation_of):
            attributes = next(turn)
            inputs = op.draw(draw, shape, attributes)
            self.add(f"{shape} {attributes} {label}", dtypes, inputs, attributes, variation_of(inputs))

        for layout in (*LAYOUTS[1:], "mixed", "mixed"):
            vary(layout, shape, lambda inputs: Variation(self.layouts(inputs, layout)))
            vary(layout, op.shapes[1], lambda inputs: Variation(self.layouts(inputs, layout)))
        for count in range(1, len(op.optional) + 1):
            for absent in itertools.combinations(op.optional, count):
                vary(f"without {', '.join(absent)}", shape, lambda inputs: Variation(absent=absent))
        if op.in_place:
            vary("in place", shape, lambda inputs: Variation(in_place=True))
            for layout in ("padded", "transposed", "spread"):
                vary(f"in place {layout}", shape, lambda inputs: Variation(self.layouts(inputs, layout), in_place=True))
        for special in op.special:
            self.add(special.label, dtypes, special.draw(draw), special.attributes, expect=special)

    def write(self, folder):
        turn = itertools.cycle(self.op.P or (None,))
        for t in ("f32", "f16", "bf16"):
            for u in dict.fromkeys((t, "f32")) if self.op.two_dtypes else (None,):
                for f, g in itertools.product(self.op.F or (None,), self.op.G or (None,)):
                    named = (("T", t), ("U", u), ("F", f), ("G", g), ("P", next(turn)))
                    self.add_all({name: dtype for name, dtype in named if dtype})
        (folder / f"{self.name}.json").write_text(json.dumps({"op": self.name, "seed": self.seed, "cases": self.cases}))
        write_safetensors(folder / f"{self.name}.safetensors", self.tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=os.environ.get("OPDOCK_NUMERICS_SEED"))
    parser.add_argument("--op", choices=OPS, help="only this one")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if arguments.seed is None else int(arguments.seed)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in [arguments.op] if arguments.op else OPS:
        CaseWriter(name, OPS[name], seed).write(arguments.folder)
    print(f"seed {seed}; again with OPDOCK_NUMERICS_SEED={seed}")


if __name__ == "__main__":
    main()
