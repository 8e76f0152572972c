"""Code shown in documents is code that is compiled: a block that follows `<!-- from PATH -->` must stand in that file.

    documented_code.py ROOT DOCUMENT...

Lines are compared without indentation, so that a block may be moved to the margin; a line `...` stands for any lines.
"""

import pathlib
import re
import sys

BLOCK = re.compile(r"<!-- from (?P<path>\S+) -->\n```\w*\n(?P<code>.*?)\n```", re.DOTALL)


def find(part, lines, start):
    """The index behind `part` in `lines`, looked for from `start`; None when it is not there."""
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


def main():
    root = pathlib.Path(sys.argv[1])
    blocks = 0
    wrong = 0
    for document in sys.argv[2:]:
        text = (root / document).read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            blocks += 1
            source = root / block["path"]
            part = missing_part(block["code"], source.read_text(encoding="utf-8")) if source.exists() else block["code"]
            if part is not None:
                wrong += 1
                line = text.count("\n", 0, block.start()) + 1
                print(f"{document}:{line}: not in {block['path']}:\n{part}\n", file=sys.stderr)
    print(f"{blocks} blocks of code in {len(sys.argv) - 2} documents, {wrong} of them not in the file they are from")
    return 1 if wrong or not blocks else 0


if __name__ == "__main__":
    sys.exit(main())
