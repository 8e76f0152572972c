"""The command `opdock`."""

import argparse
import pathlib
import sys

from . import __version__
from ._lock import lock
from .triton import DescriptionError, build

_EXAMPLES = """examples:
  opdock lock --out opdock.lock.yaml             allow only what serves here, once tested
  PLUGIN_CONFIG=$PWD/opdock.lock.yaml python job.py   loads these very files, and no others
  opdock triton build acme.yaml --out plugins    libacme.so, of the kernels that acme.yaml names
"""


def _write_lock(arguments: argparse.Namespace) -> None:
    text = lock()
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        arguments.out.write_text(text)


def _build(arguments: argparse.Namespace) -> None:
    on_terminal = sys.stderr.isatty()

    def progress(done: int, count: int, name: str) -> None:
        if on_terminal:
            print(f"\r\x1b[K{done} of {count} kernels  {name}", end="", file=sys.stderr, flush=True)
        elif done == count or done % 100 == 0:
            print(f"{done} of {count} kernels", file=sys.stderr, flush=True)

    try:
        path = build(
            arguments.file,
            arguments.out or ".",
            architectures=arguments.architectures.split(",") if arguments.architectures else None,
            processes=arguments.jobs,
            progress=progress,
        )
    finally:
        if on_terminal:
            print("\r\x1b[K", end="", file=sys.stderr)
    print(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="opdock", description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("lock", help="write a policy file that allows only the plugins that are loaded here")
    command.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the file to write (default: stdout)")
    command.set_defaults(run=_write_lock)

    triton = commands.add_parser("triton", help="plugins of kernels in Triton: docs/triton.md")
    command = triton.add_subparsers(required=True, metavar="COMMAND").add_parser(
        "build", help="compile the kernels of a description and make a plugin of them"
    )
    command.add_argument("file", type=pathlib.Path, metavar="FILE.yaml", help="the description")
    command.add_argument(
        "--out", type=pathlib.Path, metavar="FOLDER", help="the folder of the plugin; default: the current folder"
    )
    command.add_argument(
        "--architectures", metavar="LIST", help="used in place of the description's list: sm_80,sm_90,gfx942"
    )
    command.add_argument(
        "--jobs", type=int, metavar="N", help="number of compiling processes; default: one per processor"
    )
    command.set_defaults(run=_build)
    return parser


def main() -> int:
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except (OSError, DescriptionError) as error:
        print(f"opdock: {error}", file=sys.stderr)
        return 1
    return 0
