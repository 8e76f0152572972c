#!/usr/bin/env python3
"""Measures a plugin of 20 ops with 10 configs each for sm_80, sm_90 and gfx942: the time of `opdock triton build` with
an empty cache, the plugin's size, the time to open it, and the host's part of an op's first call.

The ops are those of examples/triton-plugin, once for f16 and once for bf16. Calls go to the build tree's test driver,
which launches nothing.

    PYTHONPATH=build/release/python python/bench/triton_plugin.py --build build/release
"""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import yaml

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "triton-plugin"
BLOCKS = [256, 512, 1024, 2048, 4096]
SPACES: dict[str, dict[str, Any]] = {
    "rmsnorm_fwd": {"product": {"BLOCK": [1024, 2048, 4096, 8192, 16384], "num_warps": [4, 8]}},
    "rmsnorm_bwd": {"product": {"BLOCK": [1024, 2048, 4096, 8192, 16384], "num_warps": [4, 8]}},
    "fused_rope_fwd": {"product": {"HALF": [16, 32, 64, 128, 256], "num_warps": [1, 2]}},
    "matmul": {
        "product": {"BLOCK_M": [64, 128], "BLOCK_N": [64, 128, 256, 32, 16], "BLOCK_K": 64, "GROUP": 8, "num_warps": 8}
    },
}


def describe(folder: pathlib.Path) -> pathlib.Path:
    from opdock import _native

    signatures = _native._standard_signatures()
    document = yaml.safe_load((EXAMPLE / "acme.yaml").read_text())
    document |= {"name": "bench", "vendor": "bench", "python": [str(EXAMPLE)], "dtypes": ["f16"]}
    ops = {}
    for name, fields in document["ops"].items():
        space = SPACES.get(name, {"product": {"BLOCK": BLOCKS, "num_warps": [4, 8]}})
        kept = {key: value for key, value in fields.items() if key not in ("configs", "product", "dtypes")}
        for dtype in ("f16", "bf16"):
            own = f"bench.{name}_{dtype}"
            ops[own] = {**kept, **space, "dtypes": [dtype], "signature": signatures[name].replace(name, own, 1)}
    document["ops"] = ops
    file = folder / "bench.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


def build(file: pathlib.Path, folder: pathlib.Path, processes: int) -> pathlib.Path:
    from opdock.triton import build as build_plugin

    os.environ["TRITON_CACHE_DIR"] = str(folder / "cache")
    kernels = 0

    def count(done: int, of: int, name: str) -> None:
        nonlocal kernels
        kernels = of
        if done % 100 == 0:
            print(f"{done} of {of} kernels, {time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)

    begin = time.monotonic()
    path = build_plugin(file, folder, processes=processes, progress=count)
    seconds, used = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"built         {seconds:8.1f} s by {processes} processes, {used.ru_utime + used.ru_stime:.1f} s of CPU time")
    print(f"size          {path.stat().st_size / 1e6:8.2f} MB, {kernels} kernels")
    return path


FIRST_CALLS = """
import importlib.util, sys, time
begin = time.perf_counter()
import opdock
host = opdock.Host()
opened = time.perf_counter() - begin
times = []
if len(sys.argv) > 1:
    import torch
    spec = importlib.util.spec_from_file_location("launches", sys.argv[1])
    launches = importlib.util.module_from_spec(spec)
    sys.modules["launches"] = launches
    spec.loader.exec_module(launches)
    on_gpu = launches.OnGpu
    for dtype in ("f16", "bf16"):
        of = {"f16": torch.float16, "bf16": torch.bfloat16}[dtype]
        x, w = on_gpu(torch.zeros(64, 1024, dtype=of)), on_gpu(torch.zeros(1024, dtype=of))
        square = on_gpu(torch.zeros(1024, 1024, dtype=of))
        for name, inputs in {"add": (x, x), "gelu": (x,), "silu_and_mul": (x, x), "rmsnorm_fwd": (x, w),
                             "layernorm_fwd": (x, w, w), "scaled_softmax_fwd": (x,), "matmul": (x, square)}.items():
            op = host.op(f"bench.{name}_{dtype}")
            begin = time.perf_counter()
            op(*inputs)
            times.append(time.perf_counter() - begin)
print(opened, *times)
"""


def run(build_tree: pathlib.Path, modules: str, *arguments: str) -> list[float]:
    variables = {
        "LD_LIBRARY_PATH": str(build_tree / "python" / "fake-driver"),
        "OPDOCK_FAKE_DRIVER_LOG": "/dev/null",
        "PLUGIN_MODULES": modules,
        "PLUGIN_MODULES_ONLY": "1",
        "PLUGIN_LOG_LEVEL": "error",
    }
    done = subprocess.run(
        [sys.executable, "-c", FIRST_CALLS, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    return [float(one) * 1000 for one in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build tree, with its tests")
    parser.add_argument("--processes", type=int, default=2, help="number of compiling processes; default: 2")
    parser.add_argument("--folder", type=pathlib.Path, help="the build folder; default: a new one")
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    path = build(describe(folder), folder, arguments.processes)
    tree = arguments.build.resolve()
    device = next(tree.glob("tests/fixtures/*cuda_without_gpu.so"))
    launches = pathlib.Path(__file__).resolve().parents[2] / "tests" / "gpu" / "triton_launches.py"
    rounds = [(run(tree, f"{path},{device}")[0], run(tree, str(device))[0]) for _ in range(7)]
    opened, without = (statistics.median(column) for column in zip(*rounds[1:], strict=True))
    print(f"opened        {opened - without:8.2f} ms: {opened:.2f} ms of a host with it, {without:.2f} ms without")
    first = [run(tree, f"{path},{device}", str(launches))[1:] for _ in range(3)]
    medians = [statistics.median(column) for column in zip(*first, strict=True)]
    print(f"first call    {statistics.median(medians):8.2f} ms, at most {max(medians):.2f} ms, of {len(medians)} ops")


if __name__ == "__main__":
    main()
