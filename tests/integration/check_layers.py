"""Checks that data flows one way through the host's stages, and that docs/architecture.md tells of them as they are.

    check_layers.py SOURCES ARCHITECTURE

A file may include what stands in its own folder or in one that comes earlier below. The document has the folders in a
table, and in others names, each with a link to the file that has it.
"""

import pathlib
import re
import sys

FOLDERS = [
    "text",  # messages, names, YAML: knows nothing of plugins
    "files",
    "signature",  # and the shapes and dtypes that calls have
    "inspect",  # search and judge files, without running them
    "trust",
    "load",  # open, register
    "probe",  # try elsewhere, and remember: cache and journal
    "devices",
    "policy",
    "resolve",
    "tune",
    "dispatch",
    "tuner",
    "host",
]
INCLUDE = re.compile(r'^#include "(?P<folder>\w+)/(?P<file>[\w.]+)"', re.MULTILINE)


def wrong_includes(sources):
    level_of = {folder: level for level, folder in enumerate(FOLDERS)}
    files = sorted(path for path in sources.rglob("*") if path.suffix in (".cpp", ".hpp", ".h"))
    if not files:
        yield f"{sources}: no sources"
    for path in files:
        folder = path.parent.name
        if path.parent.parent != sources or folder not in level_of:
            yield f"{path}: not in a folder that check_layers.py knows"
            continue
        for include in INCLUDE.finditer(path.read_text()):
            if level_of.get(include["folder"], 0) > level_of[folder]:
                yield f"{path}: includes {include['folder']}/{include['file']} of a later stage"


def wrong_tables(document):
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in document.read_text().split("\n")
            if line.startswith("|") and not line.startswith("|-")]
    folders = [row[0] for row in rows if len(row) == 2 and "`" not in row[0]]
    expected = ["folder"] + FOLDERS
    if [one for one in folders if one not in ("function", "word")] != expected:
        yield f"{document}: expected the folders {expected}, found {folders}"
    named = 0
    for row in rows:
        name = re.fullmatch(r"`(\w+)`", row[0])
        links = re.findall(r"\[[^]]*\]\(([^)]+)\)", " ".join(row[1:]))
        if name and links:
            named += 1
            path = document.parent / links[-1]
            if not path.is_file() or not re.search(rf"\b{name[1]}\b", path.read_text()):
                yield f"{document}: {name[1]} is not in {links[-1]}"
    if named == 0:
        yield f"{document}: no names"


def main():
    sources, document = (pathlib.Path(one) for one in sys.argv[1:])
    found = list(wrong_includes(sources)) + list(wrong_tables(document))
    print("\n".join(found) or "data flows one way")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
