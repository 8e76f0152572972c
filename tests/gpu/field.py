#!/usr/bin/env python3
"""Races opdock's GPU plugin with what a user would take instead, on shapes of real models that a seed draws.

A row is an op, a shape and a dtype: the device time of 16 calls in a CUDA graph, of one call, by opdock through its
Python package and by each peer on the same tensors: torch, torch.compile, Liger, FlagGems; sdpa's backends for
attention, FlashInfer for decoding; torch._scaled_mm and torch._grouped_mm, which are cuBLASLt, for products in 8 bits and
of groups. All are captured in one process and replayed in turn, in each round in another order; times are medians over the
rounds. What each computes is compared with what opdock computes, within the tolerance of the dtype.

Rows come in rounds over all ops and dtypes, so that a run that ends early has some shapes of each. Exit codes: 0 all rows
that were begun were compared and agree; 1 some failed; 2 wrong usage.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

import field_shapes
import field_table

CALLS = 16  # in a graph

EXAMPLES = """examples:
  field.py --json field.json                                    everything: hours with all of torch.compile
  field.py --op rmsnorm_fwd --op gelu --dtype bf16 --compiled 24
  field.py --seed 7 --shapes 6 --compiled 3 --budget 400 --path ~/Liger-Kernel/src --path ~/FlagGems/src
"""


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--device", default="cuda:0")
    add("--op", action="append", default=[], help="this op alone; may be repeated")
    add("--dtype", action="append", default=[], choices=field_shapes.DTYPES, help="this one alone; may be repeated")
    add("--seed", type=int, default=0, help="of shapes and numbers; another one each time without it")
    add("--shapes", type=int, default=24, help="of each op and dtype; 24 without it")
    add("--compiled", type=int, default=6, help="the first so many of them with torch.compile; 6 without it")
    add("--mode", default="", help="of torch.compile, such as max-autotune-no-cudagraphs; otherwise it tries several "
        "configurations of each kernel that is not a product")  # fmt: skip
    add("--rounds", type=int, default=7, help="7 without it")
    add("--budget", type=float, default=0, help="begin no further row after so many seconds; 0: no limit")
    add(
        "--jobs", type=int, default=0, help="processes that compile before; three quarters of the processors without it"
    )
    add("--path", action="append", default=[], help="where Python looks for modules first; repeatable")
    add("--json", default="field.json", help="where the results are written; field.json without it")
    add("--list", action="store_true", help="print the shapes, and end")
    add("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.seed = arguments.seed or int.from_bytes(os.urandom(3), "little") or 1
    arguments.jobs = arguments.jobs or max(1, (os.cpu_count() or 1) * 3 // 4)
    names = {op.split()[0] for op in field_shapes.KINDS}
    if unknown := [op for op in arguments.op if op not in names]:
        parser.error(f"--op {unknown[0]}: expected one of {', '.join(sorted(names))}")
    return arguments


def plan(arguments):
    """Rows without results: the first shape of each op in each dtype, then the second."""
    ops = [op for op in field_shapes.KINDS if not arguments.op or op.split()[0] in arguments.op]
    shapes = {op: field_shapes.shapes(op, arguments.seed, arguments.shapes) for op in ops}
    return [
        {
            "op": op,
            "dtype": dtype,
            "class": shapes[op][i].of_class,
            "dims": shapes[op][i].dims,
            "compiled": i < arguments.compiled,
        }
        for i in range(arguments.shapes)
        for op in ops
        for dtype in field_shapes.DTYPES
        if not arguments.dtype or dtype in arguments.dtype
    ]


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return type(error).__name__ + (": " + lines[0][:200] if lines else "")


def name_of(peer):
    return peer if isinstance(peer, str) else peer[0]


# --- what a row computes ---------------------------------------------------------------------------------------------


def tensors(value):
    return [value] if not isinstance(value, (list, tuple)) else [one for one in value if one is not None]


def deviation(ours, theirs, dtype):
    """The largest difference as a multiple of what the dtypes allow, of those outputs that both have."""
    import torch

    allowed = {torch.float32: 3e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float8_e4m3fn: 0.15}
    worst = None
    for a, b in zip(tensors(ours), tensors(theirs), strict=False):
        if a.shape != b.shape or not (a.is_floating_point() and b.is_floating_point()):
            continue
        limit = max(allowed[one] for one in (a.dtype, b.dtype, dtype))
        scale = b.float().square().mean().sqrt() + 1e-20
        parts = zip(a.flatten().split(1 << 24), b.flatten().split(1 << 24), strict=True)
        found = [((x.float() - y.float()).abs() / (y.float().abs() + scale)).amax() for x, y in parts if x.numel()]
        # NaN compares as larger.
        worst = max([worst or 0.0, *(float(one.nan_to_num(1e9)) / limit for one in found)])
    return worst


class Contender:
    def __init__(self, run, stream, pool):
        import torch

        self.graph = torch.cuda.CUDAGraph()
        self.graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            for _ in range(CALLS):
                run()
        finally:
            self.graph.capture_end()
        self.stream, self.replays, self.times = stream, 1, []
        self.replay()
        self.replays = max(1, min(8, int(150 / max(self.replay() * CALLS, 1))))

    def replay(self):
        """Microseconds of one call."""
        import torch

        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(self.replays):
            self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1000 / (self.replays * CALLS)


class Race:
    def __init__(self, arguments):
        import field_cases
        import torch

        self.arguments, self.cases, self.torch = arguments, field_cases, torch
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
        self.seconds = {}  # that preparing each contender took, all rows together

    def prepare(self, row, name, make, ours):
        """The contender, or None and what is wrong in the row."""
        begin = time.monotonic()
        try:
            run = make()
            found = run()
            run()
            self.torch.cuda.synchronize()
            # Random numbers are others.
            if ours is not None and not row["op"].startswith("dropout"):
                apart = deviation(ours, found, self.cases.DTYPES[row["dtype"]])
                row["apart"][name] = apart
                if apart is not None and apart > 1:
                    row["wrong"][name] = f"differs by {apart:.3g} times what {row['dtype']} allows"
            return Contender(run, self.stream, self.pool), found
        except NotImplementedError:
            return None, None  # it is not here
        except Exception as error:  # noqa: BLE001 - what a peer cannot do must not end the others
            row["errors"][name] = first_line(error)
            with contextlib.suppress(Exception):
                self.torch.cuda.synchronize()
            return None, None
        finally:
            self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - begin

    def peers(self, row, case):
        for peer, make in case.peers.items():
            if name_of(peer) != "torch.compile" or row["compiled"]:
                yield peer, make

    def measure(self, row):
        torch = self.torch
        row.update(times={}, errors={}, wrong={}, apart={}, notes={})
        torch.manual_seed(self.arguments.seed)
        torch._dynamo.reset()
        with torch.cuda.stream(self.stream):
            case = self.cases.make(row["op"], row["dims"], row["dtype"])
            contenders = {}
            contenders["opdock"], ours = self.prepare(row, "opdock", lambda: self.cases.opdock(case), None)
            for peer, make in self.peers(row, case) if ours is not None else ():
                name = name_of(peer)
                contenders[name] = self.prepare(row, name, make, ours)[0]
                if name != peer and contenders[name]:
                    row["notes"][name] = peer[1]
            contenders = {name: one for name, one in contenders.items() if one}
            names = list(contenders)
            for i in range(self.arguments.rounds):
                for name in names[i % len(names) :] + names[: i % len(names)] if names else ():
                    contenders[name].times.append(contenders[name].replay())
            row["times"] = {name: statistics.median(one.times) for name, one in contenders.items()}

    def compile(self, row):
        """As a process that compiles before: what is found stays in the caches of torch and Triton."""
        with self.torch.cuda.stream(self.stream):
            self.torch._dynamo.reset()
            case = self.cases.make(row["op"], row["dims"], row["dtype"])
            for peer, make in self.peers(row, case):
                if name_of(peer) in ("torch.compile", "liger"):
                    with contextlib.suppress(Exception):
                        make()()
            self.torch.cuda.synchronize()


# --- the whole ------------------------------------------------------------------------------------------------------


def setup(arguments):
    sys.path[:0] = [os.path.expanduser(path) for path in arguments.path]
    # Each process chooses the configurations itself: those that compile before disturb each other.
    os.environ.setdefault("TORCHINDUCTOR_AUTOTUNE_LOCAL_CACHE", "0")
    if arguments.worker >= 0:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    try:
        import torch
    except ImportError as error:
        sys.exit(f"field.py needs a Python with torch; {sys.executable}: {error}")
    torch.cuda.set_device(arguments.device)
    import peer_cases
    from torch._inductor import config

    import opdock.torch  # noqa: F401

    config.autotune_local_cache = False
    peer_cases.compile_options.update(
        torch._inductor.list_mode_options(arguments.mode) if arguments.mode else {"max_autotune_pointwise": True}
    )


def compile_before(arguments, rows):
    """Compiles in several processes; what they do not reach is compiled when its turn comes."""
    jobs = min(arguments.jobs, sum(row["compiled"] for row in rows) // 4)
    begin = time.monotonic()
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--seed", str(arguments.seed)]
    command += ["--jobs", str(max(1, jobs))]
    with open(arguments.json + ".workers", "w") as log:  # what they say
        workers = [subprocess.Popen([*command, "--worker", str(i)], stdout=log, stderr=log) for i in range(jobs)]
    limit = begin + arguments.budget * 0.4 if arguments.budget else None
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(max(0.1, limit - time.monotonic()) if limit else None)
        if worker.poll() is None:
            worker.terminate()
    return jobs, time.monotonic() - begin


def write(document, path):
    with open(path + ".part", "w") as file:
        json.dump(document, file, indent=1)
    os.replace(path + ".part", path)


def main():
    arguments = parse_arguments()
    rows = plan(arguments)
    if arguments.list:
        for row in rows:
            print(f"{row['op']:<38} {row['dtype']:<5} {row['class']:<7} {field_table.shape_of(row)}")
        return
    begin = time.monotonic()
    setup(arguments)
    if arguments.worker >= 0:
        race = Race(arguments)
        for row in [row for row in rows if row["compiled"]][arguments.worker :: arguments.jobs]:
            race.compile(row)
        return
    print(f"field: seed {arguments.seed}, {len(rows)} rows", flush=True)
    jobs, seconds = compile_before(arguments, rows)
    print(f"field: {jobs} processes compiled for {seconds:.0f} s", flush=True)
    race = Race(arguments)
    document = {
        "device": race.torch.cuda.get_device_name(arguments.device),
        "peers": race.cases.versions(),
        "seed": arguments.seed,
        "mode": arguments.mode or "max_autotune_pointwise",
        "planned": len(rows),
        "compiled": arguments.compiled,
        "rows": [],
        "seconds": race.seconds,
    }
    for i, row in enumerate(rows):
        if arguments.budget and time.monotonic() - begin > arguments.budget:
            break
        try:
            race.measure(row)
        except Exception as error:  # noqa: BLE001 - a shape that does not fit must not end the others
            row.setdefault("errors", {})["row"] = first_line(error)
        document["rows"].append(row)
        print(f"[{time.monotonic() - begin:4.0f} s] {field_table.line_of(row)}", flush=True)
        if race.torch.cuda.memory_reserved() > 60 << 30:
            race.torch.cuda.empty_cache()
        if i % 25 == 0:
            write(document, arguments.json)
    write(document, arguments.json)
    print("\n".join(field_table.report([document])))
    sys.exit(any(field_table.failed(row) for row in document["rows"]))


if __name__ == "__main__":
    main()
