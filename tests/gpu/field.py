#!/usr/bin/env python3
"""Races opdock's GPU plugin against its alternatives, on shapes of real models that are drawn by a seed.

A row is an op, a shape and a dtype, with the device time per call (measured with 16 calls in a CUDA graph) for opdock,
through its Python package, and for each peer on the same tensors: torch, torch.compile, Liger and FlagGems; for
attention, sdpa's backends, and for decoding, FlashInfer; for 8-bit and grouped products, torch._scaled_mm and
torch._grouped_mm, which use cuBLASLt. All are captured in one process and replayed in turn, in a different order in
each round; times are medians over the rounds. Each peer's results are compared with opdock's, within the tolerance of
the dtype.

Rows are ordered in rounds over all ops and dtypes, so that a run that ends early has some shapes of each. Exit codes:
0 all rows that were begun were compared and agree; 1 some failed; 2 wrong usage.
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

CALLS = 16  # per graph
SLOW_PEERS = ("torch.compile", "flag_gems")  # they compile and tune for each shape
MOST_SECONDS = 8  # a peer that takes longer to prepare is left out of the op's other rows

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
    add("--compiled", type=int, default=6, help="so many of them with torch.compile and FlagGems; 6 without it")
    add("--mode", default="", help="of torch.compile, such as max-autotune-no-cudagraphs; otherwise it tries several "
        "configurations of each kernel that is not a product")  # fmt: skip
    add("--rounds", type=int, default=7, help="7 without it")
    add("--budget", type=float, default=0, help="begin no further row after so many seconds; 0: no limit")
    add("--jobs", type=int, default=0, help="processes that compile before; one for each processor without it")
    add("--path", action="append", default=[], help="where Python looks for modules first; repeatable")
    add("--json", default="field.json", help="where the results are written; field.json without it")
    add("--list", action="store_true", help="print the shapes, and end")
    add("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.seed = arguments.seed or int.from_bytes(os.urandom(3), "little") or 1
    arguments.jobs = arguments.jobs or os.cpu_count() or 1
    names = {op.split()[0] for op in field_shapes.KINDS}
    if unknown := [op for op in arguments.op if op not in names]:
        parser.error(f"--op {unknown[0]}: expected one of {', '.join(sorted(names))}")
    return arguments


def plan(arguments):
    """Rows without results: the first shape of each op in each dtype, then the second shapes, and so on."""
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
    """The largest difference, as a multiple of what the dtypes allow, over the outputs that both have."""
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
        # NaN counts as larger.
        worst = max([worst or 0.0, *(float(one.nan_to_num(1e9)) / limit for one in found)])
    return worst


def captured(run, pool):
    import torch

    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        for _ in range(CALLS):
            run()
        graph.capture_end()
    except Exception:
        # Otherwise later allocations and random numbers fail.
        with contextlib.suppress(Exception):
            graph.capture_end()
        device = torch.cuda.current_device()
        with contextlib.suppress(Exception):
            torch._C._cuda_endAllocateToPool(device, pool)
        fresh = torch.Generator(f"cuda:{device}").graphsafe_get_state()
        torch.cuda.default_generators[device].graphsafe_set_state(fresh)
        raise
    return graph


class Contender:
    def __init__(self, run, pool):
        self.graph, self.replays, self.times = captured(run, pool), 1, []
        self.replay()
        self.replays = max(1, min(8, int(150 / max(self.replay() * CALLS, 1))))

    def replay(self):
        """Returns the microseconds of one call."""
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
        with torch.cuda.stream(self.stream):
            # While the pool has a live graph, memory of destroyed graphs is reused.
            self.first = captured(lambda: torch.zeros(1, device="cuda"), self.pool)
        self.seconds = {}  # total time to prepare each contender, over all rows
        self.left_out = set()  # (peer, op)

    def prepare(self, row, name, make, ours):
        """Returns the contender, or None and an error in the row; and its results."""
        begin = time.monotonic()
        try:
            run = make()
            found = run()
            self.compare(row, name, ours, found)
            self.torch.cuda.set_sync_debug_mode("error")  # work that waits for the device cannot be captured
            try:
                run()
            finally:
                self.torch.cuda.set_sync_debug_mode("default")
            self.torch.cuda.synchronize()
            return Contender(run, self.pool), found
        except NotImplementedError:
            return None, None  # not available
        except Exception as error:  # noqa: BLE001 - a peer's failure must not stop the others
            row["errors"][name] = first_line(error)
            with contextlib.suppress(Exception):
                self.torch.cuda.synchronize()
            return None, None
        finally:
            seconds = time.monotonic() - begin
            self.seconds[name] = self.seconds.get(name, 0) + seconds
            if seconds > MOST_SECONDS and name not in ("opdock", "torch.compile"):
                self.left_out.add((name, row["op"]))

    def compare(self, row, name, ours, found):
        if ours is None or row["op"].startswith("dropout"):  # its random numbers differ
            return
        apart = deviation(ours, found, self.cases.DTYPES[row["dtype"]])
        row["apart"][name] = apart
        if apart is not None and apart > 1:
            row["wrong"][name] = f"differs by {apart:.3g} times what {row['dtype']} allows"

    def peers(self, row, case):
        for peer, make in case.peers.items():
            name = name_of(peer)
            if (name, row["op"]) in self.left_out:
                row["errors"][name] = f"left out: took more than {MOST_SECONDS} s to prepare before"
            elif row["compiled"] or name not in SLOW_PEERS:
                yield peer, make

    def measure(self, row):
        torch = self.torch
        row.update(times={}, errors={}, wrong={}, apart={}, notes={})
        torch.manual_seed(self.arguments.seed)
        if row["compiled"]:
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
        """For a process that compiles ahead: the results stay in the caches of torch and Triton."""
        with self.torch.cuda.stream(self.stream):
            self.torch._dynamo.reset()
            case = self.cases.make(row["op"], row["dims"], row["dtype"])
            for peer, make in self.peers(row, case):
                if name_of(peer) in (*SLOW_PEERS, "liger"):
                    with contextlib.suppress(Exception):
                        make()()
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()


# --- the whole ------------------------------------------------------------------------------------------------------


def setup(arguments):
    sys.path[:0] = [os.path.expanduser(path) for path in arguments.path]
    # Each process chooses the configurations itself: otherwise compiling processes interfere with each other.
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


def begin_compiling(arguments, rows):
    """Starts processes that compile ahead; rows that they do not reach are compiled when it is their turn."""
    jobs = min(arguments.jobs, sum(row["compiled"] for row in rows) // 4)
    command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--seed", str(arguments.seed)]
    command += ["--jobs", str(max(1, jobs))]
    with open(arguments.json + ".workers", "w") as log:  # their output
        return [subprocess.Popen([*command, "--worker", str(i)], stdout=log, stderr=log) for i in range(jobs)]


def end_compiling(workers, deadline):
    for worker in workers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(max(0.1, deadline - time.monotonic()) if deadline else None)
        if worker.poll() is None:
            worker.terminate()
    for worker in workers:
        worker.wait()


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
    workers = begin_compiling(arguments, rows) if arguments.worker < 0 else []
    setup(arguments)
    race = Race(arguments)
    if arguments.worker >= 0:
        for row in [row for row in rows if row["compiled"]][arguments.worker :: arguments.jobs]:
            race.compile(row)
            print(
                f"[{time.monotonic() - begin:4.0f} s] {row['op']} {row['dtype']} {field_table.shape_of(row)}",
                flush=True,
            )
        return
    print(f"field: seed {arguments.seed}, {len(rows)} rows", flush=True)
    end_compiling(workers, begin + 0.4 * arguments.budget if arguments.budget else None)
    print(f"field: {len(workers)} processes compiled for {time.monotonic() - begin:.0f} s", flush=True)
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
        except Exception as error:  # noqa: BLE001 - a shape that does not fit must not stop the others
            row.setdefault("errors", {})["row"] = first_line(error)
            recent = [*document["rows"][-3:], row]
            if len(recent) == 4 and all("row" in one["errors"] for one in recent):
                print("field: the device does not recover", flush=True)
                break
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
