"""The command-line tools of the package: `plugin-ls` of its environment runs the program that it brings."""

import os
import sys


def main() -> None:
    name = os.path.basename(sys.argv[0])
    os.execv(os.path.join(os.path.dirname(__file__), "bin", name), [name, *sys.argv[1:]])
