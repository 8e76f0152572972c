"""The command `opdock`: what there is in this environment, kept so that nothing else is loaded."""

import argparse
import hashlib
import importlib.metadata
import pathlib
import sys

from . import Host, __version__

_EXAMPLES = """examples:
  opdock lock --out opdock.lock.yaml             what serves here, once it was tested
  PLUGIN_CONFIG=$PWD/opdock.lock.yaml python job.py   loads these very files, and no others
"""


def _distributions() -> dict[pathlib.Path, str]:
    """Of each file below a folder `plugins`, the wheel that brought it."""
    found = {}
    for one in importlib.metadata.distributions():
        for file in one.files or []:
            if "plugins" in file.parts and file.suffix == ".so":
                found[pathlib.Path(str(one.locate_file(file))).resolve()] = f"{one.name} {one.version}"
    return found


def lock() -> str:
    """A policy file that trusts the plugins that a host loads here, and no others."""
    wheels = _distributions()
    lines = [
        f"# Made by `opdock lock` of opdock {__version__}: the plugins that were loaded, by their SHA-256. With",
        "# PLUGIN_CONFIG naming this file, a host rejects every other one, and each of these once its file differs.",
        "trust: require",
        "trusted_sha256:",
    ]
    for plugin in Host().describe()["plugins"]:
        if plugin["status"] == "loaded":
            path = pathlib.Path(plugin["path"]).resolve()
            wheel = f", {wheels[path]}" if path in wheels else ""
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"  - {digest}   # {plugin['id']} {plugin['version']} of {plugin['vendor']}{wheel}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="opdock", description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser(
        "lock", help="write a policy file that lets in the plugins that are loaded here alone"
    )
    command.add_argument("--out", type=pathlib.Path, metavar="FILE", help="in place of stdout")
    arguments = parser.parse_args()
    text = lock()
    if arguments.out is None:
        sys.stdout.write(text)
        return 0
    try:
        arguments.out.write_text(text)
    except OSError as error:
        print(f"opdock: {error}", file=sys.stderr)
        return 1
    return 0
