"""Checks documents: code shown is code that is compiled, links resolve, and the requirements that they cite exist.

    check_documents.py ROOT

A block that follows `<!-- from PATH -->` must stand in that file. Lines are compared without indentation, so that a
block may be shifted to the margin; a line `...` stands for any number of lines. Links that are not to the web must lead
to a file or folder, and an anchor after `#` to one of its headings. A number such as F-12 is a row of
plugin-sdk/REQUIREMENTS.md.
"""

import itertools
import os
import pathlib
import re
import sys

BLOCK = re.compile(r"<!-- from (?P<path>\S+) -->\n```\w*\n(?P<code>.*?)\n```", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
NUMBER = re.compile(r"\b(?P<number>[FHP]-\d+)\b")
HEADING = re.compile(r"^#+ +(?P<text>.+)$", re.MULTILINE)


def find(part, lines, start):
    """The index after `part` in `lines`, searched from `start`; None if it is not there."""
    for at in range(start, len(lines) - len(part) + 1):
        if lines[at : at + len(part)] == part:
            return at + len(part)
    return None


def missing_part(code, source):
    """The first run of lines of `code` that `source` lacks, or None."""
    lines = [line.strip() for line in source.splitlines()]
    at = 0
    for part in re.split(r"^\s*\.\.\.\s*$", code, flags=re.MULTILINE):
        wanted = [line.strip() for line in part.strip("\n").splitlines()]
        at = find(wanted, lines, at)
        if at is None:
            return part.strip("\n")
    return None


def anchors(document):
    """Valid anchors (after `#`), as web views of repositories make them from headings."""
    headings = HEADING.findall(document.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def wrong_code(root, text):
    for block in BLOCK.finditer(text):
        source = root / block["path"]
        part = missing_part(block["code"], source.read_text(encoding="utf-8")) if source.exists() else block["code"]
        if part is not None:
            yield block.start(), f"not in {block['path']}:\n{part}\n"


def wrong_links(document, text):
    for link in LINK.finditer(re.sub(r"```.*?```", lambda code: " " * len(code[0]), text, flags=re.DOTALL)):
        if link["target"].startswith(("http://", "https://")):
            continue
        path, _, anchor = link["target"].partition("#")
        target = document.parent / path if path else document
        if not target.exists():
            yield link.start(), f"there is no {link['target']}"
        elif anchor and anchor not in anchors(target):
            yield link.start(), f"{path or 'this document'} has no heading for #{anchor}"


def wrong_numbers(root, text):
    requirements = root / "plugin-sdk" / "REQUIREMENTS.md"
    if not requirements.exists():  # installed
        requirements = root / "REQUIREMENTS.md"
    rows = requirements.read_text(encoding="utf-8")
    for number in NUMBER.finditer(text):
        if f"\n| {number['number']} |" not in rows:
            yield number.start(), f"REQUIREMENTS.md has no row {number['number']}"


def main():
    root = pathlib.Path(sys.argv[1])
    documents = []
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if name != "build"]  # skipped: other tests make and remove files there
        documents += [pathlib.Path(folder) / name for name in files if name.endswith(".md")]
    documents.sort()
    wrong = 0
    for document in documents:
        text = document.read_text(encoding="utf-8")
        faults = [wrong_code(root, text), wrong_links(document, text), wrong_numbers(root, text)]
        for at, what in itertools.chain(*faults):
            wrong += 1
            line = text.count("\n", 0, at) + 1
            print(f"{document.relative_to(root)}:{line}: {what}", file=sys.stderr)
    print(f"{len(documents)} documents, {wrong} faults")
    return 1 if wrong or not documents else 0


if __name__ == "__main__":
    sys.exit(main())
