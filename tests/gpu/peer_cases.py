"""Ops, and their implementations by torch, torch.compile, Liger and FlagGems, for peers.py and field.py.

Importers must have added liger_kernel and flag_gems to sys.path before.
"""

import contextlib
import importlib
import importlib.metadata

import torch
import torch.nn.functional as F

try:
    import liger_kernel.ops
except ImportError:
    liger_kernel = None
try:
    import flag_gems
except ImportError:
    flag_gems = None

EPS = 1e-5
aten = torch.ops.aten
compile_options = {}  # torch.compile's `options`


def versions():
    """The version of each installed peer."""
    found = {"torch": torch.__version__}
    for module in (liger_kernel, flag_gems):
        if module is not None:
            name = module.__name__.split(".")[0]
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[name.removesuffix("_kernel")] = importlib.metadata.version(name)
            found.setdefault(name.removesuffix("_kernel"), "of its sources")
    return found


def numbers(*shape, dtype=torch.bfloat16, low=-2.0, high=2.0):
    return torch.empty(shape, dtype=dtype, device="cuda").uniform_(low, high)


def liger(module, name):
    """A Liger function, found through the autograd class that Liger's layers use, which is stable across versions."""
    if liger_kernel is None:
        raise NotImplementedError
    return getattr(importlib.import_module("liger_kernel.ops." + module), name).apply


def by_liger(module, name, *values):
    def make():
        function = liger(module, name)
        return lambda: function(*values)

    return make


def backward(output, inputs, grad):
    """Only the backward pass, repeatedly."""
    return lambda: torch.autograd.grad(output, inputs, grad, retain_graph=True)


def in_place(function, inputs, grad, *more):
    """The backward pass of a function that overwrites its arguments with gradients."""
    needs = [leaf(one.clone()) for one in inputs]
    return backward(function(*needs, *more), needs, grad.clone())


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


def scaled_softmax(x, scale):
    return torch.softmax(x if scale == 1.0 else x * scale, -1)


def scaled_softmax_bwd(g, out, scale):
    grad = aten._softmax_backward_data(g, out, -1, out.dtype)
    return grad if scale == 1.0 else grad * scale


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


# --- ops: their minimal bytes, and each peer's implementation -------------------------------------------------------


class Case:
    """`inputs` and `attributes` are the op's. `peers` has for each name a factory of an argument-free function that
    does the same. The factory may fail, and is only called when needed. A name may be a pair, with a note on what the peer
    does differently.

    `outputs` are the requested optional outputs.
    """

    def __init__(self, op, dims, bytes_, inputs, peers, outputs=(), attributes=None):
        self.op, self.dims, self.bytes, self.inputs, self.peers = op, dims, bytes_, inputs, peers
        self.outputs, self.attributes = outputs, attributes or {}


def of(formula, *inputs, eager=None):
    """A formula for torch and torch.compile; `eager` is for cases where torch has its own kernel."""

    def compiled():
        run = torch.compile(formula, dynamic=False, options=compile_options or None)
        return lambda: run(*inputs)

    return {"torch": lambda: eager or (lambda: formula(*inputs)), "torch.compile": compiled}


def gems(name, *inputs, **options):
    def make():
        if flag_gems is None:
            raise NotImplementedError
        found = getattr(flag_gems, name)
        return lambda: found(*inputs, **options)

    return make


def row_cases(m, n, dtype=torch.bfloat16, scale=0.5):
    """For each op on rows: its name, its dims, a factory of its Case, and the optional outputs."""
    dims, size = (m, n), dtype.itemsize
    r, of_row = m * n * size, n * size

    def case(op, bytes_, make, *outputs, **attributes):
        return op, dims, lambda: Case(op, dims, bytes_, *make(), outputs, attributes), *outputs

    def x(low=-2.0):
        return numbers(m, n, dtype=dtype, low=low)

    def w():
        return numbers(n, dtype=dtype)

    def sigma(a):
        return torch.rsqrt(a.float().square().mean(-1) + EPS)

    def rms_fwd():
        a, weight = inputs = x(), w()
        peers = of(rms_norm, *inputs, eager=lambda: F.rms_norm(a, (n,), weight, EPS))
        peers["liger"] = by_liger("rms_norm", "LigerRMSNormFunction", *inputs, EPS)
        peers["flag_gems"] = gems("rms_norm", a, (n,), weight, EPS)
        return inputs, peers

    def rms_bwd():
        g, a = x(), x()
        inputs = g, a, sigma(a), w()
        needs = leaf(a)
        peers = of(rms_norm_backward, *inputs)
        peers["torch"] = lambda: backward(F.rms_norm(needs, (n,), inputs[3], EPS), (needs,), g)
        return inputs, peers

    def rms_bwd_all():
        g, a = x(), x()
        inputs = g, a, sigma(a), w()
        needs = (leaf(a), leaf(inputs[3]))
        peers = of(rms_norm_backward_all, *inputs)
        peers["torch"] = lambda: backward(F.rms_norm(needs[0], (n,), needs[1], EPS), needs, g)
        peers["liger", "in place"] = lambda: in_place(liger("rms_norm", "LigerRMSNormFunction"), needs, g, EPS)
        return inputs, peers

    def add_rms():
        a, b, weight = inputs = x(), x(), w()
        peers = of(add_rms_norm, *inputs, eager=lambda: F.rms_norm(a + b, (n,), weight, EPS))
        peers["liger"] = by_liger(
            "fused_add_rms_norm", "LigerFusedAddRMSNormFunction", *inputs, EPS, 0.0, "llama", False
        )
        # It overwrites its arguments.
        peers["flag_gems"] = gems("fused_add_rms_norm", a.clone(), b.clone(), (n,), weight, EPS)
        return inputs, peers

    def layer_fwd():
        a, weight, bias = inputs = x(), w(), w()
        peers = of(lambda a, w, b: F.layer_norm(a, (n,), w, b, EPS), *inputs)
        peers["liger"] = by_liger("layer_norm", "LigerLayerNormFunction", *inputs, EPS)
        peers["flag_gems"] = gems("layer_norm", a, (n,), weight, bias, EPS)
        return inputs, peers

    def layer_bwd_of(formula, wanted):
        def make():
            g, a, weight, bias = x(), x(), w(), w()
            mu = a.float().mean(-1)
            rsigma = torch.rsqrt(a.float().var(-1, correction=0) + EPS)
            inputs = g, a, mu, rsigma, weight
            saved = mu[:, None], rsigma[:, None]
            peers = of(
                formula,
                *inputs,
                eager=lambda: aten.native_layer_norm_backward(g, a, (n,), *saved, weight, bias, wanted),
            )
            if all(wanted):
                needs = (leaf(a), leaf(weight), leaf(bias))
                peers["liger"] = lambda: backward(liger("layer_norm", "LigerLayerNormFunction")(*needs, EPS), needs, g)
            peers["flag_gems"] = gems("layer_norm_backward", g, a, (n,), mu, rsigma, weight, bias, wanted)
            return inputs, peers

        return make

    def one(formula, name, **options):
        def make():
            a = x()
            return (a,), of(formula, a) | {"flag_gems": gems(name, a, **options)}

        return make

    def two(formula, name, **options):
        def make():
            inputs = x(), x()
            return inputs, of(formula, *inputs) | {"flag_gems": gems(name, *inputs, **options)}

        return make

    def gated_fwd(formula, module, name, of_gems):
        def make():
            inputs = x(), x()
            peers = of(formula, *inputs)
            peers["liger"] = by_liger(module, name, *inputs)
            peers["flag_gems"] = gems(of_gems, *inputs)
            return inputs, peers

        return make

    def gated_bwd(formula, module, name):
        def make():
            g, gate, up = inputs = x(), x(), x()
            peers = of(formula, *inputs)
            peers["liger", "in place"] = lambda: in_place(liger(module, name), (gate, up), g)
            return inputs, peers

        return make

    def dropout_fwd():
        a, state = x(), torch.tensor([7, 0], device="cuda")
        peers = of(lambda a: aten.native_dropout(a, 0.1, True), a) | {"flag_gems": gems("native_dropout", a, 0.1, True)}
        return (a, state), peers

    def dropout_bwd():
        g, mask = x(), torch.randint(0, 2, (m, n), device="cuda").bool()
        peers = of(dropout_backward, g, mask, eager=lambda: aten.native_dropout_backward(g, mask, 1 / 0.9))
        peers["flag_gems"] = gems("native_dropout_backward", g, mask, 1 / 0.9)
        return (g, mask.byte()), peers

    def softmax(peer):
        return peer if scale == 1.0 else (peer, "without a scale")

    def softmax_fwd():
        a = x()
        peers = of(lambda a: scaled_softmax(a, scale), a)
        peers[softmax("liger")] = by_liger("softmax", "LigerSoftmaxFunction", a)
        peers[softmax("flag_gems")] = gems("softmax", a, -1)
        return (a,), peers

    def softmax_bwd():
        g, needs = x(), leaf(x())
        out = torch.softmax(needs.detach(), -1)
        peers = of(lambda g, out: scaled_softmax_bwd(g, out, scale), g, out)
        peers[softmax("liger")] = lambda: backward(liger("softmax", "LigerSoftmaxFunction")(needs), (needs,), g)
        peers[softmax("flag_gems")] = gems("softmax_backward", g, out, -1, dtype)
        return (g, out), peers

    silu = ("swiglu", "LigerSiLUMulFunction")
    tanh = ("geglu", "LigerGELUMulFunction")
    return [
        case("rmsnorm_fwd", 2 * r + of_row, rms_fwd),
        case("rmsnorm_bwd", 3 * r + 4 * m + of_row, rms_bwd),
        case("rmsnorm_bwd", 3 * r + 4 * m + 2 * of_row, rms_bwd_all, "grad_weight"),
        case("fused_add_rmsnorm_fwd", 4 * r + of_row, add_rms),
        case("layernorm_fwd", 2 * r + 2 * of_row, layer_fwd),
        case("layernorm_bwd", 3 * r + 8 * m + of_row, layer_bwd_of(layer_norm_backward, [True, False, False])),
        case(
            "layernorm_bwd",
            3 * r + 8 * m + 3 * of_row,
            layer_bwd_of(layer_norm_backward_all, [True, True, True]),
            *("grad_weight", "grad_bias"),
        ),
        case("gelu", 2 * r, one(gelu, "gelu", approximate="tanh")),
        case("gelu_bwd", 3 * r, two(gelu_backward, "gelu_backward", approximate="tanh")),
        case("silu", 2 * r, one(F.silu, "silu")),
        case("silu_and_mul", 3 * r, gated_fwd(silu_and_mul, *silu, "silu_and_mul")),
        case("silu_and_mul_bwd", 5 * r, gated_bwd(silu_and_mul_backward, *silu)),
        case("gelu_and_mul", 3 * r, gated_fwd(gelu_and_mul, *tanh, "gelu_and_mul")),
        case("gelu_and_mul_bwd", 5 * r, gated_bwd(gelu_and_mul_backward, *tanh)),
        case("add", 3 * r, two(torch.add, "add")),
        case("dropout_fwd", 2 * r + m * n + 16, dropout_fwd, p=0.1),
        case("dropout_bwd", 2 * r + m * n, dropout_bwd, p=0.1),
        case("scaled_softmax_fwd", 2 * r, softmax_fwd, scale=scale),
        case("scaled_softmax_bwd", 3 * r, softmax_bwd, scale=scale),
        case("log_softmax_fwd", 2 * r, one(lambda a: F.log_softmax(a, -1), "log_softmax", dim=-1)),
    ]


def loss_cases(b, v, dtype=torch.bfloat16):
    """Like row_cases, for ops on logits."""
    dims, r = (b, v), b * v * dtype.itemsize

    def logits_and_target():
        return numbers(b, v, dtype=dtype), torch.randint(0, v, (b,), device="cuda")

    def fused():
        logits, target = inputs = logits_and_target()
        needs = leaf(logits)

        def eager():
            return torch.autograd.grad(F.cross_entropy(needs, target, reduction="sum"), needs)

        peers = of(cross_entropy_with_gradient, *inputs, eager=eager)

        of_liger = leaf(logits.clone()), target, None, -100, 0.0, 0.0, "none"
        peers["liger"] = by_liger("cross_entropy", "LigerCrossEntropyFunction", *of_liger)
        # The op overwrites its logits.
        return Case("fused_cross_entropy", dims, 2 * r + 12 * b, (logits.clone(), target), peers)

    def forward():
        inputs = logits_and_target()
        peers = of(cross_entropy, *inputs)
        peers["flag_gems"] = gems("cross_entropy_loss", *inputs, reduction="none")
        return Case("cross_entropy_fwd", dims, r + 12 * b, inputs, peers)

    def backward_only():
        logits, target = logits_and_target()
        grad, lse = numbers(b, dtype=torch.float32), logits.float().logsumexp(-1)
        inputs = grad, logits, target, lse
        peers = of(cross_entropy_backward, *inputs)
        needs = leaf(logits)
        loss = grad.to(logits.dtype)
        peers["torch"] = lambda: backward(cross_entropy(needs, target), (needs,), loss)
        return Case("cross_entropy_bwd", dims, 2 * r + 16 * b, inputs, peers)

    return [
        ("fused_cross_entropy", dims, fused),
        ("cross_entropy_fwd", dims, forward),
        ("cross_entropy_bwd", dims, backward_only),
    ]
