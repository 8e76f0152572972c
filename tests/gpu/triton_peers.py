#!/usr/bin/env python3
"""Compares plugins of flaggems.yaml and liger.yaml with FlagGems and Liger in Python, on a GPU.

For each case of triton_cases.py, it compares the results and the device time per call, measured with 16 calls in a CUDA
graph. Both graphs are replayed in turn in each round; times are medians. Kernels with @triton.autotune use their first
config on both sides. If Python's function launches more than the op needs, such as sums of all rows, the case is not
timed.

The plugins are those that hosts find (PLUGIN_MODULES), beside one that provides the device. Exit codes: 0 all agree; 1
some differ or fail.
"""

import argparse
import json
import random
import statistics
import sys

import field

# Python does more work, or the plugin needs a workspace, which a capture's caller has to provide.
NOT_TIMED = ("kl_div", "liger.tvd", "rmsnorm_bwd", "liger.group_norm", "flaggems.topk_softmax")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("plugin", nargs="+", choices=("flaggems", "liger"))
    add("--device", default="cuda:0")
    add("--op", action="append", default=[], help="this op alone; may be repeated")
    add("--dtype", action="append", default=[], choices=("f32", "f16", "bf16"), help="bf16 without it; may be repeated")
    add("--rounds", type=int, default=21, help="21 without it")
    add("--seed", type=int, default=0, help="of the inputs; another one each time without it")
    add("--path", action="append", default=[], help="where Python looks for modules first; repeatable")
    add("--json", default="", help="write the results there too")
    return parser.parse_args()


class Sides:
    """A case in the plugin and in Python; inputs that are overwritten are separate."""

    def __init__(self, case, host):
        from opdock._signature import Signature

        self.case = case
        op = host.op(case.op)
        signature = Signature(op.parsed_signature())
        self.inputs = {name: t.clone() if name in case.written else t for name, t in case.inputs.items()}
        arguments = [self.inputs.get(one.name) for one in signature.inputs]
        self.theirs = case.peer()
        optional = [one.name for one in signature.outputs if one.optional and one.name in self.theirs]
        made = op(*arguments, **case.attributes, **({"outputs": optional} if optional else {}))
        made = () if made is None else made if isinstance(made, tuple) else (made,)
        names = [one.name for one in signature.outputs if not one.optional or one.name in optional]
        self.ours = dict(zip(names, made, strict=True))
        out = {"out": self.ours} if self.ours else {}
        self.prepared = op.prepare(*arguments, **case.attributes, **out)
        self.call = lambda: self.prepared(*arguments, **out)

    def compare(self, dtype):
        """The difference as in field.deviation(), and whether all bits agree."""
        import torch

        pairs = [(self.ours[name], theirs) for name, theirs in self.theirs.items()]
        pairs += [(self.inputs[name], self.case.inputs[name]) for name in self.case.written]
        worst, same = 0.0, True
        for one, other in pairs:
            other = other.reshape(one.shape)
            same &= one.dtype == other.dtype and torch.equal(one, other)
            if one.is_floating_point():
                worst = max(worst, field.deviation(one, other, dtype) or 0.0)
            elif not torch.equal(one, other.to(one.dtype)):
                worst = float("inf")
        return worst, same


def race(sides, rounds, pool):
    """Microseconds of one call: the plugin's and Python's."""
    contenders = [field.Contender(run, pool) for run in (sides.call, sides.case.peer)]
    for _ in range(rounds):
        for one in random.sample(contenders, 2):
            one.times.append(one.replay())
    return [statistics.median(one.times) for one in contenders]


def measured(case, plugin, host, dtype, arguments, pool):
    import torch

    row = {"op": case.op, "plugin": plugin, "dtype": str(dtype).removeprefix("torch."), "dims": list(case.dims)}
    try:
        sides = Sides(case, host)
        torch.cuda.synchronize()
        row["deviation"], row["same_bits"] = sides.compare(dtype)
        if case.op not in NOT_TIMED:
            row["us"], row["peer_us"] = race(sides, arguments.rounds, pool)
    except Exception as error:  # noqa: BLE001 the others are tried
        row["error"] = field.first_line(error)
    return row


def printed(row):
    name = f"{row['plugin']:<9} {row['op']:<30} {row['dtype']:<9} {'x'.join(map(str, row['dims'])):<20}"
    if "error" in row:
        return f"{name} {row['error']}"
    agrees = "same bits" if row["same_bits"] else f"{row['deviation']:.2f} of what is allowed"
    times = f"{row['us']:9.2f} {row['peer_us']:9.2f} us {row['us'] / row['peer_us']:6.3f}" if "us" in row else " " * 29
    return f"{name} {times}  {agrees}"


def main():
    arguments = parse_arguments()
    sys.path[:0] = arguments.path
    import torch

    import opdock

    torch.cuda.set_device(arguments.device)
    seed = arguments.seed or random.SystemRandom().randrange(1, 1 << 24)
    torch.manual_seed(seed)
    import triton_cases

    for plugin in arguments.plugin:  # before first_configs() looks for its tuner
        __import__({"flaggems": "flag_gems", "liger": "liger_kernel.ops"}[plugin])
    dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    host, rows, pool = opdock.Host(), [], torch.cuda.graph_pool_handle()
    print(f"seed {seed}")
    with triton_cases.first_configs(), torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        # While the pool has a live graph, memory of destroyed graphs is reused.
        _first = field.captured(lambda: torch.zeros(1, device=arguments.device), pool)
        for plugin in arguments.plugin:
            for dtype in map(dtypes.__getitem__, arguments.dtype or ["bf16"]):
                for case in triton_cases.cases(plugin, dtype, arguments.device, True, arguments.op):
                    with host.policy(strict=True, per_op={case.op: [f"vendor:{plugin}"]}):
                        rows.append(measured(case, plugin, host, dtype, arguments, pool))
                    print(printed(rows[-1]), flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"seed": seed, "rows": rows}, file, indent=1)
    timed = [row["us"] / row["peer_us"] for row in rows if "us" in row]
    bad = [row for row in rows if "error" in row or not row["deviation"] <= 1]
    within = sum(ratio <= 1.01 for ratio in timed)
    print(f"{len(rows) - len(bad)} of {len(rows)} agree; {within} of {len(timed)} within 1 % of Python's device time")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
