"""An op's signature, as far as a description needs it; docs/signatures.md has the grammar, which the host checks."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

_PARAMETER = re.compile(
    r"(?P<marks>(?:(?:mut|host)\s+)*)(?P<name>\w+)\s*(?:~\s*\w+\s*)?:\s*(?P<dtype>\w+)\s*\[(?P<dims>[^\]]*)\]"
    r"\s*(?P<list>\*?)\s*(?P<optional>\??)"
)
_ATTRIBUTE = re.compile(r"(?P<name>\w+)\s*:\s*(?P<type>\w+(?:\[\])?)\s*(?P<optional>\??)")
_USUAL = ("f32", "f16", "bf16")  # of a dtype variable of which the signature says no others


@dataclass(frozen=True)
class Parameter:
    name: str
    dtype: str  # "f32", or a variable
    dims: tuple[str, ...]
    optional: bool
    is_list: bool


@dataclass(frozen=True)
class Attribute:
    name: str
    type: str
    optional: bool


@dataclass
class Op:
    name: str
    signature: str
    parameters: list[Parameter] = field(default_factory=list)  # inputs, then outputs
    attributes: list[Attribute] = field(default_factory=list)
    dims: set[str] = field(default_factory=set)
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of dtypes, in order, and what each may be

    def parameter(self, name: str) -> int | None:
        return next((i for i, one in enumerate(self.parameters) if one.name == name), None)

    def attribute(self, name: str) -> int | None:
        return next((i for i, one in enumerate(self.attributes) if one.name == name), None)


def _split(text: str) -> list[str]:
    """At commas that stand outside of all brackets and quotes."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "([") - (c in ")]")
        if c == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def parse(signature: str, fail: Callable[[str], NoReturn]) -> Op:
    match = re.fullmatch(r"\s*([a-z][a-z0-9_.]*)\s*\((.*)\)\s*->\s*\((.*?)\)\s*(?:where\s+(.*))?", signature, re.DOTALL)
    if match is None:
        fail("this is no signature: 'name(input: T[...], ...) -> (output: T[...])' is expected (docs/signatures.md)")
    op = Op(match[1], signature)
    inputs, star, attributes = match[2].partition("*,")
    typed: list[str] = []
    for text in _split(inputs) + ([""] if star else []) + _split(match[3]):
        if not text:  # attributes stand between inputs and outputs
            for one in _split(attributes):
                found = _ATTRIBUTE.match(one)
                if found is None:
                    fail(f"'{one}' is no attribute (docs/signatures.md)")
                op.attributes.append(Attribute(found["name"], found["type"], bool(found["optional"])))
                typed.append(found["type"])
            continue
        found = _PARAMETER.fullmatch(text)
        if found is None:
            fail(f"'{text}' is no tensor (docs/signatures.md)")
        dims = tuple(dim.strip() for dim in found["dims"].split(",") if dim.strip())
        op.parameters.append(
            Parameter(found["name"], found["dtype"], dims, bool(found["optional"]), bool(found["list"]))
        )
        op.dims |= {name for dim in dims for name in re.findall(r"[a-z_]\w*", dim)}
        typed.append(found["dtype"])
    allowed = {
        clause[0]: tuple(clause[5:].replace(" ", "").split("|"))
        for clause in _split(match[4] or "")
        if re.match(r"[A-Z] in ", clause)
    }
    for dtype in typed:
        if re.fullmatch(r"[A-Z]", dtype):
            op.variables.setdefault(dtype, allowed.get(dtype, _USUAL))
    op.dims -= {attribute.name for attribute in op.attributes}
    return op
