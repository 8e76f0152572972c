"""A YAML file whose values know their position, so that each error has a line and a column."""

import difflib
import importlib
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn


class DescriptionError(Exception):
    """The error and its position: `acme.yaml:12:5: unknown field ...`."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(name, known, 1, 0.6)
    if not near:  # such as BLOCK for block
        near = [one for one in known if one.lower() == name.lower()]
    return f"; did you mean '{near[0]}'?" if near else ""


@dataclass(frozen=True)
class Node:
    """A value of the file."""

    file: pathlib.Path
    line: int
    column: int
    value: Any  # a number, bool, text or None; list[Node]; dict[str, tuple[Node, Node]] of keys and values

    def fail(self, message: str, offset: int = 0) -> NoReturn:
        raise DescriptionError(f"{self.file}:{self.line}:{self.column + offset}: {message}")

    def fields(self, known: Iterable[str], required: Iterable[str] = ()) -> dict[str, "Node"]:
        """Returns a map with the given keys."""
        known = list(known)
        found = {}
        for name, (key, value) in self.map().items():
            if name not in known:
                key.fail(f"unknown field '{name}'{did_you_mean(name, known)} Known fields are {', '.join(known)}.")
            found[name] = value
        for name in required:
            if name not in found:
                self.fail(f"the field '{name}' is missing")
        return found

    def map(self) -> dict[str, tuple["Node", "Node"]]:
        """Returns a map with arbitrary keys: for each, its node and its value."""
        if not isinstance(self.value, dict):
            self.fail(f"expected a map, found {self._described()}")
        return self.value

    def list(self) -> list["Node"]:
        """Returns a list; anything else becomes a list of one element."""
        return self.value if isinstance(self.value, list) else [self]

    def text(self) -> str:
        """Returns a text; numbers as they are printed."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int | float):
            self.fail(f"expected a text, found {self._described()}")
        return str(self.value)

    def integer(self) -> int:
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail(f"expected an integer, found {self._described()}")
        return self.value

    def boolean(self) -> bool:
        if not isinstance(self.value, bool):
            self.fail(f"expected true or false, found {self._described()}")
        return self.value

    def plain(self) -> Any:
        """Returns the value as Python types."""
        if isinstance(self.value, dict):
            return {name: value.plain() for name, (_, value) in self.value.items()}
        if isinstance(self.value, list):
            return [one.plain() for one in self.value]
        return self.value

    def _described(self) -> str:
        if isinstance(self.value, dict):
            return "a map"
        if isinstance(self.value, list):
            return "a list"
        return "nothing" if self.value is None else f"'{self.value}'"


def read(file: pathlib.Path) -> Node:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise DescriptionError(f"{file}: {error}") from None
    return parse(text, file)


def parse(text: str, file: pathlib.Path) -> Node:
    yaml: Any = importlib.import_module("yaml")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise DescriptionError(f"{file}:{mark.line + 1}:{mark.column + 1}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise DescriptionError(f"{file}: {error}") from None
    if root is None:
        raise DescriptionError(f"{file}:1:1: the file is empty")

    def converted(node: Any) -> Node:
        mark = node.start_mark
        # For a quoted text, the position after the quote.
        quoted = isinstance(node, yaml.ScalarNode) and node.style in ("'", '"')
        made = Node(file, mark.line + 1, mark.column + 1 + quoted, None)
        value: Any
        if isinstance(node, yaml.MappingNode):
            value = {}
            for key_node, value_node in node.value:
                key = converted(key_node)
                name = key.text()
                if name in value:
                    key.fail(f"the key '{name}' is given twice")
                value[name] = (key, converted(value_node))
        elif isinstance(node, yaml.SequenceNode):
            value = [converted(one) for one in node.value]
        else:
            try:
                value = loader.construct_object(node)
            except yaml.YAMLError as error:
                made.fail(str(error))
        return Node(file, made.line, made.column, value)

    return converted(root)
