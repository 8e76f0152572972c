"""Command-line tools of the package: `plugin-ls` of an environment runs the program that the package contains."""

import os
import sys
from functools import partial
from typing import NoReturn


def _run(name: str) -> NoReturn:
    os.execv(os.path.join(os.path.dirname(__file__), "bin", name), [name, *sys.argv[1:]])


bench = partial(_run, "plugin-bench")
bisect = partial(_run, "plugin-bisect")
check = partial(_run, "plugin-check")
ls = partial(_run, "plugin-ls")
pack = partial(_run, "plugin-pack")
run = partial(_run, "plugin-run")
sign = partial(_run, "plugin-sign")
tune = partial(_run, "plugin-tune")
