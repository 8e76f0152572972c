"""Checks that data flows one way through the host's stages, and that docs/architecture.md describes them correctly.

    check_layers.py SOURCES ARCHITECTURE [NINJA BUILD]

A file may include headers from its own folder or from one listed earlier below. With the build tree, the compiler's
view is checked too: its dependency files, kept by Ninja, tell which folders the sources of a folder read, and this is
printed as a graph. The document lists the folders in a table; other tables have names, each with a link to its file.
"""

import pathlib
import re
import subprocess
import sys

FOLDERS = [
    "text",  # messages, names, YAML: knows nothing of plugins
    "files",
    "signature",  # also the shapes and dtypes of calls
    "inspect",  # search and judge files, without running them
    "trust",
    "load",  # open, register
    "probe",  # try elsewhere, and remember: cache and journal
    "devices",
    "policy",
    "resolve",
    "tune",
    "observe",  # threads and files for what the host reports about its work
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


def seen_folders(sources, ninja, build):
    """For each object of the host: the folders of its sources, and the folders of everything that the compiler read."""
    told = subprocess.run([ninja, "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    for entry in told.split("\n\n"):
        target, *files = entry.split("\n")
        if not target.startswith("host/CMakeFiles/opdock_core.dir/"):
            continue
        paths = [pathlib.Path(build, file.strip()).resolve() for file in files if "/host/src/" in file]
        inside = [path for path in paths if path.parent.parent == sources.resolve()]
        of_sources = {path.parent.name for path in inside if path.suffix == ".cpp"}
        yield target.split(":")[0], of_sources, {path.parent.name for path in inside}


def wrong_graph(sources, ninja, build):
    level_of = {folder: level for level, folder in enumerate(FOLDERS)}
    graph, compiled = {}, set()
    for target, of_sources, seen in seen_folders(sources, ninja, build):
        # If several sources are compiled as one, the latest stage among them sets the limit.
        latest = max(of_sources, key=level_of.__getitem__)
        compiled |= of_sources
        graph.setdefault(latest, set()).update(seen - {latest})
        for folder in seen:
            if level_of[folder] > level_of[latest]:
                yield f"{target}: sources of {latest} see {folder}, a later stage"
    if compiled != set(FOLDERS):
        yield f"{build}: expected objects of {FOLDERS}, found those of {sorted(compiled)}"
    for folder in FOLDERS:
        if folder in graph:
            print(f"{folder:9} sees {' '.join(sorted(graph[folder], key=level_of.__getitem__)) or 'no other'}")


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
    sources, document = (pathlib.Path(one) for one in sys.argv[1:3])
    found = list(wrong_includes(sources)) + list(wrong_tables(document))
    if len(sys.argv) > 3:
        found += wrong_graph(sources, *sys.argv[3:])
    print("\n".join(found) or "data flows one way")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
