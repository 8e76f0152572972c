"""The ops of flaggems.yaml and liger.yaml, called as users of FlagGems and Liger call them: an op's inputs and
attributes, and the peer's function on the same tensors.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch


@dataclass
class Case:
    op: str
    dims: tuple[int, ...]
    inputs: dict[str, Any]
    peer: Callable[[], dict[str, Any]]  # outputs by the op's names; overwritten inputs are in `written`
    attributes: dict[str, Any] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()  # kernel parameters that get other values, and may do so


@dataclass
class Making:
    """Makes a case's tensors."""

    dtype: torch.dtype
    device: str

    def numbers(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.randn(*shape, device=self.device).to(dtype or self.dtype)

    def indices(self, below: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.randint(0, below, shape, device=self.device, dtype=dtype)

    def bools(self, *shape: int) -> torch.Tensor:
        return torch.rand(*shape, device=self.device) < 0.7

    def empty(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        return torch.empty(*shape, device=self.device, dtype=dtype or self.dtype)


def of(module: str, function: str) -> Any:
    """Uses `import`, since flag_gems.ops.softmax is both a function and a module."""
    return getattr(importlib.import_module(module), function)


def gems(module: str, function: str) -> Any:
    return of(f"flag_gems.{module}", function)


def one(name: str, function: Callable[..., Any], *arguments: Any) -> Callable[[], dict[str, Any]]:
    """A peer with one output."""
    return lambda: {name: function(*arguments)}


def several(names: str, function: Callable[..., Any], *arguments: Any) -> Callable[[], dict[str, Any]]:
    return lambda: dict(zip(names.split(), function(*arguments), strict=True))


@contextlib.contextmanager
def sums_by_flaggems():
    """Computes sums as flag_gems.use_gems() does."""
    sum_dim = gems("ops.sum", "sum_dim")
    with mock.patch.object(torch, "sum", lambda x, dim, dtype=None: sum_dim(x, [dim], dtype=dtype)):
        yield


@contextlib.contextmanager
def first_configs():
    """Makes kernels with @triton.autotune use their first config, as an untuned plugin does."""
    tuners = [importlib.import_module("triton.runtime.autotuner").Autotuner]
    if gems_entry := sys.modules.get("flag_gems.utils.libentry"):
        tuners.append(gems_entry.LibTuner)

    def run(self: Any, *arguments: Any, **named: Any) -> Any:
        self.best_config = self.configs[0]
        return self.fn.run(*arguments, **named, **self.best_config.all_kwargs())

    with contextlib.ExitStack() as stack:
        for tuner in tuners:
            stack.enter_context(mock.patch.object(tuner, "run", run))
        yield


# --- FlagGems --------------------------------------------------------------------------------------------------------


def softmax(m: Making, rows: int, k: int) -> Case:
    x = m.numbers(rows, k)
    return Case("scaled_softmax_fwd", (rows, k), {"input": x}, one("output", gems("ops.softmax", "softmax"), x, -1))


def softmax_bwd(m: Making, rows: int, k: int) -> Case:
    grad, output = m.numbers(rows, k), m.numbers(rows, k).softmax(-1)
    peer = one("grad_input", gems("ops.softmax", "softmax_backward"), grad, output, -1, m.dtype)
    return Case("scaled_softmax_bwd", (rows, k), {"grad": grad, "output": output}, peer)


def log_softmax(m: Making, rows: int, k: int) -> Case:
    x = m.numbers(rows, k)
    return Case(
        "flaggems.log_softmax", (rows, k), {"input": x}, one("output", gems("ops.log_softmax", "log_softmax"), x, -1)
    )


def log_softmax_bwd(m: Making, rows: int, k: int) -> Case:
    grad, output = m.numbers(rows, k), m.numbers(rows, k).log_softmax(-1)
    peer = one("grad_input", gems("ops.log_softmax", "log_softmax_backward"), grad, output, -1, m.dtype)
    return Case("log_softmax_bwd", (rows, k), {"grad": grad, "output": output}, peer)


def rms_norm(m: Making, rows: int, n: int) -> Case:
    x, weight = m.numbers(rows, n), m.numbers(n)
    peer = several("output rsigma", gems("ops.rms_norm", "rms_norm_forward"), x, [n], weight, 1e-6)
    return Case("rmsnorm_fwd", (rows, n), {"input": x, "weight": weight}, peer, {"eps": 1e-6})


def rms_norm_bwd(m: Making, rows: int, n: int) -> Case:
    grad, x, weight = m.numbers(rows, n), m.numbers(rows, n), m.numbers(n)
    rsigma = x.float().square().mean(-1).add(1e-5).rsqrt()
    backward = gems("ops.rms_norm", "rms_norm_backward")

    def peer() -> dict[str, Any]:
        with sums_by_flaggems():
            return dict(zip(("grad_input", "grad_weight"), backward(grad, x, rsigma, [n], weight), strict=True))

    # The sum is rounded when it is stored; FlagGems rounds it in a second step.
    inputs = {"grad": grad, "input": x, "rsigma": rsigma, "weight": weight}
    return Case("rmsnorm_bwd", (rows, n), inputs, peer, others=frozenset({"output_ptr"}))


def layer_norm(m: Making, rows: int, n: int) -> Case:
    x, weight, bias = m.numbers(rows, n), m.numbers(n), m.numbers(n)
    peer = several("output mu rsigma", gems("ops.layernorm", "layer_norm"), x, [n], weight, bias, 1e-5)
    inputs = {"input": x, "weight": weight, "bias": bias}
    return Case("layernorm_fwd", (rows, n), inputs, peer, others=frozenset({"out_mean_ptr", "out_rstd_ptr"}))


def layer_norm_bwd(m: Making, rows: int, n: int) -> Case:
    grad, x, weight, bias = m.numbers(rows, n), m.numbers(rows, n), m.numbers(n), m.numbers(n)
    mu, rsigma = x.float().mean(-1), x.float().var(-1, correction=0).add(1e-5).rsqrt()
    backward = gems("ops.layernorm", "layer_norm_backward")
    peer = several(
        "grad_input grad_weight grad_bias", backward, grad, x, [n], mu, rsigma, weight, bias, [True, True, True]
    )
    inputs = {"grad": grad, "input": x, "mu": mu, "rsigma": rsigma, "weight": weight}
    return Case("layernorm_bwd", (rows, n), inputs, peer)


def group_norm(m: Making, b: int, c: int, plane: int, groups: int) -> Case:
    x, weight, bias = m.numbers(b, c, plane), m.numbers(c), m.numbers(c)
    peer = several("output mu rsigma", gems("ops.groupnorm", "group_norm"), x, weight, bias, b, c, plane, groups, 1e-5)
    inputs = {"input": x, "weight": weight, "bias": bias}
    return Case(
        "group_norm_fwd", (b, c, plane, groups), inputs, peer, {"groups": groups}, others=frozenset({"Mean", "Rstd"})
    )


def embedding(m: Making, rows: int, v: int, n: int) -> Case:
    weight, indices = m.numbers(v, n), m.indices(v, rows)
    peer = one("output", gems("ops.embedding", "embedding"), weight, indices)
    return Case("embedding", (rows, v, n), {"weight": weight, "indices": indices}, peer)


def topk_softmax(m: Making, t: int, e: int, k: int, renormalize: bool = False) -> Case:
    logits = m.numbers(t, e)
    weights = m.empty(t, k, dtype=torch.float32)
    indices, rows = (m.empty(t, k, dtype=torch.int32) for _ in range(2))
    function = gems("fused.topk_softmax", "topk_softmax")

    def peer() -> dict[str, Any]:
        function(weights, indices, rows, logits, renormalize)
        return {"weights": weights, "indices": indices}

    return Case("flaggems.topk_softmax", (t, e, k), {"logits": logits}, peer, {"k": k, "renormalize": renormalize})


def mm(m: Making, rows: int, n: int, k: int) -> Case:
    a, b = m.numbers(rows, k), m.numbers(k, n)
    return Case("matmul", (rows, n, k), {"a": a, "b": b}, one("output", gems("ops.mm", "mm"), a, b))


def addmm(m: Making, rows: int, n: int, k: int) -> Case:
    x, weight, bias = m.numbers(rows, k), m.numbers(n, k), m.numbers(n)
    peer = one("output", gems("ops.addmm", "addmm"), bias, x, weight.t())
    return Case("linear_fwd", (rows, n, k), {"input": x, "weight": weight, "bias": bias}, peer)


def mul(m: Making, *shape: int) -> Case:
    a, b = m.numbers(*shape), m.numbers(*shape)
    function = gems("runtime.backend._nvidia.hopper.ops.mul", "mul_all_real_func")
    return Case("mul", shape, {"a": a, "b": b}, one("output", function, a, b))


def bmm(m: Making, b: int, rows: int, n: int, k: int) -> Case:
    x, y = m.numbers(b, rows, k), m.numbers(b, k, n)
    return Case("flaggems.bmm", (b, rows, n, k), {"x": x, "y": y}, one("output", gems("ops.bmm", "bmm"), x, y))


SEED, OFFSET = 123456789012, 98765432109


def dropout(m: Making, *shape: int) -> Case:
    x = m.numbers(*shape)
    module = importlib.import_module("flag_gems.ops.dropout")

    def peer() -> dict[str, Any]:
        with mock.patch.object(module, "philox_backend_seed_offset", lambda increment: (SEED, OFFSET)):
            return dict(zip(("y", "mask"), module.dropout(x, 0.3), strict=True))

    return Case("flaggems.dropout", shape, {"x": x}, peer, {"p": 0.3, "seed": SEED, "offset": OFFSET})


def dropout_bwd(m: Making, *shape: int) -> Case:
    grad, mask = m.numbers(*shape), m.bools(*shape)
    peer = one("grad_input", gems("ops.dropout", "dropout_backward"), grad, mask, 1.25)
    return Case("flaggems.dropout_bwd", shape, {"grad": grad, "mask": mask}, peer, {"scale": 1.25})


def moe_sum(m: Making, t: int, k: int, n: int) -> Case:
    x, output = m.numbers(t, k, n), m.empty(t, n)
    function = gems("fused.moe_sum", "moe_sum")

    def peer() -> dict[str, Any]:
        function(x, output)
        return {"output": output}

    return Case("flaggems.moe_sum", (t, k, n), {"input": x}, peer)


def fused_add_rms_norm(m: Making, rows: int, n: int) -> Case:
    x, residual, weight = m.numbers(rows, n), m.numbers(rows, n), m.numbers(n)
    function = gems("fused.fused_add_rms_norm", "fused_add_rms_norm")

    def peer() -> dict[str, Any]:
        function(x, residual, [n], weight, 1e-5)
        return {}

    inputs = {"x": x, "residual": residual, "weight": weight}
    return Case("flaggems.fused_add_rms_norm", (rows, n), inputs, peer, written=("x", "residual"))


def skip_layer_norm(m: Making, rows: int, n: int) -> Case:
    x, residual, weight, bias = m.numbers(rows, n), m.numbers(rows, n), m.numbers(n), m.numbers(n)
    peer = one("y", gems("fused.skip_layernorm", "skip_layer_norm"), x, residual, [n], weight, bias, 1e-5)
    return Case(
        "flaggems.skip_layer_norm", (rows, n), {"x": x, "residual": residual, "weight": weight, "bias": bias}, peer
    )


def reduction(op: str, output: str, module: str, function: str, dim: Any) -> Callable[..., Case]:
    def make(m: Making, rows: int, n: int) -> Case:
        x = m.numbers(rows, n)
        return Case(f"flaggems.{op}", (rows, n), {"x": x}, one(output, gems(module, function), x, dim))

    return make


argmax = reduction("argmax", "index", "ops.argmax", "argmax", -1)
sum_ = reduction("sum", "y", "ops.sum", "sum_dim", [-1])
mean = reduction("mean", "y", "ops.mean", "mean_dim", [-1])
amax = reduction("amax", "y", "ops.amax", "amax", [-1])


def var_mean(m: Making, rows: int, n: int) -> Case:
    x = m.numbers(rows, n)
    function = gems("ops.var_mean", "var_mean")
    return Case("flaggems.var_mean", (rows, n), {"x": x}, several("var mean", function, x, [-1]))


def vector_norm(m: Making, rows: int, n: int) -> Case:
    x = m.numbers(rows, n)
    return Case(
        "flaggems.vector_norm", (rows, n), {"x": x}, one("y", gems("ops.vector_norm", "vector_norm"), x, 2, [-1])
    )


def index_select(m: Making, rows: int, n: int, k: int) -> Case:
    x, index = m.numbers(rows, n), m.indices(n, k)
    peer = one("y", gems("ops.index_select", "index_select"), x, -1, index)
    return Case("flaggems.index_select", (rows, n, k), {"x": x, "index": index}, peer)


def repetition_penalties(m: Making, s: int, v: int) -> Case:
    logits, prompt, output, penalties = m.numbers(s, v), m.bools(s, v), m.bools(s, v), m.numbers(s).abs() + 1
    function = gems("fused.apply_repetition_penalties", "apply_repetition_penalties")

    def peer() -> dict[str, Any]:
        function(logits, prompt, output, penalties)
        return {}

    inputs = {"logits": logits, "prompt": prompt, "output": output, "penalties": penalties}
    return Case("flaggems.repetition_penalties", (s, v), inputs, peer, written=("logits",))


# --- Liger -----------------------------------------------------------------------------------------------------------


def liger(module: str, function: str) -> Any:
    return of(f"liger_kernel.ops.{module}", function)


def liger_rms_norm(m: Making, rows: int, n: int) -> Case:
    x, weight = m.numbers(rows, n), m.numbers(n)
    function = liger("rms_norm", "rms_norm_forward")

    def peer() -> dict[str, Any]:
        y, _, rstd, *_ = function(x, weight, 1e-6, 0.0, "gemma", False)
        return {"output": y, "rsigma": rstd}

    return Case("rmsnorm_fwd", (rows, n), {"input": x, "weight": weight}, peer, {"eps": 1e-6})


def liger_add_rms_norm(m: Making, rows: int, n: int) -> Case:
    x, residual, weight = m.numbers(rows, n), m.numbers(rows, n), m.numbers(n)
    function = liger("fused_add_rms_norm", "fused_add_rms_norm_forward")

    def peer() -> dict[str, Any]:
        y, total, rstd, *_ = function(x, residual, weight, 1e-6, 0.0, "gemma")
        return {"output": y, "sum": total, "rsigma": rstd}

    inputs = {"input": x, "residual": residual, "weight": weight}
    return Case("fused_add_rmsnorm_fwd", (rows, n), inputs, peer, {"eps": 1e-6})


def liger_softmax_bwd(m: Making, rows: int, k: int) -> Case:
    grad, output = m.numbers(rows, k), m.numbers(rows, k).softmax(-1)
    block = 1 << (k - 1).bit_length()
    warps = 16 if block >= 8192 else 8 if block >= 2048 else 4
    peer = one("grad_input", liger("softmax", "_softmax_backward"), grad, output, block, warps, False)
    return Case("scaled_softmax_bwd", (rows, k), {"grad": grad, "output": output}, peer)


def liger_layer_norm(m: Making, rows: int, n: int) -> Case:
    x, weight, bias = m.numbers(rows, n), m.numbers(n), m.numbers(n)
    function = liger("layer_norm", "layer_norm_forward")

    def peer() -> dict[str, Any]:
        y, _, mean, rstd, *_ = function(x, weight, bias, 1e-5)
        return {"output": y, "mu": mean, "rsigma": rstd}

    return Case("layernorm_fwd", (rows, n), {"input": x, "weight": weight, "bias": bias}, peer)


def liger_softmax(m: Making, rows: int, k: int) -> Case:
    x = m.numbers(rows, k)
    function = liger("softmax", "_softmax_forward")
    return Case("scaled_softmax_fwd", (rows, k), {"input": x}, lambda: {"output": function(x)[0]})


def liger_geglu(m: Making, rows: int, n: int) -> Case:
    gate, up = m.numbers(rows, n), m.numbers(rows, n)
    function = liger("geglu", "geglu_forward")
    return Case("gelu_and_mul", (rows, n), {"gate": gate, "up": up}, lambda: {"output": function(gate, up)[2]})


def liger_srelu(m: Making, rows: int, n: int) -> Case:
    x = m.numbers(rows, n)
    return Case("srelu", (rows, n), {"input": x}, one("output", liger("relu_squared", "relu_squared_forward"), x))


def liger_srelu_bwd(m: Making, rows: int, n: int) -> Case:
    grad, x = m.numbers(rows, n), m.numbers(rows, n)
    peer = one("grad_input", liger("relu_squared", "relu_squared_backward"), x, grad)
    return Case("srelu_bwd", (rows, n), {"grad": grad, "input": x}, peer)


def liger_kl_div(m: Making, b: int, v: int, log_target: bool = False) -> Case:
    x, target = m.numbers(b, v).log_softmax(-1), m.numbers(b, v)
    target = target.log_softmax(-1) if log_target else target.softmax(-1)
    function = liger("kl_div", "kldiv_forward_triton")

    def peer() -> dict[str, Any]:
        function(x, target, log_target, "sum", 1e-10)  # also sums the rows
        return {}

    return Case("kl_div", (b, v), {"input": x, "target": target}, peer, {"log_target": log_target})


def liger_group_norm(m: Making, b: int, c: int, plane: int, groups: int) -> Case:
    x, weight, bias = m.numbers(b, c, plane), m.numbers(c), m.numbers(c)
    function = liger("group_norm", "group_norm_forward")

    def peer() -> dict[str, Any]:
        y, _, mean, rstd, _ = function(x, c, groups, weight, bias, 1e-5)
        return {"output": y, "mu": mean, "rsigma": rstd}

    inputs = {"input": x, "weight": weight, "bias": bias}
    return Case("liger.group_norm", (b, c, plane, groups), inputs, peer, {"groups": groups})


def liger_tvd(m: Making, b: int, v: int) -> Case:
    p, q = m.numbers(b, v).softmax(-1), m.numbers(b, v).softmax(-1)
    function = liger("tvd", "tv_distance_forward_triton")

    def peer() -> dict[str, Any]:
        _, grad = function(p, q, None, "sum", -100, False)
        return {"grad": grad}

    return Case("liger.tvd", (b, v), {"p": p, "q": q}, peer)


ROWS = ((64, 4096), (48, 1024), (7, 2000), (3, 100))
LARGE_ROWS = ((16384, 4096), (4096, 1024), (1000, 2000))

# For each plugin: the function that makes a case, its dims if nothing is computed, and its dims for timing.
CASES: dict[str, list[tuple[Callable[..., Case], tuple[Any, ...], tuple[Any, ...]]]] = {
    "flaggems": [
        (softmax, (*ROWS, (2, 50000)), (*LARGE_ROWS, (512, 50304))),
        (softmax_bwd, ROWS, LARGE_ROWS),
        (log_softmax, ROWS, LARGE_ROWS),
        (log_softmax_bwd, ROWS, LARGE_ROWS),
        (rms_norm, (*ROWS, (16, 8192)), (*LARGE_ROWS, (4096, 8192))),
        (rms_norm_bwd, ROWS, LARGE_ROWS),
        (layer_norm, (*ROWS, (16, 8192)), (*LARGE_ROWS, (4096, 8192))),
        (layer_norm_bwd, ROWS, LARGE_ROWS),
        (group_norm, ((2, 64, 64, 8), (3, 32, 1024, 4)), ((16, 256, 1024, 32), (32, 64, 256, 8))),
        (embedding, ((32, 100, 4096), (5, 64, 1024)), ((16384, 32000, 4096),)),
        (topk_softmax, ((64, 128, 8), (7, 256, 4), (5, 60, 6, True)), ((16384, 128, 8), (4096, 256, 8, True))),
        (mm, ((128, 256, 512), (100, 200, 64), (7, 48, 100)), ((4096, 4096, 4096), (1000, 4096, 4096))),
        (addmm, ((128, 256, 512), (100, 200, 64)), ((4096, 4096, 4096), (1000, 4096, 4096))),
        (mul, ((64, 4096), (7, 100)), ((8192, 8192),)),
        (bmm, ((4, 64, 128, 32), (3, 50, 64, 48)), ((16, 1024, 1024, 1024),)),
        (dropout, ((64, 1024), (400,)), ((8192, 8192),)),
        (dropout_bwd, ((64, 1024), (700,)), ((8192, 8192),)),
        (moe_sum, ((16, 8, 1024), (7, 3, 100)), ((16384, 8, 4096),)),
        (fused_add_rms_norm, ROWS, LARGE_ROWS),
        (skip_layer_norm, ROWS, LARGE_ROWS),
        (argmax, (*ROWS, (2, 50000)), (*LARGE_ROWS, (512, 50304))),
        (sum_, (*ROWS, (2, 50000)), (*LARGE_ROWS, (512, 50304))),
        (mean, (*ROWS, (2, 50000)), (*LARGE_ROWS, (512, 50304))),
        (amax, ROWS, LARGE_ROWS),
        (var_mean, ROWS, LARGE_ROWS),
        (vector_norm, ROWS, LARGE_ROWS),
        (index_select, ((64, 4096, 128), (5, 100, 7)), ((4096, 4096, 512),)),
        (repetition_penalties, ((8, 32000), (3, 1000)), ((256, 128256),)),
    ],
    "liger": [
        (liger_rms_norm, ((64, 4096), (48, 1024), (7, 2000)), LARGE_ROWS),
        (liger_add_rms_norm, ((64, 4096), (7, 2000)), LARGE_ROWS),
        (liger_softmax_bwd, ((64, 4096), (7, 2000)), LARGE_ROWS),
        (liger_layer_norm, ((64, 4096), (48, 1024), (7, 2000)), LARGE_ROWS),
        (liger_softmax, ((64, 4096), (48, 1024), (7, 2000)), LARGE_ROWS),
        (liger_geglu, ((64, 4096),), ((16384, 4096),)),
        (liger_srelu, ((64, 4096),), ((16384, 4096),)),
        (liger_srelu_bwd, ((64, 4096),), ((16384, 4096),)),
        (liger_kl_div, ((8, 32000), (5, 1000, True)), ((4096, 32000), (4096, 32000, True))),
        (liger_group_norm, ((2, 64, 64, 8),), ((16, 256, 1024, 32),)),
        (liger_tvd, ((8, 32000), (5, 1000)), ((4096, 32000),)),
    ],
}


def cases(plugin: str, dtype: torch.dtype, device: str, is_timed: bool, ops: list[str]) -> Any:
    """Makes the cases one after another, since they need memory."""
    for make, small, large in CASES[plugin]:
        own = torch.float32 if make is liger_group_norm else dtype
        own = torch.bfloat16 if make is bmm and dtype == torch.float32 else own
        for dims in large if is_timed else small:
            made = make(Making(own, device), *dims)
            if ops and made.op not in ops:
                break
            yield made
