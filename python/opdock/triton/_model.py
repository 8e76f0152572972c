"""A description as Python types: _description.py makes it from a file, and all other modules read it."""

import pathlib
from dataclasses import dataclass, field
from typing import Any

from .._signature import Signature
from ._expression import Expression
from ._yaml import Node

# Triton's element types of tensors, by dtype.
TRITON_DTYPES = {
    "f64": "fp64",
    "f32": "fp32",
    "f16": "fp16",
    "bf16": "bf16",
    "e4m3": "fp8e4nv",
    "e5m2": "fp8e5",
    "i64": "i64",
    "i32": "i32",
    "i16": "i16",
    "i8": "i8",
    "u64": "u64",
    "u32": "u32",
    "u16": "u16",
    "u8": "u8",
    "bool": "i1",
}
SIZES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2, "i16": 2, "u16": 2}
# Kernel options that a knob of the same name sets.
OPTIONS = ("num_warps", "num_stages", "maxnreg")


@dataclass(frozen=True)
class Variable:
    """The meaning of a name in an expression, as the plugin finds it (description.hpp)."""

    kind: str
    name: str = ""
    first: int = 0
    second: int = 0


@dataclass
class Argument:
    """The value passed for a kernel's parameter."""

    name: str
    kind: str  # tensor, workspace, number; key: a constexpr that is a number; constant: another constexpr
    index: int = 0  # op parameter or workspace
    otherwise: int = -1  # workspace used if the tensor is absent
    type: str = ""  # for a number
    value: Expression = field(default_factory=lambda: Expression(""))
    constant: Any = None  # ("text", value) or ("dtype", variable)
    aligns: bool = True  # whether code may be specialized for the value
    specializes: bool = True


@dataclass
class Variant:
    """Names of arguments about which the code makes assumptions."""

    aligned: list[str]
    divisible: list[str]
    ones: list[str]


@dataclass
class Launch:
    place: Node
    function: str  # "module:function"
    kernel: Any  # Triton's JITFunction
    arguments: list[Argument]
    grid: list[Expression]
    when: Expression | None
    options: dict[str, Expression]
    conditions: list[Expression] = field(default_factory=list)  # the parts of `when`
    variants: list[Variant] = field(default_factory=list)


@dataclass
class Workspace:
    name: str
    dtype: str
    bytes: Expression


@dataclass
class Implementation:
    op: Signature
    place: Node
    dtypes: list[tuple[str, ...]]
    contiguous: bool
    deterministic: bool
    knobs: list[str]
    configs: list[dict[str, int]]  # the first is the default
    sections: list[dict[str, Any]]  # for the tune file
    variables: dict[str, Variable] = field(default_factory=dict)
    where: list[Expression] = field(default_factory=list)
    heuristics: dict[str, Expression] = field(default_factory=dict)
    workspaces: list[Workspace] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)


@dataclass
class Description:
    file: pathlib.Path
    name: str
    version: str
    vendor: str
    priority: int
    tune_version: int
    architectures: list[str]
    implementations: list[Implementation] = field(default_factory=list)
