#!/usr/bin/env python3
"""Checks that every kernel begins with wait_for_earlier_kernels(), as launch.hpp requires: others may read too early.

The only statements allowed before it initialize a constant with what place_of() or a function *_by_parameters returns.
"""
import pathlib
import re
import sys

BEGINNING = re.compile(r"(\s*const [^;{}=]+ = (place_of|\w+_by_parameters)\b[^;{}]*;)*\s*wait_for_earlier_kernels\(\);")

folder = pathlib.Path(__file__).resolve().parent.parent
found, wrong = 0, []
for path in sorted(folder.rglob("*.cu*")):
    text = path.read_text()
    for begin in re.finditer(r"__global__", text):
        depth, at = 0, begin.end()
        while depth != 0 or text[at] != "{":
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        found += 1
        if not BEGINNING.match(text, at + 1):
            line = text.count("\n", 0, begin.start()) + 1
            wrong.append(f"{path.relative_to(folder.parent.parent)}:{line}: the kernel does not begin with "
                         "wait_for_earlier_kernels();")
if found == 0:
    wrong.append(f"{folder}: no kernel was found")
print("\n".join(wrong) or f"{found} kernels wait first")
sys.exit(bool(wrong))
