"""Checks that docs/ops.md lists every standard op of the SDK, its implementers, and the names by which the host knows
it from other libraries.

    check_ops.py ROOT PLUGIN_LS CPU_PLUGIN REFERENCE_PLUGIN

The table has a row for each header of opdock/ops: the ops that are implemented, with the plugin's name if only one of
the two does so, and the ops that have only a signature. If the table is wrong, the correct one is printed.
"""

import json
import os
import pathlib
import re
import subprocess
import sys


def ops_of(header):
    """The op names, in the header's order."""
    return re.findall(r'#define OPDOCK_OP_\w+\s*\\?\s*"([\w.]+)\(', header.read_text(encoding="utf-8"))


def implementers(plugin_ls, plugins):
    """Maps each implemented op to the ids of the plugins that implement it."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PLUGIN_")}
    environment.update(PLUGIN_MODULES=":".join(plugins), PLUGIN_MODULES_ONLY="1",
                       PLUGIN_DEFAULT_PLUGINS="opdock")
    done = subprocess.run([plugin_ls, "--json"], env=environment, check=True, capture_output=True, text=True)
    return {op["op"]: {one["plugin"] for one in op["implementations"]} for op in json.loads(done.stdout)["ops"]}


def row(header, by_op):
    done, missing = [], []
    for op in ops_of(header):
        plugins = by_op.get(op, set())
        if not plugins:
            missing.append(f"`{op}`")
        else:
            done.append(f"`{op}`" + ("" if plugins == {"cpu", "reference"} else f" ({', '.join(sorted(plugins))} only)"))
    return f"| {header.name} | {', '.join(done)} | {', '.join(missing)} |"


def main():
    root, plugin_ls = pathlib.Path(sys.argv[1]), sys.argv[2]
    by_op = implementers(plugin_ls, sys.argv[3:])
    headers = sorted((root / "plugin-sdk/include/opdock/ops").glob("*.h"))
    expected = [row(header, by_op) for header in headers]
    found = (root / "docs/ops.md").read_text(encoding="utf-8").splitlines()
    if [line for line in found if line.startswith("| ") and ".h |" in line] != expected:
        print("docs/ops.md should have these rows:\n" + "\n".join(expected), file=sys.stderr)
        return 1
    source = (root / "host" / "src" / "signature" / "other_names.cpp").read_text(encoding="utf-8")
    names = [f"| `{name}` | {library} | {', '.join(f'`{op}`' for op in ops.split())} |"
             for name, library, ops in re.findall(r'OtherName\{"([^"]+)",\s+"([^"]+)",\s+"([^"]+)"\}', source)]
    if not names or "\n".join(names) not in "\n".join(found):
        print("docs/ops.md should have these rows:\n" + "\n".join(names), file=sys.stderr)
        return 1
    print(f"{len(expected)} rows, {len(by_op)} ops with implementations, {len(names)} names of other libraries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
