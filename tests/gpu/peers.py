#!/usr/bin/env python3
"""Times the alternatives to opdock's GPU plugin: torch, torch.compile, Liger and FlagGems.

The ops and shapes are those of shapes.yaml. In every round, all peers of an op take turns with a copy within the
device, all measured by CUDA events in this one process. A peer's time is the median over the rounds. Its fraction of
the copy rate counts the bytes that the op has to read and write, as plugin-bench does, with those of optional outputs
if they are requested. Liger always computes the gradients of weights, and is only compared if they are requested. If a
peer does something slightly different, "note" describes it.
"""

import argparse
import json
import os
import statistics
import sys
import time

EXAMPLES = """examples:
  peers.py --json peers.json
  peers.py --op rmsnorm_fwd --op rmsnorm_bwd --no-compile
  peers.py --path ~/Liger-Kernel/src --path ~/FlagGems/src --budget 300 --json peers.json
"""

ROWS = ((16384, 8192), (65536, 1024), (4096, 32768))
ATTENTIONS = (  # b, s, h, g, and d of keys and of values
    (4, 4096, 32, 8, 128),
    (4, 4096, 32, 8, 64),
    (4, 4096, 16, 4, 256),
    (16, 512, 32, 8, 128),
    (16, 1024, 32, 8, 128),
    (1, 16384, 32, 8, 128),
)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--op", action="append", default=[], help="this op alone; may be repeated")
    parser.add_argument("--path", action="append", default=[], help="where Python looks for modules first; repeatable")
    parser.add_argument("--rounds", type=int, default=15, help="15 without it")
    parser.add_argument(
        "--batch-ms", type=float, default=3, help="how long a peer's batch in a round takes; 3 without it"
    )
    parser.add_argument(
        "--budget", type=float, default=0, help="begin no further op after so many seconds; 0: no limit"
    )
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes seconds each")
    parser.add_argument("--json", default="", help="write the results there too, after each op")
    return parser.parse_args()


arguments = parse_arguments()
sys.path[:0] = [os.path.expanduser(path) for path in arguments.path]

try:
    import torch
except ImportError as error:
    sys.exit(f"peers.py needs a Python with torch; {sys.executable}: {error}")
import torch.nn.attention
import torch.nn.functional as F
from peer_cases import (
    Case,
    backward,
    by_liger,
    gems,
    leaf,
    liger,
    loss_cases,
    numbers,
    of,
    rope,
    rope_backward,
    row_cases,
    versions,
)
from token_peers import token_cases

torch.cuda.set_device(arguments.device)
device = torch.device(arguments.device)


def attention_cases():
    """torch's causal sdpa through cuDNN; for the backward op, only the gradients."""
    cases = []
    for b, s, h, g, d in ATTENTIONS:
        dims = (b, s, h, d)
        queries, keys = 2 * b * s * h * d, 2 * b * s * g * d

        def make(op, bytes_, outputs, dims=dims, g=g):
            b, s, h, d = dims
            q, k, v = (leaf(numbers(b, s, heads, d).transpose(1, 2)) for heads in (h, g, g))

            def run():
                with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=h != g)

            def run_backward():
                return backward(run(), (q, k, v), numbers(b, s, h, d).transpose(1, 2))

            peers = {"torch": (lambda: run) if op == "attention_fwd" else run_backward}
            return Case(op, dims, bytes_, (q, k, v), peers, outputs)

        forward, back = 2 * queries + 2 * keys + 4 * b * s * h, 4 * queries + 4 * keys + 4 * b * s * h
        cases.append(("attention_fwd", dims, lambda m=make, n=forward: m("attention_fwd", n, ("lse",)), "lse"))
        cases.append(("attention_bwd", dims, lambda m=make, n=back: m("attention_bwd", n, ())))
    return cases


def rope_cases():
    s, b, d = 4096, 4, 128
    cases = []
    for heads in (32, 8):
        dims = (s, b, heads, d)
        for op, formula in (("fused_rope_fwd", rope), ("fused_rope_bwd", rope_backward)):

            def make(op=op, dims=dims, formula=formula):
                freqs = numbers(s, 1, 1, d, dtype=torch.float32, low=0.0, high=6.0)
                bytes_ = 2 * 2 * s * b * dims[2] * d + 4 * s * d
                inputs = numbers(*dims), freqs
                return Case(op, dims, bytes_, inputs, of(formula, *inputs))

            cases.append((op, dims, make))

    # Liger and FlagGems rotate queries and keys together: a separate row, for which opdock makes two calls.
    dims = (s, b, "32+8", d)

    def both():
        q, k = numbers(b, 32, s, d), numbers(b, 8, s, d)
        angles = numbers(1, s, d, dtype=torch.float32, low=0.0, high=6.0)
        cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        q_rows, k_rows = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
        half = d // 2
        peers = {
            "liger": by_liger("rope", "LigerRopeFunction", q, k, cos, sin),
            "flag_gems": gems("apply_rotary_pos_emb", q_rows, k_rows, cos[0, :, :half], sin[0, :, :half]),
        }
        return Case("fused_rope_fwd", dims, 2 * 2 * s * b * 40 * d + 4 * 2 * s * d, (q_rows, k_rows), peers)

    cases.append(("fused_rope_fwd", dims, both))
    return cases


def product_cases():
    tokens, inner, classes = (32768, 2048, 128256)
    size = 8192

    def linear_loss():
        x, w = leaf(numbers(tokens, inner)), leaf(numbers(classes, inner, low=-0.05, high=0.05))
        target = torch.randint(0, classes, (tokens,), device=device)

        def eager():
            return torch.autograd.grad(F.cross_entropy(x @ w.t(), target, reduction="sum"), (x, w))

        def of_liger():
            f = liger("fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction")
            return lambda: f(x, w, target, None, None, -100, 0.0, 0.0, "sum")

        peers = {("torch", "its logits are bf16"): lambda: eager, ("liger", "logits and sums are bf16"): of_liger}
        bytes_ = 4 * (tokens + classes) * inner + 12 * tokens
        inputs, outputs = (x, w, target), ("grad_input", "grad_weight")
        return Case("fused_linear_cross_entropy", (tokens, inner), bytes_, inputs, peers, outputs)

    def fp8(op, scales_of):
        def make():
            x, w = numbers(size, size).to(torch.float8_e4m3fn), numbers(size, size).to(torch.float8_e4m3fn)
            of_x, of_w = scales_of()
            run = lambda: torch._scaled_mm(x, w.t(), of_x, of_w, out_dtype=torch.bfloat16)
            return Case(op, (size, size), 4 * size**2, (x, w, of_x, of_w), {"torch": lambda: run})

        return (op, (size, size), make)

    def scales(*dims):
        return numbers(*dims, dtype=torch.float32, low=0.5, high=1.5)

    blocks = size // 128
    return [
        ("fused_linear_cross_entropy", (tokens, inner), linear_loss, ("grad_input", "grad_weight")),
        fp8("linear_fp8", lambda: (scales(1), scales(1))),
        fp8("linear_fp8_block", lambda: (scales(blocks, size).t(), scales(blocks, blocks).t())),
    ]


def optimizer_cases():
    count, elements = dims = (8, 16 << 20)

    def adam():
        def eager():
            parameters = [numbers(elements, dtype=torch.float32, low=-1.0, high=1.0) for _ in range(count)]
            for one in parameters:
                one.requires_grad_()
                one.grad = numbers(elements, dtype=torch.float32, low=-1.0, high=1.0)
            return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.0, fused=True).step

        return Case("multi_tensor_adam", dims, 7 * 4 * count * elements, (), {"torch": eager})

    return [("multi_tensor_adam", dims, adam)]


# --- timing ---------------------------------------------------------------------------------------------------------


def batch(run, count):
    """Returns the microseconds of one run."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(count):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1000 / count


class Copy:
    bytes = 512 << 20

    def __init__(self):
        self.source = torch.ones(self.bytes, dtype=torch.uint8, device=device)
        self.target = torch.empty_like(self.source)

    def __call__(self):
        self.target.copy_(self.source)


def first_line(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return type(error).__name__ + (": " + lines[0][:200] if lines else "")


def race(case, copy):
    """Returns a row for each available peer."""
    rows, runs = [], {}
    for name, make in case.peers.items():
        peer, note = name if isinstance(name, tuple) else (name, "")
        if peer == "torch.compile" and arguments.no_compile:
            continue
        row = {"op": case.op, "shape": "x".join(map(str, case.dims)), "peer": peer, "bytes": case.bytes}
        row["outputs"] = case.outputs
        if note:
            row["note"] = note
        try:
            run = make()
            batch(run, 2)  # compiles and tunes
            one = batch(run, 2)
            runs[peer] = (run, max(1, int(arguments.batch_ms * 1000 / one)))
        except NotImplementedError:
            continue  # not available
        except Exception as error:  # noqa: BLE001 - a peer that lacks an op or refuses a shape must not stop the others
            row["error"] = first_line(error)
        rows.append(row)
    copies, times = [], {peer: [] for peer in runs}
    order = list(runs)
    for i in range(arguments.rounds):
        copies.append(batch(copy, 4))
        for peer in order[i % max(len(order), 1) :] + order[: i % max(len(order), 1)]:
            times[peer].append(batch(*runs[peer]))
    rate = 2 * copy.bytes / statistics.median(copies)  # bytes per microsecond, read and written
    for row in rows:
        if row["peer"] in times:
            row["microseconds"] = statistics.median(times[row["peer"]])
            row["of_copy"] = case.bytes / row["microseconds"] / rate
            row["copy_bytes_per_second"] = rate * 1e6
    return rows


def write(document):
    if arguments.json:
        with open(arguments.json + ".part", "w") as file:
            json.dump(document, file, indent=1)
        os.replace(arguments.json + ".part", arguments.json)


def main():
    cases = [case for m, n in ROWS for case in row_cases(m, n)] + attention_cases() + rope_cases()
    cases += loss_cases(8192, 128256) + product_cases() + optimizer_cases() + token_cases()
    cases = [case for case in cases if not arguments.op or case[0] in arguments.op]
    if not cases:
        sys.exit("peers.py: no op of that name is compared; shapes.yaml has those that are")
    document = {"device": torch.cuda.get_device_name(device), "peers": versions(), "complete": False, "rows": []}
    begin = time.monotonic()
    copy = Copy()
    for op, dims, make, *outputs in cases:
        if arguments.budget and time.monotonic() - begin > arguments.budget:
            break
        torch._dynamo.reset()
        try:
            rows = race(make(), copy)
        except torch.cuda.OutOfMemoryError as error:
            rows = [{"op": op, "shape": "x".join(map(str, dims)), "peer": "torch", "error": first_line(error)}]
            rows[0]["outputs"] = outputs
        torch.cuda.empty_cache()
        for row in rows:
            found = row.get("error") or "{:9.1f} us  {:5.1f} % of copy".format(
                row["microseconds"], 100 * row["of_copy"]
            )
            op = " +".join((row["op"], *row["outputs"]))
            print(f"{op:<37} {row['shape']:<16} {row['peer']:<14} {found}", flush=True)
        document["rows"] += rows
        write(document)
    else:
        document["complete"] = True
    write(document)
    if not arguments.json:
        json.dump(document, sys.stdout, indent=1)
        print()


main()
