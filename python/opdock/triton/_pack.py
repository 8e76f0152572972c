"""A plugin's data: description and code, as python/triton-plugin/description.hpp reads it."""

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from . import _expression
from ._compile import Code, Job, Table
from ._model import SIZES, Argument, Description, Implementation, Launch

_FORMAT = 2
_VARIABLES = [
    "dim",
    "attribute",
    "knob",
    "stride",
    "row_stride",
    "has",
    "element_size",
    "memory",
    "compute_units",
    "warp_size",
    "shared_memory",
    "cache",
]
_ARGUMENTS = ("tensor", "workspace", "number")
_TYPES = ("pointer", "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "fp32", "fp64")
# DLPack's type code of each dtype, which opdock/abi/dtype.h packs with bits and lanes.
_CODES = {"f": 2, "b": 4, "i": 0, "u": 1, "bool": 6, "e4m3": 10, "e5m2": 12}


def packed_dtype(name: str) -> int:
    code = _CODES.get(name, _CODES[name[0]])
    return code | 8 * SIZES.get(name, 1) << 8 | 1 << 16


def serves(architecture: str) -> list[str]:
    """Devices that can run the architecture's code. Code for one number runs on later ones of its generation, unless
    Triton makes code for the exact one, as it does from 9.0 on."""
    later = {"sm_80": ["sm_86", "sm_87", "sm_89"], "sm_86": ["sm_87", "sm_89"], "sm_87": ["sm_89"]}
    return [architecture, *later.get(architecture, ())]


class _Writer:
    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def integer(self, value: int) -> None:
        self.parts.append(struct.pack("<q", value))

    def number(self, value: float) -> None:
        self.parts.append(struct.pack("<d", value))

    def text(self, value: str) -> None:
        data = value.encode()
        self.integer(len(data))
        self.parts.append(data)

    def integers(self, values: Iterable[int]) -> None:
        values = list(values)
        self.integer(len(values))
        self.parts.append(struct.pack(f"<{len(values)}q", *values))

    def expression(self, value: _expression.Expression | None, variables: Sequence[str]) -> None:
        self.text(value.text if value else "")
        self.integer(len(value.steps) if value else 0)
        for step, of in value.steps if value else ():
            self.integer(_expression.OPERATIONS.index(step))
            self.number(variables.index(value.names[int(of)]) if value and step == "variable" else of)

    def expressions(self, values: Sequence[_expression.Expression], variables: Sequence[str]) -> None:
        self.integer(len(values))
        for value in values:
            self.expression(value, variables)


def _deflate(data: bytes) -> bytes:
    made = zlib.compressobj(9, zlib.DEFLATED, -15)
    return made.compress(data) + made.flush()


class Data:
    """Collects code; identical code is stored once."""

    def __init__(self) -> None:
        self._images: dict[bytes, int] = {}
        self._packed: list[tuple[bytes, int]] = []
        self._kernels: dict[tuple[int, str, int, int, int], int] = {}
        self._numbers: dict[Job, int] = {}
        self._toolkits: dict[str, int] = {}

    def add(self, job: Job, code: Code) -> None:
        if code.image not in self._images:
            self._images[code.image] = len(self._images)
            self._packed.append((_deflate(code.image), len(code.image)))
        kernel = (self._images[code.image], code.name, code.threads, code.shared_bytes, code.scratch_bytes)
        self._numbers[job] = self._kernels.setdefault(kernel, len(self._kernels))
        self._toolkits[job.architecture] = max(code.toolkit, self._toolkits.get(job.architecture, 0))

    def summary(self) -> str:
        return f"{len(self._numbers)} kernels, {len(self._images)} of them different"

    def pack(self, description: Description, tables: list[tuple[Implementation, list[str], list[Table]]]) -> bytes:
        """`tables` has each implementation once per device type, with its architectures."""
        to = _Writer()
        to.integer(_FORMAT)
        to.integer(description.tune_version)
        to.integer(len(description.architectures))
        for architecture in description.architectures:
            to.text(architecture)
            to.integer(len(serves(architecture)))
            for one in serves(architecture):
                to.text(one)
            to.integer(self._toolkits.get(architecture, 0))
        self._pack_code(to)
        to.integer(len(tables))
        for implementation, architectures, of_launches in tables:
            self._pack_implementation(to, description, implementation, architectures, of_launches)
        text = b"".join(to.parts)
        packed = _deflate(text)
        return struct.pack("<qq", len(packed), len(text)) + packed + b"".join(one for one, _ in self._packed)

    def _pack_code(self, to: _Writer) -> None:
        to.integer(len(self._packed))
        offset = 0
        for packed, size in self._packed:
            for value in (offset, len(packed), size):
                to.integer(value)
            offset += len(packed)
        to.integer(len(self._kernels))
        for image, name, threads, shared, scratch in self._kernels:
            to.integer(image)
            to.text(name)
            for value in (threads, shared, scratch):
                to.integer(value)

    def _pack_implementation(
        self, to: _Writer, description: Description, made: Implementation, architectures: list[str], tables: list[Table]
    ) -> None:
        device = device_of(architectures[0])
        everywhere = len({device_of(one) for one in description.architectures}) > 1
        op, variables = made.op, _used(made, tables)
        impl = f"vendor.{description.name}" + ("-rocm" if everywhere and device == "rocm" else "")
        devices = "|".join(dict.fromkeys(one for name in architectures for one in serves(name)))
        for text in (op.op, op.text, impl, device, "|".join(map(",".join, made.dtypes)), devices):
            to.text(text)
        for value in (description.priority, made.deterministic, made.contiguous):
            to.integer(value)
        to.integer(len(made.knobs))
        for knob in made.knobs:
            to.text(knob)
            to.integer(min(config[knob] for config in made.configs))
            to.integer(max(config[knob] for config in made.configs))
        to.integer(len(op.variables))
        for variable in op.variables:
            parameter = next((i for i, one in enumerate(op.parameters) if one.dtype == variable), -1)
            to.integer(parameter)
            to.integer(next((i for i, one in enumerate(op.attributes) if one.variable == variable), -1))
        to.integer(len(made.dtypes))
        for dtypes in made.dtypes:
            to.integers(map(packed_dtype, dtypes))
        to.integers(map(description.architectures.index, architectures))
        to.integer(len(variables))
        for one in map(made.variables.__getitem__, variables):
            to.integer(_VARIABLES.index(one.kind))
            to.text(one.name)
            to.integer(one.first)
            to.integer(one.second)
        to.expressions(made.where, variables)
        to.integer(len(made.configs))
        for config in made.configs:
            to.integers(config[knob] for knob in made.knobs)
        to.integer(len(made.heuristics))
        for knob, expression in made.heuristics.items():
            to.integer(made.knobs.index(knob))
            to.expression(expression, variables)
        to.expressions([one.bytes for one in made.workspaces], variables)
        to.integer(len(made.launches))
        for launch, table in zip(made.launches, tables, strict=True):
            self._pack_launch(to, launch, table, variables)

    def _pack_launch(self, to: _Writer, launch: Launch, table: Table, variables: list[str]) -> None:
        to.text(launch.function)
        to.expression(launch.when, variables)
        to.expressions(launch.grid, variables)
        passed = [one for one in launch.arguments if one.kind in _ARGUMENTS]
        to.integer(len(passed))
        for argument in passed:
            _pack_argument(to, argument, variables)
        names = [one.name for one in passed]
        to.integer(len(launch.variants))
        for variant in launch.variants:
            for taken in (variant.aligned, variant.divisible, variant.ones):
                to.integers(map(names.index, taken))
        to.integer(len(table.names))
        for name in table.names:
            to.text(name)
        to.expressions(table.keys, variables)
        to.integer(len(table.values))
        for values in table.values:
            to.integer(len(values))
            for value in values:
                to.number(value)
        to.integers(self._numbers[job] for job in table.jobs)


def _pack_argument(to: _Writer, argument: Argument, variables: list[str]) -> None:
    is_number = argument.kind == "number"
    to.text(argument.name)
    to.integer(_ARGUMENTS.index(argument.kind))
    to.integer(_TYPES.index(argument.type) if is_number else 0)
    to.integer(argument.index)
    to.integer(argument.otherwise)
    to.expression(argument.value if is_number else None, variables)


def _used(made: Implementation, tables: list[Table]) -> list[str]:
    """Returns the variables that expressions read. The plugin looks each up in every call, and declines calls without
    one."""
    expressions = [*made.where, *made.heuristics.values(), *(one.bytes for one in made.workspaces)]
    for launch, table in zip(made.launches, tables, strict=True):
        expressions += [*launch.grid, *table.keys, *(one.value for one in launch.arguments)]
        expressions += [launch.when] if launch.when else []
    names = {name for expression in expressions for name in expression.names}
    return [name for name in made.variables if name in names]


def device_of(architecture: str) -> Any:
    return "cuda" if architecture.startswith("sm_") else "rocm"
