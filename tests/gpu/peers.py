#!/usr/bin/env python3
"""Times what a user would take instead of opdock's GPU plugin: torch, torch.compile, Liger and FlagGems.

The ops and shapes are those of shapes.yaml. For each, all peers take turns in every round with a copy within the
device, all measured by CUDA events in this one process; a peer's time is the median over the rounds, and its fraction
of the copy rate counts the bytes that the op has to read and write, as plugin-bench counts them: those of optional
outputs where they are asked for. Liger makes the gradients of weights always, and is only compared where they are
wanted. Where a peer does not do quite the same, "note" says what.
"""
import argparse
import importlib
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
ATTENTIONS = (  # b, s, h, g, d of a key and a value
    (4, 4096, 32, 8, 128),
    (4, 4096, 32, 8, 64),
    (4, 4096, 16, 4, 256),
    (16, 512, 32, 8, 128),
    (16, 1024, 32, 8, 128),
    (1, 16384, 32, 8, 128),
)
EPS = 1e-5


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--op", action="append", default=[], help="this op alone; may be repeated")
    parser.add_argument("--path", action="append", default=[], help="where Python looks for modules first; repeatable")
    parser.add_argument("--rounds", type=int, default=15, help="15 without it")
    parser.add_argument("--batch-ms", type=float, default=3, help="how long a peer's batch in a round takes; 3 without it")
    parser.add_argument("--budget", type=float, default=0, help="begin no further op after so many seconds; 0: no limit")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes seconds each")
    parser.add_argument("--json", default="", help="write the results there too, after each op")
    return parser.parse_args()


arguments = parse_arguments()
sys.path[:0] = [os.path.expanduser(path) for path in arguments.path]

try:
    import torch  # noqa: E402
except ImportError as error:
    sys.exit("peers.py needs a Python with torch; %s: %s" % (sys.executable, error))
import torch.nn.attention  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from token_peers import token_cases  # noqa: E402

try:
    import liger_kernel.ops  # noqa: E402
except ImportError:
    liger_kernel = None
try:
    import flag_gems  # noqa: E402
except ImportError:
    flag_gems = None

torch.cuda.set_device(arguments.device)
device = torch.device(arguments.device)
aten = torch.ops.aten


def numbers(*shape, dtype=torch.bfloat16, low=-2.0, high=2.0):
    return torch.empty(shape, dtype=dtype, device=device).uniform_(low, high)


def liger(module, name):
    """A function of Liger's, by the autograd class that its layers use: what stays the same between versions."""
    if liger_kernel is None:
        raise NotImplementedError
    return getattr(importlib.import_module("liger_kernel.ops." + module), name).apply


def backward(output, inputs, grad):
    """Only the backward part, again and again."""
    return lambda: torch.autograd.grad(output, inputs, grad, retain_graph=True)


def leaf(tensor):
    return tensor.detach().requires_grad_()


# --- formulas, for torch.compile to fuse ---------------------------------------------------------------------------


def rms_norm(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * w.float()).to(x.dtype)


def rms_norm_backward(g, x, rsigma, w):
    normal = x.float() * rsigma[:, None]
    wide = g.float() * w.float()
    return ((wide - normal * (wide * normal).mean(-1, keepdim=True)) * rsigma[:, None]).to(x.dtype)


def rms_norm_backward_all(g, x, rsigma, w):
    normal = x.float() * rsigma[:, None]
    return rms_norm_backward(g, x, rsigma, w), (g.float() * normal).sum(0).to(w.dtype)


def add_rms_norm(x, residual, w):
    total = x + residual
    return rms_norm(total, w), total


def layer_norm_backward(g, x, mu, rsigma, w):
    normal = (x.float() - mu[:, None]) * rsigma[:, None]
    wide = g.float() * w.float()
    inner = wide - wide.mean(-1, keepdim=True) - normal * (wide * normal).mean(-1, keepdim=True)
    return (inner * rsigma[:, None]).to(x.dtype)


def layer_norm_backward_all(g, x, mu, rsigma, w):
    normal = (x.float() - mu[:, None]) * rsigma[:, None]
    of_weight = (g.float() * normal).sum(0).to(w.dtype)
    return layer_norm_backward(g, x, mu, rsigma, w), of_weight, g.float().sum(0).to(w.dtype)


def gelu(x):
    return F.gelu(x, approximate="tanh")


def gelu_backward(g, x):
    return aten.gelu_backward(g, x, approximate="tanh")


def silu_and_mul(gate, up):
    return F.silu(gate) * up


def silu_and_mul_backward(g, gate, up):
    return aten.silu_backward(g * up, gate), g * F.silu(gate)


def gelu_and_mul(gate, up):
    return gelu(gate) * up


def gelu_and_mul_backward(g, gate, up):
    return gelu_backward(g * up, gate), g * gelu(gate)


def dropout_backward(g, mask):
    return g * mask * (1 / 0.9)


def scaled_softmax(x):
    return torch.softmax(x * 0.5, -1)


def scaled_softmax_bwd(g, out):
    return aten._softmax_backward_data(g, out, -1, out.dtype) * 0.5


def rotated(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rope(x, freqs):
    return (x * freqs.cos() + rotated(x) * freqs.sin()).to(x.dtype)


def rope_backward(g, freqs):
    return (g * freqs.cos() - rotated(g) * freqs.sin()).to(g.dtype)


def cross_entropy_with_gradient(logits, target):
    wide = logits.float()
    lse = wide.logsumexp(-1, keepdim=True)
    loss = lse[:, 0] - wide.gather(1, target[:, None])[:, 0]
    chosen = torch.arange(logits.shape[1], device=logits.device)[None, :] == target[:, None]
    return loss, ((wide - lse).exp() - chosen.float()).to(logits.dtype)


def cross_entropy(logits, target):
    return F.cross_entropy(logits, target, reduction="none")


def cross_entropy_backward(grad_loss, logits, target, lse):
    chosen = torch.arange(logits.shape[1], device=logits.device)[None, :] == target[:, None]
    return (((logits.float() - lse[:, None]).exp() - chosen.float()) * grad_loss[:, None]).to(logits.dtype)


# --- ops: for each, its minimal bytes and how each peer does it -----------------------------------------------------


class Case:
    """`peers` makes for each name a function without arguments to time; making it may fail, and is only then tried.

    `outputs` are the optional ones that are made."""

    def __init__(self, op, dims, bytes_, peers, outputs=()):
        self.op, self.dims, self.bytes, self.peers, self.outputs = op, dims, bytes_, peers, outputs


def of(formula, *inputs, eager=None):
    """A formula for torch and torch.compile; `eager` where torch has a kernel of its own for it."""
    compiled = torch.compile(formula, dynamic=False)
    return {
        "torch": lambda: eager or (lambda: formula(*inputs)),
        "torch.compile": lambda: lambda: compiled(*inputs),
    }


def gems(name, *inputs, **options):
    def make():
        if flag_gems is None:
            raise NotImplementedError
        found = getattr(flag_gems, name)
        return lambda: found(*inputs, **options)

    return make


def row_cases(m, n):
    dims, r = (m, n), m * n * 2

    def case(op, bytes_, make, *outputs):
        return op, dims, lambda: Case(op, dims, bytes_, make(), outputs), *outputs

    def x():
        return numbers(m, n)

    def rms_fwd():
        a, w = x(), numbers(n)
        peers = of(rms_norm, a, w, eager=lambda: F.rms_norm(a, (n,), w, EPS))
        peers["liger"] = lambda: (lambda f: lambda: f(a, w, EPS))(liger("rms_norm", "LigerRMSNormFunction"))
        peers["flag_gems"] = gems("rms_norm", a, (n,), w, EPS)
        return peers

    def rms_bwd():
        a, w, g, rsigma = x(), numbers(n), x(), numbers(m, dtype=torch.float32, low=0.5, high=1.5)
        needs = leaf(a)
        peers = of(rms_norm_backward, g, a, rsigma, w)
        peers["torch"] = lambda: backward(F.rms_norm(needs, (n,), w, EPS), (needs,), g)
        return peers

    def rms_bwd_all():
        a, w, g, rsigma = x(), numbers(n), x(), numbers(m, dtype=torch.float32, low=0.5, high=1.5)
        needs = (leaf(a), leaf(w))
        peers = of(rms_norm_backward_all, g, a, rsigma, w)
        peers["torch"] = lambda: backward(F.rms_norm(needs[0], (n,), needs[1], EPS), needs, g)
        peers["liger"] = lambda: backward(liger("rms_norm", "LigerRMSNormFunction")(*needs, EPS), needs, g.clone())
        return peers

    def add_rms():
        a, b, w = x(), x(), numbers(n)
        peers = of(add_rms_norm, a, b, w, eager=lambda: F.rms_norm(a + b, (n,), w, EPS))
        peers["liger"] = lambda: (lambda f: lambda: f(a, b, w, EPS, 0.0, "llama", False))(
            liger("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
        )
        peers["flag_gems"] = gems("fused_add_rms_norm", a, b, (n,), w, EPS)
        return peers

    def layer_fwd():
        a, w, b = x(), numbers(n), numbers(n)
        peers = of(lambda a, w, b: F.layer_norm(a, (n,), w, b, EPS), a, w, b)
        peers["liger"] = lambda: (lambda f: lambda: f(a, w, b, EPS))(liger("layer_norm", "LigerLayerNormFunction"))
        peers["flag_gems"] = gems("layer_norm", a, (n,), w, b, EPS)
        return peers

    def layer_bwd_of(formula, wanted):
        def make():
            a, w, b, g = x(), numbers(n), numbers(n), x()
            mu = numbers(m, dtype=torch.float32, low=-0.1, high=0.1)
            rsigma = numbers(m, dtype=torch.float32, low=0.5, high=1.5)
            peers = of(
                formula,
                *(g, a, mu, rsigma, w),
                eager=lambda: aten.native_layer_norm_backward(g, a, (n,), mu[:, None], rsigma[:, None], w, b, wanted),
            )
            if all(wanted):
                needs = (leaf(a), leaf(w), leaf(b))
                peers["liger"] = lambda: backward(liger("layer_norm", "LigerLayerNormFunction")(*needs, EPS), needs, g)
            peers["flag_gems"] = gems("layer_norm_backward", g, a, (n,), mu, rsigma, w, b, wanted)
            return peers

        return make

    def gelu_fwd():
        a = x()
        return of(gelu, a) | {"flag_gems": gems("gelu", a, approximate="tanh")}

    def gelu_bwd():
        g, a = x(), x()
        return of(gelu_backward, g, a) | {"flag_gems": gems("gelu_backward", g, a, approximate="tanh")}

    def gated_fwd(formula, module, name, of_gems):
        def make():
            gate, up = x(), x()
            peers = of(formula, gate, up)
            peers["liger"] = lambda: (lambda f: lambda: f(gate, up))(liger(module, name))
            peers["flag_gems"] = gems(of_gems, gate, up)
            return peers

        return make

    def gated_bwd(formula, module, name):
        def make():
            g, gate, up = x(), x(), x()
            inputs = (leaf(gate), leaf(up))
            peers = of(formula, g, gate, up)
            peers["liger"] = lambda: backward(liger(module, name)(*inputs), inputs, g)
            return peers

        return make

    def add():
        a, b = x(), x()
        return of(torch.add, a, b) | {"flag_gems": gems("add", a, b)}

    def dropout_fwd():
        a = x()
        return of(lambda a: aten.native_dropout(a, 0.1, True), a) | {"flag_gems": gems("native_dropout", a, 0.1, True)}

    def dropout_bwd():
        g, mask = x(), torch.randint(0, 2, (m, n), device=device).bool()
        peers = of(dropout_backward, g, mask, eager=lambda: aten.native_dropout_backward(g, mask, 1 / 0.9))
        peers["flag_gems"] = gems("native_dropout_backward", g, mask, 1 / 0.9)
        return peers

    def softmax_fwd():
        a = x()
        peers = of(scaled_softmax, a)
        peers["liger", "without a scale"] = lambda: (lambda f: lambda: f(a))(liger("softmax", "LigerSoftmaxFunction"))
        peers["flag_gems", "without a scale"] = gems("softmax", a, -1)
        return peers

    def softmax_bwd():
        g, out = x(), torch.softmax(x(), -1)
        needs = leaf(x())
        peers = of(scaled_softmax_bwd, g, out)
        peers["liger", "without a scale"] = lambda: backward(
            liger("softmax", "LigerSoftmaxFunction")(needs), (needs,), g
        )
        peers["flag_gems", "without a scale"] = gems("softmax_backward", g, out, -1, torch.bfloat16)
        return peers

    silu = ("swiglu", "LigerSiLUMulFunction")
    tanh = ("geglu", "LigerGELUMulFunction")
    return [
        case("rmsnorm_fwd", 2 * r + 2 * n, rms_fwd),
        case("rmsnorm_bwd", 3 * r + 4 * m + 2 * n, rms_bwd),
        case("rmsnorm_bwd", 3 * r + 4 * m + 4 * n, rms_bwd_all, "grad_weight"),
        case("fused_add_rmsnorm_fwd", 4 * r + 2 * n, add_rms),
        case("layernorm_fwd", 2 * r + 4 * n, layer_fwd),
        case("layernorm_bwd", 3 * r + 8 * m + 2 * n, layer_bwd_of(layer_norm_backward, [True, False, False])),
        case(
            "layernorm_bwd",
            3 * r + 8 * m + 6 * n,
            layer_bwd_of(layer_norm_backward_all, [True, True, True]),
            *("grad_weight", "grad_bias"),
        ),
        case("gelu", 2 * r, gelu_fwd),
        case("gelu_bwd", 3 * r, gelu_bwd),
        case("silu_and_mul", 3 * r, gated_fwd(silu_and_mul, *silu, "silu_and_mul")),
        case("silu_and_mul_bwd", 5 * r, gated_bwd(silu_and_mul_backward, *silu)),
        case("gelu_and_mul", 3 * r, gated_fwd(gelu_and_mul, *tanh, "gelu_and_mul")),
        case("gelu_and_mul_bwd", 5 * r, gated_bwd(gelu_and_mul_backward, *tanh)),
        case("add", 3 * r, add),
        case("dropout_fwd", 2 * r + m * n + 16, dropout_fwd),
        case("dropout_bwd", 2 * r + m * n, dropout_bwd),
        case("scaled_softmax_fwd", 2 * r, softmax_fwd),
        case("scaled_softmax_bwd", 3 * r, softmax_bwd),
    ]


def attention_cases():
    """torch's sdpa through cuDNN, causal, with gradients alone for the backward op."""
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

            return Case(op, dims, bytes_, {"torch": (lambda: run) if op == "attention_fwd" else run_backward}, outputs)

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
                return Case(op, dims, bytes_, of(formula, numbers(*dims), freqs))

            cases.append((op, dims, make))

    # Liger and FlagGems rotate queries and keys together: a row of its own, which opdock does in two calls.
    dims = (s, b, "32+8", d)

    def both():
        q, k = numbers(b, 32, s, d), numbers(b, 8, s, d)
        angles = numbers(1, s, d, dtype=torch.float32, low=0.0, high=6.0)
        cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        q_rows, k_rows = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
        half = d // 2
        peers = {
            "liger": lambda: (lambda f: lambda: f(q, k, cos, sin))(liger("rope", "LigerRopeFunction")),
            "flag_gems": gems("apply_rotary_pos_emb", q_rows, k_rows, cos[0, :, :half], sin[0, :, :half]),
        }
        return Case("fused_rope_fwd", dims, 2 * 2 * s * b * 40 * d + 4 * 2 * s * d, peers)

    cases.append(("fused_rope_fwd", dims, both))
    return cases


def loss_cases():
    b, v = dims = (8192, 128256)
    r = b * v * 2

    def logits_and_target():
        return numbers(b, v), torch.randint(0, v, (b,), device=device)

    def fused():
        logits, target = logits_and_target()
        needs = leaf(logits)

        def eager():
            return torch.autograd.grad(F.cross_entropy(needs, target, reduction="sum"), needs)

        peers = of(cross_entropy_with_gradient, logits, target, eager=eager)

        def of_liger():
            f = liger("cross_entropy", "LigerCrossEntropyFunction")
            return lambda: f(needs, target, None, -100, 0.0, 0.0, "none")

        peers["liger"] = of_liger
        return Case("fused_cross_entropy", dims, 2 * r + 12 * b, peers)

    def forward():
        logits, target = logits_and_target()
        peers = of(cross_entropy, logits, target)
        peers["flag_gems"] = gems("cross_entropy_loss", logits, target, reduction="none")
        return Case("cross_entropy_fwd", dims, r + 12 * b, peers)

    def backward_only():
        logits, target = logits_and_target()
        grad, lse = numbers(b, dtype=torch.float32), numbers(b, dtype=torch.float32, low=12.0, high=14.0)
        peers = of(cross_entropy_backward, grad, logits, target, lse)
        needs = leaf(logits)
        loss = grad.to(logits.dtype)
        peers["torch"] = lambda: backward(cross_entropy(needs, target), (needs,), loss)
        return Case("cross_entropy_bwd", dims, 2 * r + 16 * b, peers)

    return [
        ("fused_cross_entropy", dims, fused),
        ("cross_entropy_fwd", dims, forward),
        ("cross_entropy_bwd", dims, backward_only),
    ]


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
        return Case("fused_linear_cross_entropy", (tokens, inner), bytes_, peers, ("grad_input", "grad_weight"))

    def fp8(op, scales_of):
        def make():
            x, w = numbers(size, size).to(torch.float8_e4m3fn), numbers(size, size).to(torch.float8_e4m3fn)
            of_x, of_w = scales_of()
            run = lambda: torch._scaled_mm(x, w.t(), of_x, of_w, out_dtype=torch.bfloat16)
            return Case(op, (size, size), 4 * size**2, {"torch": lambda: run})

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

        return Case("multi_tensor_adam", dims, 7 * 4 * count * elements, {"torch": eager})

    return [("multi_tensor_adam", dims, adam)]


# --- timing ---------------------------------------------------------------------------------------------------------


def batch(run, count):
    """Microseconds of one run."""
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
    """A row for each peer that is here."""
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
            continue  # it is not here
        except Exception as error:  # a peer that lacks an op or refuses a shape must not end the others
            row["error"] = first_line(error)
        rows.append(row)
    copies, times = [], {peer: [] for peer in runs}
    order = list(runs)
    for i in range(arguments.rounds):
        copies.append(batch(copy, 4))
        for peer in order[i % max(len(order), 1) :] + order[: i % max(len(order), 1)]:
            times[peer].append(batch(*runs[peer]))
    rate = 2 * copy.bytes / statistics.median(copies)  # bytes of a microsecond, read and written
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
    cases = [case for m, n in ROWS for case in row_cases(m, n)] + attention_cases() + rope_cases() + loss_cases()
    cases += product_cases() + optimizer_cases() + token_cases(numbers, Case, of)
    cases = [case for case in cases if not arguments.op or case[0] in arguments.op]
    if not cases:
        sys.exit("peers.py: no op of that name is compared; shapes.yaml has those that are")
    peers = {"torch": torch.__version__}
    if liger_kernel is not None:
        peers["liger"] = getattr(liger_kernel, "__version__", "")
    if flag_gems is not None:
        peers["flag_gems"] = getattr(flag_gems, "__version__", "")
    document = {"device": torch.cuda.get_device_name(device), "peers": peers, "complete": False, "rows": []}
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
            found = row.get("error") or "%9.1f us  %5.1f %% of copy" % (row["microseconds"], 100 * row["of_copy"])
            op = " +".join((row["op"], *row["outputs"]))
            print("%-37s %-16s %-14s %s" % (op, row["shape"], row["peer"], found), flush=True)
        document["rows"] += rows
        write(document)
    else:
        document["complete"] = True
    write(document)
    if not arguments.json:
        json.dump(document, sys.stdout, indent=1)
        print()


main()
