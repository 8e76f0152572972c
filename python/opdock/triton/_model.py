"""A description as Python's own types: what _description.py makes of a file, and all else reads."""

import pathlib
from dataclasses import dataclass, field
from typing import Any

from .._signature import Signature
from ._expression import Expression
from ._yaml import Node

# What tensors of a dtype are to Triton.
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
# A kernel's options that a knob of the same name gives.
OPTIONS = ("num_warps", "num_stages", "maxnreg")


@dataclass(frozen=True)
class Variable:
    """What a name in an expression stands for, as the plugin finds it (description.hpp)."""

    kind: str
    name: str = ""
    first: int = 0
    second: int = 0


@dataclass
class Argument:
    """What a kernel's parameter is given."""

    name: str
    kind: str  # tensor, workspace, number; key: a constexpr that is a number; constant: another constexpr
    index: int = 0  # of the op's parameter or of the workspace
    otherwise: int = -1  # the workspace in place of a tensor that is absent
    type: str = ""  # of a number
    value: Expression = field(default_factory=lambda: Expression(""))
    constant: Any = None  # ("text", value) or ("dtype", variable)
    aligns: bool = True  # whether code may be compiled for what the value is
    specializes: bool = True


@dataclass
class Variant:
    """Names of arguments of which something is taken for granted."""

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
    conditions: list[Expression] = field(default_factory=list)  # what `when` is made of
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
