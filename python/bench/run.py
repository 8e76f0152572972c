#!/usr/bin/env python3
"""Compares the speed of opdock's Python package with the alternatives that its users have.

calls:    host time of a call, in microseconds, for rmsnorm_fwd of 1 x 64 f32 on the CPU: through the package, through
          torch's dispatcher, and of torch's own ops.
training: tokens per second and peak memory of training steps of a Llama with random weights, with torch,
          torch.compile, Liger if it is installed, and opdock.
losses:   losses over 200 steps of the training model on eight batches in turn: torch with two seeds, the first seed
          again, and opdock; each with its distance from the first.
decoding: milliseconds per token of such a model with a static cache, as a CUDA graph.
small:    microseconds per call on few rows, with 64 calls in a CUDA graph, for opdock, torch, torch.compile and Liger
          if it is installed and has the op. Shapes are drawn from the widths and vocabularies of models. Also the
          geometric mean of opdock's times relative to the fastest alternative.

Figures are medians over rounds. The calls take turns in each round. Models run one after the other, since their memory
is measured too, and all of them run again in each cycle, because the clocks of a warming GPU fall.
"""

import argparse
import collections
import contextlib
import functools
import gc
import importlib.util
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

import opdock.torch

EXAMPLES = """examples:
  python/bench/run.py calls
  python/bench/run.py training --batch 4 --batch 16
  python/bench/run.py training --small --device cpu            check that it works, on any machine
  python/bench/run.py losses --batch 4
  python/bench/run.py decoding --batch 1 --batch 32
  python/bench/run.py small --shapes 6 --seed 7
"""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["calls", "training", "losses", "decoding", "small"])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--batch", type=int, action="append", help="may be repeated; default: 4, for decoding 1")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cycles", type=int, default=1, help="number of cycles through all ways to run a model")
    parser.add_argument("--steps", type=int, default=3, help="number of steps of each way in a round")
    parser.add_argument("--layers", type=int, default=0, help="default: 12, for decoding 16")
    parser.add_argument("--small", action="store_true", help="use a tiny model")
    parser.add_argument("--shapes", type=int, default=6, help="number of shapes of each op for small calls")
    parser.add_argument("--only", action="append", default=[], help="run only this way; may be repeated")
    parser.add_argument("--seed", type=int, default=20261126)
    return parser.parse_args()


def table(rows: dict[str, str]) -> None:
    for name, text in rows.items():
        print(f"  {name:<32} {text}", flush=True)


def calls(arguments: argparse.Namespace) -> None:
    host, ops = opdock.torch.host(), torch.ops.opdock
    x, w = torch.randn(1, 64), torch.randn(64)
    out = torch.empty_like(x)
    prepared = host.rmsnorm_fwd.prepare(x, w, out=out)
    ways: dict[str, Callable[[], Any]] = {
        "an empty function": lambda: None,
        "prepared, out=": lambda: prepared(x, w, out=out),
        "prepared": lambda: prepared(x, w),
        "host.rmsnorm_fwd, out=": lambda: host.rmsnorm_fwd(x, w, out=out),
        "host.rmsnorm_fwd": lambda: host.rmsnorm_fwd(x, w),
        "torch.ops.opdock.rmsnorm_fwd": lambda: ops.rmsnorm_fwd(x, w),
        "torch.ops.opdock.silu": lambda: ops.silu(x),
        "torch.ops.aten.silu": lambda: torch.ops.aten.silu(x),
        "torch.rms_norm": lambda: torch.rms_norm(x, [64], w, 1e-5),
    }
    modes: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
        "gradients may be recorded": contextlib.nullcontext,
        "torch.no_grad": torch.no_grad,
        "torch.inference_mode": torch.inference_mode,
    }
    for mode, context in modes.items():
        times: dict[str, list[float]] = {name: [] for name in ways}
        with context():
            for _ in range(arguments.rounds):
                for name, way in ways.items():
                    begin = time.perf_counter_ns()
                    for _ in range(5000):
                        way()
                    times[name].append((time.perf_counter_ns() - begin) / 5e6)
        print(f"{mode}, us a call:")
        table({name: f"{statistics.median(values):.2f}" for name, values in times.items()})


def llama(arguments: argparse.Namespace, layers: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 2048}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8}
    if arguments.small:
        sizes = {"hidden_size": 64, "intermediate_size": 128, "vocab_size": 512, "max_position_embeddings": 64}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        layers = 2
    torch.manual_seed(arguments.seed)
    config = LlamaConfig(**sizes, **heads, num_hidden_layers=layers, tie_word_embeddings=True)
    with torch.device(arguments.device):
        return LlamaForCausalLM(config).to(torch.bfloat16)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


class Way:
    """One way to run the model, and the context in which it does."""

    def __init__(self, compiled: bool = False, use: dict[str, Any] | None = None, liger: dict[str, Any] | None = None):
        self.compiled, self.options, self.liger = compiled, use, liger

    @contextlib.contextmanager
    def model(self, arguments: argparse.Namespace, layers: int) -> Iterator[Any]:
        from transformers.models.llama import modeling_llama

        model = llama(arguments, layers)
        before = dict(vars(modeling_llama))
        if self.liger is not None:
            from liger_kernel.transformers import apply_liger_kernel_to_llama

            apply_liger_kernel_to_llama(model=model, **self.liger)
        used = None if self.options is None else opdock.torch.use(model, **self.options)
        try:
            yield torch.compile(model) if self.compiled else model
        finally:
            if used is not None:
                used.undo()
            vars(modeling_llama).update(before)  # Liger changes it for every later model


def ways(arguments: argparse.Namespace, training: bool) -> dict[str, Way]:
    result = {
        "torch": Way(),
        "torch.compile": Way(compiled=True),
        "opdock": Way(use={}),
        "opdock, torch.compile": Way(compiled=True, use={}),
    }
    without_logits = {"fused_linear_cross_entropy": True, "cross_entropy": False}
    if training:
        result["opdock, loss without logits"] = Way(use={"linear_cross_entropy": True})
    if importlib.util.find_spec("liger_kernel") is not None:
        result["Liger"] = Way(liger={"fused_linear_cross_entropy": False, "cross_entropy": True})
        if training:
            result["Liger, loss without logits"] = Way(liger=without_logits)
    return {name: way for name, way in result.items() if not arguments.only or name in arguments.only}


def train(arguments: argparse.Namespace, way: Way, batch: int, layers: int) -> tuple[list[float], str]:
    """Returns seconds per step in each round, and further results."""
    length = 32 if arguments.small else 2048
    with way.model(arguments, layers) as model:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
        generator = torch.Generator().manual_seed(arguments.seed)
        vocabulary = 512 if arguments.small else 128256
        losses, times = [], []

        def step() -> None:
            ids = torch.randint(0, vocabulary, (batch, length), generator=generator).to(arguments.device)
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())

        model.train()
        for _ in range(3):
            step()
        synchronize(arguments.device)
        if arguments.device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats()
        for _ in range(arguments.rounds):
            begin = time.perf_counter()
            for _ in range(arguments.steps):
                step()
            synchronize(arguments.device)
            times.append((time.perf_counter() - begin) / arguments.steps)
    peak = torch.cuda.max_memory_allocated() / 2**30 if arguments.device.startswith("cuda") else 0
    return times, f"{peak:6.1f} GiB   loss {losses[-1].item():.4f}"


def losses(arguments: argparse.Namespace, batch: int, layers: int) -> None:
    length, vocabulary, seed = (32, 512, arguments.seed) if arguments.small else (2048, 128256, arguments.seed)
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randint(0, vocabulary, (batch, length), generator=generator) for _ in range(8)]

    def run(way: Way, model_seed: int) -> torch.Tensor:
        arguments.seed = model_seed
        with way.model(arguments, layers) as model:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
            found = []
            model.train()
            for step in range(200):
                ids = batches[step % 8].to(arguments.device)
                loss = model(input_ids=ids, labels=ids, use_cache=False).loss
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                found.append(loss.detach())
            return torch.stack(found).float().cpu()

    first = run(Way(), seed)
    others = {"torch again": (Way(), seed), "torch, another seed": (Way(), seed + 1), "opdock": (Way(use={}), seed)}
    others["opdock, loss without logits"] = (Way(use={"linear_cross_entropy": True}), seed)
    table({"torch": f"last {first[-1]:.4f}"})
    for name, (way, model_seed) in others.items():
        gc.collect()
        found = run(way, model_seed)
        off = (found - first).abs()
        table({name: f"last {found[-1]:.4f}, off by at most {off.max():.4f}, by {off.mean():.4f} in the mean"})


def decode(arguments: argparse.Namespace, way: Way, batch: int, layers: int) -> tuple[list[float], str]:
    """Returns seconds per token in each round."""
    from transformers import StaticCache

    length = 32 if arguments.small else 1024
    with way.model(arguments, layers) as model, torch.inference_mode():
        model.eval()
        cache = StaticCache(config=model.config, max_cache_len=length)
        ids = torch.zeros(batch, 1, dtype=torch.long, device=arguments.device)
        position = torch.full((batch, 1), length - 1, device=arguments.device)

        # Uses the same position each time, so that the graph can be replayed.
        def step() -> None:
            model(input_ids=ids, position_ids=position, past_key_values=cache, use_cache=True, return_dict=True)

        run = step
        if arguments.device.startswith("cuda"):
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for _ in range(3):
                    step()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
            run = graph.replay
        times = []
        for _ in range(arguments.rounds):
            synchronize(arguments.device)
            begin = time.perf_counter()
            for _ in range(10):
                run()
            synchronize(arguments.device)
            times.append((time.perf_counter() - begin) / 10)
    return times, ""


_WIDTHS = [768, 1024, 1536, 2048, 2560, 2880, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 11008, 13824, 14336, 18432]
_VOCABULARIES = [32000, 50257, 65024, 128256, 151669, 151936]


class SmallCase(NamedTuple):
    name: str  # the op and its shape
    ours: functools.partial[Any]
    torchs: functools.partial[Any]
    ligers: functools.partial[Any] | None = None


def small_cases(generator: random.Random, count: int) -> Iterator[SmallCase]:
    ops, functional, of = torch.ops.opdock, torch.nn.functional, functools.partial
    has_liger = importlib.util.find_spec("liger_kernel") is not None

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda").bfloat16()

    def liger(name: str, *values: Any) -> functools.partial[Any] | None:
        if not has_liger:
            return None
        import liger_kernel.ops

        return of(getattr(liger_kernel.ops, f"Liger{name}Function").apply, *values)

    def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    def add_rmsnorm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return functional.rms_norm(total, w.shape, w, 1e-5), total

    def rope(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return rotated(q, cos, sin), rotated(k, cos, sin)

    def gated(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.silu(x) * y

    for _ in range(count):
        rows, n = generator.choice([1, 2, 4, 7, 8, 16, 33, 64, 128, 256, 333, 512]), generator.choice(_WIDTHS)
        x, y, w, b = tensor(rows, n), tensor(rows, n), tensor(n), tensor(n)
        norm, layer = functional.rms_norm, functional.layer_norm
        shape = f"{rows} x {n}"
        yield SmallCase(
            f"rmsnorm_fwd {shape}",
            of(ops.rmsnorm_fwd, x, w, eps=1e-5),
            of(norm, x, w.shape, w, 1e-5),
            liger("RMSNorm", x, w, 1e-5, 0.0, "llama", False),
        )
        yield SmallCase(
            f"fused_add_rmsnorm_fwd {shape}",
            of(ops.fused_add_rmsnorm_fwd, x, y, w),
            of(add_rmsnorm, x, y, w),
            liger("FusedAddRMSNorm", x, y, w, 1e-6),
        )
        yield SmallCase(
            f"layernorm_fwd {shape}",
            of(ops.layernorm_fwd, x, w, b),
            of(layer, x, w.shape, w, b),
            liger("LayerNorm", x, w, b, 1e-5),
        )
        yield SmallCase(f"silu_and_mul {shape}", of(ops.silu_and_mul, x, y), of(gated, x, y), liger("SiLUMul", x, y))
        yield SmallCase(f"gelu {shape}", of(ops.gelu, x), of(functional.gelu, x, approximate="tanh"))
        scores = x[None, None]
        yield SmallCase(
            f"scaled_softmax_fwd {shape}",
            of(ops.scaled_softmax_fwd, scores),
            of(torch.softmax, scores, -1),
            liger("Softmax", x),
        )
        heads, keys, size = generator.choice([(32, 8, 128), (32, 8, 64), (40, 8, 128), (64, 8, 128), (28, 4, 128)])
        q, k = tensor(rows, 1, heads, size), tensor(rows, 1, keys, size)
        angles = torch.rand(rows, 1, 1, size // 2, device="cuda").repeat(1, 1, 1, 2) * 100
        cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
        yield SmallCase(
            f"fused_rope_qk_fwd {rows} x {heads} and {keys} x {size}",
            of(ops.fused_rope_qk_fwd, q, k, angles),
            of(rope, q, k, cos, sin),
            liger("Rope", q.permute(1, 2, 0, 3), k.permute(1, 2, 0, 3), cos[:, 0, 0][None], sin[:, 0, 0][None]),
        )
        vocabulary = generator.choice(_VOCABULARIES)
        logits, target = tensor(rows, vocabulary), torch.randint(vocabulary, (rows,), device="cuda")
        yield SmallCase(
            f"cross_entropy_fwd {rows} x {vocabulary}",
            of(ops.cross_entropy_fwd, logits, target),
            of(functional.cross_entropy, logits, target, reduction="none"),
        )


def in_graph(call: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(64):
            call()
    return graph


def replay(graph: torch.cuda.CUDAGraph) -> float:
    """Returns microseconds per call of the graph."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    graph.replay()
    begin.record()
    for _ in range(5):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / 320


def small(arguments: argparse.Namespace) -> None:
    torch.manual_seed(arguments.seed)
    ratios: dict[str, list[float]] = collections.defaultdict(list)
    print(f"  {'us':<40} {'opdock':>8} {'torch':>8} {'compiled':>8} {'Liger':>8}")
    for case in small_cases(random.Random(arguments.seed), arguments.shapes):
        torch.compiler.reset()
        torchs = case.torchs
        compiled = functools.partial(torch.compile(torchs.func, dynamic=False), *torchs.args, **torchs.keywords)
        with torch.inference_mode():
            graphs = [in_graph(one) for one in (case.ours, torchs, compiled, case.ligers) if one is not None]
            rounds = [[replay(graph) for graph in graphs] for _ in range(arguments.rounds)]
        times = [statistics.median(column) for column in zip(*rounds, strict=True)]
        ratios[case.name.split()[0]].append(times[0] / min(times[1:]))
        print(f"  {case.name:<40} " + " ".join(f"{one:8.2f}" for one in times), flush=True)
    table({op: f"{statistics.geometric_mean(those):.2f} of the fastest other" for op, those in ratios.items()})
    print(f"  all: {statistics.geometric_mean([one for those in ratios.values() for one in those]):.2f}")


def main() -> None:
    arguments = parse()
    print(f"seed {arguments.seed}, torch {torch.__version__}")
    if arguments.what == "calls":
        calls(arguments)
        return
    if arguments.what == "small":
        small(arguments)
        return
    if arguments.what == "losses":
        for batch in arguments.batch or [4]:
            losses(arguments, batch, arguments.layers or 12)
        return
    training = arguments.what == "training"
    measure, layers = (train, 12) if training else (decode, 16)
    length = (32 if arguments.small else 2048) if training else 1
    for batch in arguments.batch or [4 if training else 1]:
        print(f"{arguments.what}, batch {batch}:")
        times: dict[str, list[float]] = collections.defaultdict(list)
        for name, way in [*ways(arguments, training).items()] * arguments.cycles:
            gc.collect()
            if arguments.device.startswith("cuda"):
                torch.cuda.empty_cache()
            torch.compiler.reset()
            try:
                found, more = measure(arguments, way, batch, arguments.layers or layers)
            except torch.OutOfMemoryError:
                table({name: "out of memory"})
                continue
            times[name] += found
            median = statistics.median(times[name])
            speed = f"{batch * length / median:9.0f} tokens/s" if training else f"{1e3 * median:8.3f} ms a token"
            table({name: f"{speed} {more}"})
    if not arguments.only or "opdock" in arguments.only:
        print(opdock.torch.report())


if __name__ == "__main__":
    main()
