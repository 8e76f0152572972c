"""Expressions of tune files (docs/tuning.md), compiled for the plugin, which evaluates them without a parser.

The plugin's half is python/triton-plugin/expression.cpp, with the same operation numbers.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

OPERATIONS = [
    "constant",
    "variable",
    "negate",
    "add",
    "subtract",
    "multiply",
    "divide",
    "remainder",
    "power",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "jump_if_zero",
    "jump",
    "truth",
    "minimum",
    "maximum",
    "absolute",
    "floor",
    "ceil",
    "log2",
    "sqrt",
    "next_pow2",
    "prev_pow2",
    "ceil_div",
    "round_up",
]

FUNCTIONS = {
    "min": "minimum",
    "max": "maximum",
    "abs": "absolute",
    "floor": "floor",
    "ceil": "ceil",
    "log2": "log2",
    "sqrt": "sqrt",
    "next_pow2": "next_pow2",
    "prev_pow2": "prev_pow2",
    "ceil_div": "ceil_div",
    "cdiv": "ceil_div",
    "round_up": "round_up",
}
_OF_TWO = ("ceil_div", "round_up")

_BINARY = {  # precedence, and operation
    "<": (4, "less"),
    "<=": (4, "less_equal"),
    ">": (4, "greater"),
    ">=": (4, "greater_equal"),
    "==": (4, "equal"),
    "!=": (4, "not_equal"),
    "+": (5, "add"),
    "-": (5, "subtract"),
    "*": (6, "multiply"),
    "/": (6, "divide"),
    "%": (6, "remainder"),
    "^": (8, "power"),
}
_COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_SIGN = 7
_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)|([A-Za-z_]\w*)|(<=|>=|==|!=|&&|\|\||[-+*/%^<>()?:,]))")

Fail = Callable[[str, int], NoReturn]  # a message, and its position in the text


@dataclass
class Expression:
    text: str
    steps: list[tuple[str, float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # the variables that it reads; a step `variable` has an index here

    def is_whole(self) -> bool:
        """True if the result is an integer whenever all variables are integers."""
        return all(
            step not in ("divide", "power", "log2", "sqrt") and (step != "constant" or value == int(value))
            for step, value in self.steps
        )

    @property
    def is_truth(self) -> bool:
        """True if the result is 0 or 1 for any values of the variables."""
        ends = [at for at, (step, to) in enumerate(self.steps) if step == "jump" and to == len(self.steps)]
        return all(_gives_truth(*self.steps[at - 1]) for at in [*ends, len(self.steps)])


def _gives_truth(step: str, value: float) -> bool:
    return step in _COMPARISONS or step == "truth" or (step == "constant" and value in (0, 1))


def constant(value: float) -> Expression:
    return Expression(str(value), [("constant", float(value))])


def parse(text: str, fail: Fail) -> Expression:
    return _Parser(text, fail).parse()


class _Parser:
    def __init__(self, text: str, fail: Fail) -> None:
        self._expression = Expression(text)
        self._fail = fail
        self._tokens: list[tuple[str, str, int]] = []  # kind, text, position
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                fail(f"unexpected '{text[at]}' in an expression", at)
            kind = "number" if match[1] else "name" if match[2] else "sign"
            token = match[1] or match[2] or match[3]
            self._tokens.append((kind, token, match.end() - len(token)))
            at = match.end()
        self._tokens.append(("end", "", len(text)))
        self._at = 0

    def parse(self) -> Expression:
        self._choice()
        if self._peek() != "":
            self._unexpected()
        return self._expression

    def _peek(self) -> str:
        return self._tokens[self._at][1]

    def _next(self) -> tuple[str, str, int]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _unexpected(self) -> NoReturn:
        _, token, place = self._tokens[self._at]
        self._fail(f"unexpected '{token}' in an expression" if token else "an expression ends too early", place)

    def _take(self, token: str) -> None:
        if self._peek() != token:
            self._unexpected()
        self._at += 1

    def _emit(self, step: str, value: float = 0) -> int:
        self._expression.steps.append((step, float(value)))
        return len(self._expression.steps) - 1

    def _land(self, jump: int) -> None:
        step, _ = self._expression.steps[jump]
        self._expression.steps[jump] = (step, float(len(self._expression.steps)))

    def _choice(self) -> None:
        self._either()
        if self._peek() == "?":
            self._next()
            to_else = self._emit("jump_if_zero")
            self._choice()
            to_end = self._emit("jump")
            self._land(to_else)
            self._take(":")
            self._choice()
            self._land(to_end)

    def _either(self) -> None:
        self._both()
        while self._peek() == "||":
            self._next()
            to_right = self._emit("jump_if_zero")
            self._emit("constant", 1)
            to_end = self._emit("jump")
            self._land(to_right)
            self._both()
            self._emit("truth")
            self._land(to_end)

    def _both(self) -> None:
        self._binary(0)
        while self._peek() == "&&":
            self._next()
            to_zero = self._emit("jump_if_zero")
            self._binary(0)
            self._emit("truth")
            to_end = self._emit("jump")
            self._land(to_zero)
            self._emit("constant", 0)
            self._land(to_end)

    def _binary(self, weakest: int) -> None:
        self._unary()
        while (token := self._peek()) in _BINARY and _BINARY[token][0] >= weakest:
            self._next()
            strength, step = _BINARY[token]
            self._binary(strength if token == "^" else strength + 1)
            self._emit(step)

    def _unary(self) -> None:
        if self._peek() in ("-", "+"):
            negative = self._next()[1] == "-"
            self._binary(_SIGN)
            if negative:
                self._emit("negate")
            return
        kind, token, place = self._next()
        if kind == "number":
            self._emit("constant", float(token))
        elif token == "(":
            self._choice()
            self._take(")")
        elif kind == "name" and self._peek() == "(":
            self._call(token, place)
        elif kind == "name":
            names = self._expression.names
            if token not in names:
                names.append(token)
            self._emit("variable", names.index(token))
        else:
            self._at -= 1
            self._unexpected()

    def _call(self, name: str, place: int) -> None:
        if name not in FUNCTIONS:
            self._fail(f"unknown function '{name}'; the known functions are {', '.join(sorted(FUNCTIONS))}", place)
        step = FUNCTIONS[name]
        self._take("(")
        count = 0
        while count == 0 or self._peek() == ",":
            if count:
                self._next()
            self._choice()
            count += 1
            if step in ("minimum", "maximum") and count > 1:
                self._emit(step)
        self._take(")")
        wanted = (
            "two values or more" if step in ("minimum", "maximum") else "two values" if step in _OF_TWO else "a value"
        )
        if (count < 2) != (wanted == "a value") or (count > 2 and wanted == "two values"):
            self._fail(f"{name} expects {wanted}", place)
        if step not in ("minimum", "maximum"):
            self._emit(step)


def evaluate(expression: Expression, values: Mapping[str, float]) -> float:
    """Evaluates like the plugin; for values that are known when the plugin is built."""
    stack: list[float] = []
    at = 0
    while at < len(expression.steps):
        step, value = expression.steps[at]
        at += 1
        if step == "constant":
            stack.append(value)
        elif step == "variable":
            stack.append(values[expression.names[int(value)]])
        elif step in ("jump", "jump_if_zero"):
            if step == "jump" or stack.pop() == 0:
                at = int(value)
        elif step in _OF_ONE:
            stack.append(float(_OF_ONE[step](stack.pop())))
        else:
            b = stack.pop()
            stack.append(float(_OF_BOTH[step](stack.pop(), b)))
    return stack.pop()


def _divide(a: float, b: float) -> float:
    return a / b if b else math.copysign(math.inf, a) if a else math.nan


_OF_ONE: Mapping[str, Callable[[float], float]] = {
    "negate": lambda a: -a,
    "truth": lambda a: a != 0,
    "absolute": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "next_pow2": lambda a: 1 << max(math.ceil(a) - 1, 0).bit_length(),
    "prev_pow2": lambda a: 1 if a < 2 else 1 << (int(a).bit_length() - 1),
}
_OF_BOTH: Mapping[str, Callable[[float, float], float]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": _divide,
    "remainder": math.fmod,
    "power": math.pow,
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "minimum": min,
    "maximum": max,
    "ceil_div": lambda a, b: math.ceil(a / b),
    "round_up": lambda a, b: math.ceil(a / b) * b,
}
