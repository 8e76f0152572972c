"""The command-line tools of the package: `plugin-ls` of its environment runs the program that it brings."""

import os
import sys
from typing import NoReturn


def _run(name: str) -> NoReturn:
    os.execv(os.path.join(os.path.dirname(__file__), "bin", name), [name, *sys.argv[1:]])


def bench() -> NoReturn:
    _run("plugin-bench")


def check() -> NoReturn:
    _run("plugin-check")


def ls() -> NoReturn:
    _run("plugin-ls")


def pack() -> NoReturn:
    _run("plugin-pack")


def run() -> NoReturn:
    _run("plugin-run")


def sign() -> NoReturn:
    _run("plugin-sign")


def tune() -> NoReturn:
    _run("plugin-tune")
