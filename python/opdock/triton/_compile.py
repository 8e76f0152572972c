"""Compiles a description's kernels in parallel. Triton caches compiled kernels (TRITON_CACHE_DIR, ~/.triton/cache)."""

import contextlib
import importlib
import itertools
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from . import _expression
from ._model import OPTIONS, TRITON_DTYPES, Argument, Implementation, Launch, Variant
from ._yaml import Node

_DEFAULT_WARPS = 4


@dataclass(frozen=True)
class Job:
    """One kernel to compile; equal jobs give the same code."""

    function: str
    types: tuple[str, ...]  # of each parameter; "constexpr" for a constant
    constants: tuple[tuple[str, Any], ...]
    divisible: tuple[int, ...]  # indices of parameters that are aligned to 16 or multiples of 16
    options: tuple[tuple[str, int], ...]
    architecture: str


@dataclass(frozen=True)
class Code:
    image: bytes
    name: str
    threads: int
    shared_bytes: int
    scratch_bytes: int
    toolkit: int  # CUDA major version; 0 for HIP


@dataclass
class Table:
    """The keys by which a launch's kernel is chosen."""

    names: list[str]
    keys: list[_expression.Expression]
    values: list[tuple[float, ...]]
    jobs: list[Job]  # [dtypes][architecture][variant][values]


def key_table(made: Implementation, launch: Launch) -> tuple[list[str], list[_expression.Expression], list[Any]]:
    """Returns the keys by which a kernel of the launch is chosen, and every possible combination of their values."""
    keys = {one.name: one.value for one in launch.arguments if one.kind == "key"}
    keys |= launch.options
    for argument in launch.arguments:
        parameter = made.op.parameters[argument.index] if argument.kind == "tensor" else None
        if parameter is not None and parameter.optional and argument.otherwise < 0:
            name = f"has_{parameter.name}"
            keys[name] = _expression.parse(name, launch.place.fail)
    # Conditions that depend on the call, such as BLOCK >= n, are compiled for both outcomes.
    open_keys = {key for key, one in keys.items() if any(_possible(made, name) is None for name in one.names)}
    names = {name for key, one in keys.items() if key not in open_keys for name in one.names}
    free = {name: _possible(made, name) or () for name in sorted(names) if name not in made.knobs}
    # Combinations that a condition excludes are not compiled.
    decided = [one for one in [*launch.conditions, *made.where] if set(one.names) <= names | set(made.knobs)]
    found: dict[tuple[float, ...], None] = {}
    for config in made.configs:
        for others in itertools.product(*free.values()):
            known = {**config, **dict(zip(free, others, strict=True))}
            if any(_expression.evaluate(one, known) == 0 for one in decided):
                continue
            values = [
                (0.0, 1.0) if key in open_keys else (float(_expression.evaluate(one, known)),)
                for key, one in keys.items()
            ]
            found.update(dict.fromkeys(itertools.product(*values)))
    return list(keys), list(keys.values()), list(found)


def _possible(made: Implementation, name: str) -> Sequence[float] | None:
    """Returns the possible values of a constexpr's variable; None if a call may have any number."""
    variable = made.variables[name]
    if variable.kind == "element_size":
        return (1, 2, 4, 8)
    if variable.kind == "has" or (variable.kind == "attribute" and made.op.attributes[variable.first].type == "bool"):
        return (0, 1)
    return () if variable.kind == "knob" else None


def tables(implementation: Implementation, architectures: list[str]) -> list[Table]:
    result = []
    for launch in implementation.launches:
        names, keys, values = key_table(implementation, launch)
        jobs = [
            _job(implementation, launch, dtypes, architecture, variant, dict(zip(names, value, strict=True)))
            for dtypes in implementation.dtypes
            for architecture in architectures
            for variant in launch.variants
            for value in values
        ]
        result.append(Table(names, keys, values, jobs))
    return result


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _job(
    made: Implementation,
    launch: Launch,
    dtypes: tuple[str, ...],
    architecture: str,
    variant: Variant,
    key: dict[str, float],
) -> Job:
    of_variables = dict(zip(made.op.variables, dtypes, strict=True))
    types, constants, divisible = [], [], []
    for i, argument in enumerate(launch.arguments):
        kind = _type(made, argument, of_variables)
        if argument.kind in ("key", "constant"):
            kind = "constexpr"
            constants.append((argument.name, _constant(argument, of_variables, key)))
        elif argument.kind == "tensor" and key.get(f"has_{made.op.parameters[argument.index].name}") == 0:
            kind = "constexpr"
            constants.append((argument.name, None))
        elif argument.name in variant.ones:
            kind = "constexpr"
            constants.append((argument.name, 1))
        elif argument.name in variant.aligned + variant.divisible:
            divisible.append(i)
        types.append(kind)
    options = {name: int(key[name]) for name in OPTIONS if name in key}
    options.setdefault("num_warps", _DEFAULT_WARPS)
    return Job(
        launch.function, tuple(types), tuple(constants), tuple(divisible), tuple(sorted(options.items())), architecture
    )


def _type(made: Implementation, argument: Argument, dtypes: dict[str, str]) -> str:
    if argument.kind == "tensor":
        dtype = made.op.parameters[argument.index].dtype
        return "*" + TRITON_DTYPES[dtypes.get(dtype, dtype)]
    if argument.kind == "workspace":
        return "*" + TRITON_DTYPES[made.workspaces[argument.index].dtype]
    return argument.type


def _constant(argument: Argument, dtypes: dict[str, str], key: dict[str, float]) -> Any:
    if argument.kind == "key":
        return _number(key[argument.name])
    what, value = argument.constant
    return ("dtype", TRITON_DTYPES[dtypes.get(value, value)]) if what == "dtype" else value


def _compile(job: Job) -> Code:
    triton: Any = importlib.import_module("triton")
    compiler: Any = importlib.import_module("triton.compiler")
    backends: Any = importlib.import_module("triton.backends.compiler")
    language: Any = importlib.import_module("triton.language")
    module, _, name = job.function.partition(":")
    kernel: Any = getattr(importlib.import_module(module), name)
    while not hasattr(kernel, "params"):
        kernel = kernel.fn
    names = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8e4nv"}
    constants = {
        (kernel.arg_names.index(one),): getattr(language, names.get(value[1], value[1].replace("i", "int", 1)))
        if isinstance(value, tuple)
        else value
        for one, value in job.constants
    }
    source = compiler.ASTSource(
        kernel,
        dict(zip(kernel.arg_names, job.types, strict=True)),
        constants,
        {(i,): [["tt.divisibility", 16]] for i in job.divisible},
    )
    is_cuda = job.architecture.startswith("sm_")
    number = int(job.architecture[3:]) if is_cuda else job.architecture
    target = backends.GPUTarget("cuda" if is_cuda else "hip", number, 32 if is_cuda or not _is_cdna(job) else 64)
    made = triton.compile(source, target=target, options={"enable_fp_fusion": True, **dict(job.options)})
    metadata = made.metadata
    if getattr(metadata, "launch_cooperative_grid", False) or getattr(metadata, "tensordesc_meta", None):
        raise ValueError("kernels with a cooperative grid, or with tensor descriptors from the host, are not supported")
    return Code(
        made.asm["cubin" if is_cuda else "hsaco"],
        metadata.name,
        metadata.num_warps * metadata.warp_size,
        metadata.shared,
        getattr(metadata, "global_scratch_size", 0) or 0,
        _toolkit(number) if is_cuda else 0,
    )


def _is_cdna(job: Job) -> bool:
    """True if wavefronts have 64 threads."""
    return job.architecture.startswith("gfx9")


def _toolkit(number: int | str) -> int:
    """Returns the major version of the CUDA toolkit that Triton's assembler belongs to."""
    backend: Any = importlib.import_module("triton.backends.nvidia.compiler")
    return int(str(backend.get_ptxas(number).version).split(".")[0])


def _work(job: Job) -> Code | str:
    try:
        # Triton's compiler may print thousands of lines about a kernel that does not compile.
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
            return _compile(job)
    except Exception as error:  # noqa: BLE001 whatever the compiler raises
        lines = [line for line in str(error).splitlines() if line.strip()]
        return f"{type(error).__name__}: {lines[-1] if lines else ''}"


Progress = Callable[[int, int, Job], None]


def run(jobs: dict[Job, Node], processes: int, progress: Progress) -> Iterator[tuple[Job, Code]]:
    """Returns the code of each job. Raises a DescriptionError at the job's place if a kernel does not compile."""
    context = multiprocessing.get_context("fork")  # kernel modules are already imported
    sys.stdout.flush()
    with ProcessPoolExecutor(min(processes, max(len(jobs), 1)), context) as pool:
        running = {pool.submit(_work, job): job for job in jobs}
        try:
            for done, future in enumerate(as_completed(running), 1):
                job, code = running[future], future.result()
                if isinstance(code, str):
                    constants = ", ".join(f"{name}={value}" for name, value in job.constants + job.options)
                    jobs[job].fail(f"{job.function} does not compile for {job.architecture} with {constants}: {code}")
                progress(done, len(jobs), job)
                yield job, code
        finally:
            pool.shutdown(cancel_futures=True)
