"""Builds plugins from Triton kernels: `opdock triton build acme.yaml`. docs/triton.md describes it.

The plugins need neither Python nor Triton to run.
"""

import importlib
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

from ._yaml import DescriptionError

__all__ = ["DescriptionError", "build"]

Progress = Callable[[int, int, str], None]


def build(
    file: str | os.PathLike[str],
    out: str | os.PathLike[str] = ".",
    *,
    architectures: list[str] | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> pathlib.Path:
    """Builds the plugin that `file` describes, and returns its path: `libNAME.so` in the folder `out`, beside
    `NAME.tune.yaml` if there is something to tune.

    Raises a DescriptionError if the description or its kernels are wrong. `progress` is called with the number of
    compiled kernels, their total number, and the name of the last one.
    """
    try:
        importlib.import_module("triton")
    except ImportError as error:
        raise DescriptionError(
            f"Triton cannot be imported: {error}. `pip install opdock[triton]` installs it."
        ) from None
    from . import _compile, _description, _library, _pack

    description = _description.load(pathlib.Path(file), architectures)
    devices: dict[str, list[str]] = {}
    for one in description.architectures:
        devices.setdefault(_pack.device_of(one), []).append(one)
    tables = [
        (implementation, of_device, _compile.tables(implementation, of_device))
        for implementation in description.implementations
        for of_device in devices.values()
    ]
    jobs = {
        job: launch.place
        for implementation, _, of_launches in tables
        for launch, table in zip(implementation.launches, of_launches, strict=True)
        for job in table.jobs
    }
    data = _pack.Data()
    report = progress or (lambda done, count, name: None)
    codes = dict(
        _compile.run(jobs, processes or os.cpu_count() or 1, lambda done, n, job: report(done, n, job.function))
    )
    for job in jobs:  # deterministic order, whichever was compiled first
        data.add(job, codes[job])
    library = _library.Library((pathlib.Path(__file__).parents[1] / "lib" / "opdock" / "triton-plugin.so").read_bytes())
    library.append(data.pack(description, tables))
    library.write_note(description.name, description.version, description.vendor, ",".join(devices))
    return _write(pathlib.Path(out), description.name, library.finish(), description.implementations)


def _write(folder: pathlib.Path, name: str, library: bytes, implementations: list[Any]) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    tuned = [one for one in implementations if one.sections]
    if tuned:
        lines = ["schema: opdock.tune/1", "ops:"]
        for one in tuned:
            lines.append(f"  {one.op.op}:")
            lines += [f"    - {json.dumps(section)}" for section in one.sections]
        _replace(folder / f"{name}.tune.yaml", "\n".join(lines).encode() + b"\n")
    path = folder / f"lib{name}.so"
    _replace(path, library)
    return path


def _replace(path: pathlib.Path, data: bytes) -> None:
    """Replaces the file by renaming: a process that has the old file mapped keeps it."""
    new = path.with_name(path.name + ".new")
    new.write_bytes(data)
    new.chmod(0o755 if path.suffix == ".so" else 0o644)
    new.rename(path)
