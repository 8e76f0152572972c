#!/usr/bin/env python3
"""Compares the launches of a plugin of `opdock triton build` with those of FlagGems or Liger in Python, without a GPU.

Nothing is compiled or computed: the plugin is built from descriptions with placeholders for code, and launches through
a driver that logs its calls. Each kernel's constants, specializations, options, grid and arguments must be the same,
and pointers must refer to the same tensors. Kernels with @triton.autotune use their first config.

    PYTHONPATH=build/release/python:/tmp/gems GEMS_VENDOR=nvidia tests/gpu/triton_launches.py flaggems --build build/release
"""

import argparse
import contextlib
import ctypes
import importlib
import os
import pathlib
import struct
import sys
import tempfile
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
SM_90 = "sm_90"
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
TYPES = {"i1": "?", "i32": "i", "i64": "q", "fp32": "f"}


@dataclass
class Launch:
    kernel: str
    types: dict[str, str]  # of the passed arguments
    constants: dict[str, Any]
    divisible: set[str]
    options: dict[str, int]
    grid: tuple[int, ...]
    values: dict[str, Any]  # of the passed arguments; pointers as addresses


# --- what Python launches --------------------------------------------------------------------------------------------


def recorded(kernel: Any, grid: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Launch:
    """A launch, with the specialization that Triton chooses."""
    values = {p.name: p.default for p in kernel.params if p.has_default}
    values |= dict(zip(kernel.arg_names, arguments, strict=False)) | named
    options = {n: values.pop(n) for n in ("num_warps", "num_stages") if n in values and n not in kernel.arg_names}
    made = Launch(kernel.fn.__name__, {}, {}, set(), {"num_warps": 4, "num_stages": 3} | options, (), {})
    sizes = grid({**values, **options}) if callable(grid) else grid
    made.grid = (*sizes, 1, 1)[:3]
    for p in kernel.params:
        value = values[p.name]
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if p.is_constexpr or value is None or (is_integer and value == 1 and not p.do_not_specialize):
            made.constants[p.name] = value
            continue
        made.types[p.name], made.values[p.name] = type_of(value), value
        if hasattr(value, "data_ptr"):
            made.values[p.name] = value.data_ptr()
        aligns = not (p.do_not_specialize or p.do_not_specialize_on_alignment)
        if aligns and (is_integer or hasattr(value, "data_ptr")) and made.values[p.name] % 16 == 0:
            made.divisible.add(p.name)
    return made


def type_of(value: Any) -> str:
    from opdock.triton._model import TRITON_DTYPES

    if hasattr(value, "data_ptr"):
        names = {"bool": "bool", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32"}
        return "*" + TRITON_DTYPES[names[str(value.dtype).removeprefix("torch.")]]
    if isinstance(value, bool):
        return "i1"
    return "fp32" if isinstance(value, float) else "i32" if -(2**31) <= value < 2**31 else "i64"


@contextlib.contextmanager
def recording(launches: list[Launch]):
    import torch
    import triton
    from triton_cases import first_configs

    def run(self: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        launches.append(recorded(self, grid, arguments, named))

    patches = [
        first_configs(),
        mock.patch.object(triton.runtime.JITFunction, "run", run),
        mock.patch.object(torch.cuda, "device", lambda device: contextlib.nullcontext()),
    ]
    if gems := sys.modules.get("flag_gems.utils.libentry"):
        patches.append(mock.patch.object(gems.LibEntry, "run", lambda self, *a, **named: self.fn.run(*a, **named)))
    with contextlib.ExitStack() as stack:
        for one in patches:
            stack.enter_context(one)
        yield


# --- what the plugin launches ----------------------------------------------------------------------------------------


class Built:
    """The plugin, with a number in place of each kernel's name and code."""

    def __init__(self, file: pathlib.Path, folder: pathlib.Path) -> None:
        from opdock.triton import _compile, _description, build

        self.jobs: list[Any] = []

        def numbered(jobs: dict[Any, Any], processes: int, progress: Any) -> Any:
            for job in jobs:
                number = len(self.jobs)
                self.jobs.append(job)
                code = b"\x7fELF" + struct.pack("<q", number)
                yield job, _compile.Code(code, str(number), dict(job.options)["num_warps"] * 32, 0, 0, 13)

        load = _description.load

        def loaded(*arguments: Any) -> Any:
            self.description = load(*arguments)
            return self.description

        with mock.patch.object(_compile, "run", numbered), mock.patch.object(_description, "load", loaded):
            self.path = build(file, folder, architectures=[SM_90])
        self.kernels = {
            (launch.function, tuple(one.name for one in launch.arguments)): launch
            for implementation in self.description.implementations
            for launch in implementation.launches
        }

    def launch(self, line: str) -> Launch:
        """The launch in a line of fake_driver.c."""
        words = line.split()
        job = self.jobs[int(words[0])]
        names = next(
            names for function, names in self.kernels if function == job.function and len(names) == len(job.types)
        )
        constants = dict(job.constants)
        types = {name: kind for name, kind in zip(names, job.types, strict=True) if name not in constants}
        made = Launch(
            job.function.partition(":")[2],
            types,
            constants,
            {names[i] for i in job.divisible},
            {"num_stages": 3} | dict(job.options),
            tuple(map(int, words[1:4])),
            {},
        )
        data, at = bytes.fromhex(words[6]), 0
        for name, kind in types.items():
            form = "Q" if kind.startswith("*") else TYPES[kind]
            at += -at % struct.calcsize(form)
            (made.values[name],) = struct.unpack_from(form, data, at)
            at += struct.calcsize(form)
        return made


class OnGpu:
    """A tensor in host memory that claims to be on a GPU."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.tensor.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
        ctypes.c_int32.from_address(pointer + 8).value = 2  # DLManagedTensor.dl_tensor.device.device_type
        return capsule

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda made: made)


def address(output: Any) -> int:
    capsule = output.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor")
    return ctypes.c_uint64.from_address(pointer).value


# --- the two ---------------------------------------------------------------------------------------------------------


def differences(
    theirs: Launch, ours: Launch, of_theirs: dict[int, str], of_ours: dict[int, str], others: Any
) -> list[str]:
    found = []

    def differ(what: str, one: Any, other: Any) -> None:
        if one != other:
            found.append(f"{what}: {one} in Python, {other} here")

    def known(what: dict[str, Any]) -> dict[str, Any]:
        return {name: plain(value) for name, value in sorted(what.items()) if name not in others}

    # Triton compiles a different kernel for sizes that happen to be 1.
    for name in [name for name in theirs.constants if ours.values.get(name) == theirs.constants[name] == 1]:
        theirs.values[name] = theirs.constants.pop(name)
        theirs.types[name] = ours.types[name]
    differ("kernel", theirs.kernel, ours.kernel)
    differ("grid", theirs.grid, ours.grid)
    differ("options", theirs.options, ours.options)
    differ("constants", known(theirs.constants), known(ours.constants))
    differ("types", known(theirs.types), known(ours.types))
    differ("multiples of 16 here alone", ours.divisible - theirs.divisible, set())
    for name in (theirs.values.keys() & ours.values.keys()) - others:
        one, other = theirs.values[name], ours.values[name]
        if theirs.types[name].startswith("*"):
            one, other = of_theirs.get(one), of_ours.get(other)
            if one is None and other not in of_theirs.values():  # its own memory
                continue
        elif theirs.types[name] == "fp32":
            one = struct.unpack("f", struct.pack("f", one))[0]
        differ(name, one, other)
    return found


def plain(value: Any) -> Any:
    """A constant; Triton dtypes become strings."""
    if isinstance(value, tuple):
        value = value[1]
    return {"int32": "i32", "int64": "i64"}.get(str(value), value)


def check(case: Any, built: Built, host: Any, log: pathlib.Path) -> tuple[list[str], list[str]]:
    """Returns the differences, and the sizes that only Python's kernels assume to be multiples of 16."""
    from opdock._signature import Signature

    theirs: list[Launch] = []
    with recording(theirs):
        outputs = case.peer()
    tensors = {**case.inputs, **outputs}
    of_theirs = {tensor.data_ptr(): name for name, tensor in tensors.items()}
    log.unlink(missing_ok=True)
    op = host.op(case.op)
    signature = Signature(op.parsed_signature())
    wanted = [one.name for one in signature.outputs if not one.optional or one.name in outputs]
    optional = [one.name for one in signature.outputs if one.optional and one.name in outputs]
    inputs = {name: OnGpu(tensor) for name, tensor in case.inputs.items()}
    made = op(**inputs, **case.attributes, **({"outputs": optional} if optional else {}))
    made = () if made is None else made if isinstance(made, tuple) else (made,)
    of_ours = {tensor.data_ptr(): name for name, tensor in case.inputs.items()}
    of_ours |= {address(tensor): name for name, tensor in zip(wanted, made, strict=True)}
    ours = [built.launch(line) for line in log.read_text().splitlines()] if log.exists() else []
    if len(theirs) != len(ours):
        return [f"{[one.kernel for one in theirs]} in Python, {[one.kernel for one in ours]} here"], []
    pairs = list(zip(theirs, ours, strict=True))
    fewer = [
        name
        for one, other in pairs
        for name in sorted(one.divisible - other.divisible)
        if not one.types[name].startswith("*")
    ]
    return [
        f"{one.kernel}: {text}"
        for one, other in pairs
        for text in differences(one, other, of_theirs, of_ours, case.others)
    ], fewer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("plugin", choices=("flaggems", "liger"))
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build tree, with its tests")
    parser.add_argument("--op", action="append", default=[], help="this op alone; may be repeated")
    parser.add_argument("--dtype", default="bfloat16", help="bfloat16 without it")
    arguments = parser.parse_args()
    driver = str(arguments.build.resolve() / "python" / "fake-driver")
    if driver not in os.environ.get("LD_LIBRARY_PATH", ""):  # the loader reads it when a process starts
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"LD_LIBRARY_PATH": driver})
    import torch

    from opdock.triton import _device

    folder = pathlib.Path(tempfile.mkdtemp())
    log = folder / "launches"
    failed = count = 0
    with _device.stand_in(SM_90):
        cases = importlib.import_module("triton_cases")
        built = Built(HERE / f"{arguments.plugin}.yaml", folder)
        os.environ |= {
            "OPDOCK_FAKE_DRIVER_LOG": str(log),
            "PLUGIN_MODULES": f"{built.path},{device_plugin(arguments.build)}",
            "PLUGIN_MODULES_ONLY": "1",
            "PLUGIN_SCAN_CACHE": "off",
        }
        opdock = importlib.import_module("opdock")
        host = opdock.Host()
        torch.cuda.get_device_properties(0).multi_processor_count = 132  # flaggems.yaml's default for unknown devices
        for case in cases.cases(arguments.plugin, getattr(torch, arguments.dtype), "cpu", False, arguments.op):
            try:
                found, fewer = check(case, built, host, log)
            except Exception as error:  # noqa: BLE001 the others are tried
                found, fewer = [f"{type(error).__name__}: {error}"], []
            count, failed = count + 1, failed + bool(found)
            note = f", but {', '.join(fewer)} may be no multiples of 16 here" if fewer else ""
            print(f"{case.op} {case.dims}: {'' if found else 'ok' + note}", *found, sep="\n    ", flush=True)
    print(f"{len(built.jobs)} kernels; {count - failed} of {count} calls are launched as in Python")
    return 1 if failed else 0


def device_plugin(build: pathlib.Path) -> pathlib.Path:
    return next(build.resolve().glob("tests/**/*cuda_without_gpu.so"))


if __name__ == "__main__":
    sys.exit(main())
