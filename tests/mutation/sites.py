"""Finds the places in a C++ file that a mutation test changes, and the changes possible at each.

Works on tokens, not on a syntax tree. The sources are formatted by clang-format: a binary operator has blanks on both
sides, a template's bracket has none. The caller drops changes that do not compile.
"""
import re
from typing import NamedTuple


class Change(NamedTuple):
    before: str
    after: str
    edits: list  # (start, end, text), in ascending order


class Site(NamedTuple):
    kind: str
    start: int
    line: int
    column: int
    in_function: bool
    changes: list


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


LEXER = re.compile(
    r"""
    (?P<skipped>\s+|//[^\n]*|/\*.*?\*/|^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"|(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'))
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<operator><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|.)
    """,
    re.X | re.M | re.S,
)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
# The other tokens that stand between two operands. (">>" is two tokens, which may close two templates.)
SWAPPED = {"&&": "||", "||": "&&", "+": "-", "-": "+", "+=": "-=", "-=": "+="}
# Words before parentheses whose content is evaluated only at compile time.
NOT_RUN = ("static_assert", "alignas", "alignof", "decltype", "sizeof", "noexcept", "requires", "__attribute__")
NO_CALL = ("return", "throw", "delete", "new", "using", "goto", "if", "for", "while", "switch", "sizeof", "static_assert", "catch", "case", "operator")
# Tokens that may precede the condition of "?:".
BEFORE_CONDITION = ("(", "[", "{", ",", ";", "=", "?", ":", "return", "throw", "+=", "-=", "|=", "&=", "else")
# Tokens that may precede the body of a function or a statement; the last one ends an initializer of a constructor.
BEFORE_BODY = (")", "const", "noexcept", "override", "else", "do", "try", "}")


def tokenize(text):
    return [
        Token(found.lastgroup if found.lastgroup != "mark" else "string", found.group(), found.start(), found.end())
        for found in LEXER.finditer(text)
        if not found.group("skipped")
    ]


class File:
    def __init__(self, text):
        self.text = text
        self.tokens = tokenize(text)
        self.words = [token.text for token in self.tokens] + [""]  # so that words[i + 1] and words[-1] exist
        self.mates = self.find_mates()
        self.bodies = [
            (i, mate) for i, mate in self.mates.items() if self.words[i] == "{" and self.words[i - 1] in BEFORE_BODY
        ]
        self.in_template = self.find_templates()
        self.not_run = self.find_not_run() | self.in_template
        self.sites = []

    def find_mates(self):
        mates, opened = {}, []
        for i, word in enumerate(self.words):
            if self.is_string(i):
                continue
            if word in ("(", "[", "{"):
                opened.append(i)
            elif word in (")", "]", "}") and opened:
                mates[i] = opened.pop()
                mates[mates[i]] = i
        return mates

    def is_string(self, i):
        return i < len(self.tokens) and self.tokens[i].kind == "string"

    def spaced(self, i):
        token = self.tokens[i]
        return self.text[token.start - 1].isspace() and self.text[token.end].isspace()

    def find_templates(self):
        inside = set()
        for i, word in enumerate(self.words):
            if word != "<" or self.spaced(i):
                continue
            depth = 0
            for end in range(i, min(i + 200, len(self.tokens))):
                if self.words[end] == "<" and not self.spaced(end):
                    depth += 1
                elif self.words[end] == ">" and not self.spaced(end):
                    depth -= 1
                elif self.words[end] == ";":
                    break
                if depth == 0:
                    inside.update(range(i, end + 1))
                    break
        return inside

    def find_not_run(self):
        inside = set()
        for i, word in enumerate(self.words[:-1]):
            first = None
            if word in NOT_RUN and self.words[i + 1] == "(":
                first = i + 1
            elif word == "enum":
                first = next(j for j in range(i, len(self.words)) if self.words[j] in ("{", ";", ""))
            elif word == "[" and self.words[i + 1] == "[":
                first = i
            elif word == "[" and self.is_array_size(i):
                first = i
            if first in self.mates:
                inside.update(range(first, self.mates[first]))
        return inside

    # Matches "char text[64]", but not "return text[0]".
    def is_array_size(self, i):
        return (
            self.tokens[i - 1].kind == "name"
            and (self.tokens[i - 2].kind == "name" or self.words[i - 2] in (">", "*", "&"))
            and self.words[i - 2] not in NO_CALL
        )

    def add(self, kind, i, *changes):
        start = self.tokens[i].start
        line_start = self.text.rfind("\n", 0, start) + 1
        line = self.text.count("\n", 0, start) + 1
        column = start - line_start + 1
        self.sites.append(Site(kind, start, line, column, any(a <= i <= b for a, b in self.bodies), list(changes)))

    def replaced(self, i, after):
        token = self.tokens[i]
        return Change(token.text, after, [(token.start, token.end, after)])

    def negated(self, first, last):
        start, end = self.tokens[first].start, self.tokens[last].end
        before = self.text[start:end]
        return Change(before, f"!({before})", [(start, start, "!("), (end, end, ")")])

    def add_number(self, i):
        text = self.words[i]
        digits = re.sub(r"[uUlLzZ]+$", "", text).replace("'", "")
        try:
            value = int(digits, 8 if re.fullmatch(r"0[0-7]+", digits) else 0)
        except ValueError:
            value = None  # a floating point number
        after = [f"({text} + 1)", f"({text} - 1)"]
        if value is None or value > 2:
            after += ["0"]
        if value is not None and value > 2:
            after += ["1"]
        self.add("constant", i, *(self.replaced(i, each) for each in after))

    def add_condition(self, i):
        first, last = i + 2, self.mates[i + 1] - 1
        depth = 0
        name = None
        for j in range(first, last + 1):
            if self.words[j] in ("(", "[", "{") and not self.is_string(j):
                depth += 1
            elif self.words[j] in (")", "]", "}") and not self.is_string(j):
                depth -= 1
            elif depth == 0 and self.words[j] == ";":
                first, name = j + 1, None
            elif depth == 0 and self.words[j] == "=":
                name = self.words[j - 1]
        if name is None:
            self.add("condition", first, self.negated(first, last))
        elif self.words[i] == "if":  # "if (const Entry *entry = find(name))"
            end = self.tokens[last].end
            before = self.text[self.tokens[first].start : end]
            self.add("condition", first, Change(before, f"{before}; !{name}", [(end, end, f"; !{name}")]))

    def add_choice(self, i):
        first = i
        while first > 0:
            j = first - 1
            if j not in self.in_template and not self.is_string(j):
                if self.words[j] in BEFORE_CONDITION:
                    break
                j = self.mates.get(j, j)
            first = j
        if first < i:
            self.add("condition", first, self.negated(first, i - 1))

    # A statement that consists of a call only.
    def add_call(self, i):
        before = self.words[i - 1] if i > 0 else ";"
        if before == ")" and self.words[self.mates.get(i - 1, 0) - 1] not in ("if", "for", "while"):
            return
        if before not in (";", "{", "}", ")", "else") or self.words[i] in NO_CALL:
            return
        j, called = i, False
        while j < len(self.tokens) and self.words[j] != ";":
            if self.words[j] in ("(", "["):
                called = self.words[j] == "("
                j = self.mates.get(j, len(self.tokens)) + 1
            elif self.words[j] in ("::", ".", "->") or j in self.in_template:
                j += 1
            elif self.tokens[j].kind == "name" and (j == i or self.words[j - 1] in ("::", ".", "->")):
                called = False
                j += 1
            else:
                return
        if called and not (self.words[i][0].isupper() and self.words[i + 1] == "("):  # excludes the declaration of a constructor
            start, end = self.tokens[i].start, self.tokens[j - 1].end
            self.add("call", i, Change(self.text[start:end], "", [(start, end, "")]))

    def find_sites(self):
        for i, token in enumerate(self.tokens):
            word = token.text
            if token.kind == "name" and i not in self.not_run:
                self.add_call(i)
            if i in self.not_run or token.kind == "string":
                continue
            if token.kind == "number":
                self.add_number(i)
            elif word in ("true", "false"):
                self.add("constant", i, self.replaced(i, "false" if word == "true" else "true"))
            elif word in ("if", "while") and self.words[i + 1] == "(":
                self.add_condition(i)
            elif word == "?":
                self.add_choice(i)
            elif word == "!":
                self.add("condition", i, self.replaced(i, ""))
            elif word in COMPARISONS and self.spaced(i):
                self.add("comparison", i, *(self.replaced(i, other) for other in COMPARISONS if other != word))
            elif word in SWAPPED and self.spaced(i):
                self.add("condition" if word in ("&&", "||") else "sum", i, self.replaced(i, SWAPPED[word]))
        return self.sites


def find_sites(text):
    return File(text).find_sites()


def changed(text, change):
    for start, end, instead in reversed(change.edits):
        text = text[:start] + instead + text[end:]
    return text
