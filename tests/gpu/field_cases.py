"""The contenders of field.py: for each op, shape and dtype a Case, with the peers that the op has."""

import functools

import peer_cases
import torch
import torch.nn.attention
import torch.nn.functional as F
from peer_cases import Case, backward, by_liger, gems, leaf, loss_cases, numbers, of, rope, row_cases
from token_peers import head_case

from opdock.torch import host

try:
    import flashinfer
except ImportError:
    flashinfer = None

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
# torch's names of sdpa's backends; the fastest one counts.
BACKENDS = {
    "torch cudnn": torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
    "torch flash": torch.nn.attention.SDPBackend.FLASH_ATTENTION,
    "torch efficient": torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION,
}
E4M3 = torch.float8_e4m3fn


def opdock(case):
    """A function without arguments that calls the op on the case's inputs, with the case's optional outputs."""
    if case.op in ("attention_fwd", "attention_bwd"):
        # A prepared call, so that no other implementation is tried during the capture if cuDNN has no kernel.
        prepared = getattr(host(), case.op).prepare(*case.inputs, outputs=list(case.outputs), **case.attributes)
        return lambda: prepared(*case.inputs)
    packet = getattr(torch.ops.opdock, case.op)
    call = packet.full if case.outputs else packet.default
    return lambda: call(*case.inputs, **case.attributes)


def indices(high, *shape):
    return torch.randint(0, high, shape, device="cuda")


def fused_rope(op, dims, dtype):
    tokens, heads, keys, size = dims
    q, k = numbers(tokens, 1, heads, size, dtype=dtype), numbers(tokens, 1, keys, size, dtype=dtype)
    freqs = numbers(tokens, 1, 1, size // 2, dtype=torch.float32, low=0.0, high=6.0).repeat(1, 1, 1, 2)
    # Liger rotates in place and takes cosines and sines. Making them is not timed, as a model does it once for all
    # layers.
    cos, sin = freqs[:, 0, 0][None].cos().to(dtype), freqs[:, 0, 0][None].sin().to(dtype)
    in_place = (one.clone().permute(1, 2, 0, 3) for one in (q, k))
    peers = of(lambda q, k, freqs: (rope(q, freqs), rope(k, freqs)), q, k, freqs)
    peers["liger", "in place, from a table"] = by_liger("rope", "LigerRopeFunction", *in_place, cos, sin)
    return Case(op, dims, 0, (q, k, freqs), peers)


def embedding(op, dims, dtype):
    tokens, n, entries = dims
    inputs = numbers(entries, n, dtype=dtype), indices(entries, tokens)
    peers = of(lambda weight, where: F.embedding(where, weight), *inputs)
    return Case(op, dims, 0, inputs, peers | {"flag_gems": gems("embedding", *inputs)})


def topk(op, dims, dtype):
    logits = numbers(*dims, dtype=dtype)
    peers = {"torch": lambda: lambda: torch.topk(logits, 50), "flag_gems": gems("topk", logits, 50)}
    return Case(op, dims, 0, (logits,), peers, attributes={"k": 50})


def topk_softmax(op, dims, dtype):
    tokens, experts, of_token = dims
    logits = numbers(tokens, experts, dtype=dtype)

    def formula(logits):
        weights, chosen = torch.topk(torch.softmax(logits.float(), -1), of_token)
        return weights, chosen.int()

    weights = torch.empty(tokens, of_token, device="cuda")
    chosen = torch.empty(tokens, of_token, dtype=torch.int32, device="cuda")
    found = gems("topk_softmax", weights, chosen, chosen, logits)

    def of_gems():
        run = found()
        return lambda: (run(), weights)[1]

    return Case(op, dims, 0, (logits,), of(formula, logits) | {"flag_gems": of_gems}, attributes={"k": of_token})


def routed(op, dims, dtype):
    tokens, n, experts, of_token = dims
    chosen = torch.rand(tokens, experts, device="cuda").topk(of_token).indices.int()
    places, order, _ = torch.ops.opdock.moe_align(chosen, experts=experts)
    if op == "moe_permute":
        x, source = numbers(tokens, n, dtype=dtype), (order // of_token).long()
        peers = of(lambda x, source: x.index_select(0, source), x, source)
        return Case(op, dims, 0, (x, places), peers | {"flag_gems": gems("index_select", x, 0, source)})
    x = numbers(tokens * of_token, n, dtype=dtype)
    weights = numbers(tokens, of_token, dtype=torch.float32, low=0.0, high=1.0)

    def formula(x, places, weights):
        return (x[places.long()].float() * weights[..., None]).sum(1).to(x.dtype)

    return Case(op, dims, 0, (x, places, weights), of(formula, x, places, weights))


def quantized(wide):
    scale = wide.abs().amax(-1, keepdim=True) / 448
    return (wide / scale).to(E4M3), scale[..., 0]


def quantize(op, dims, dtype):
    x, weight = numbers(*dims, dtype=dtype), numbers(dims[1], dtype=dtype)
    if op == "quantize_per_token":
        return Case(op, dims, 0, (x,), of(lambda x: quantized(x.float()), x), attributes={"dtype": E4M3})

    def formula(x, weight):
        wide = x.float()
        return quantized(wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * weight.float())

    return Case(op, dims, 0, (x, weight), of(formula, x, weight), attributes={"dtype": E4M3})


def sdpa(name, q, k, v, is_causal):
    """Attention on queries and keys with opdock's memory layout, in which heads come after positions."""
    grouped = q.shape[1] != k.shape[1]
    if name == "torch efficient" and grouped:  # it does not support groups
        k, v = (one.repeat_interleave(q.shape[1] // k.shape[1], 1) for one in (k, v))
        grouped = False

    def run():
        with torch.nn.attention.sdpa_kernel(BACKENDS[name]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=grouped)

    return run


def attention(op, dims, dtype):
    sequences, positions, heads, keys, size = dims
    inputs = tuple(numbers(sequences, positions, count, size, dtype=dtype) for count in (heads, keys, keys))
    turned = [one.transpose(1, 2) for one in inputs]

    def forward(name):
        run = sdpa(name, *turned, True)
        return lambda: run().transpose(1, 2)

    if op == "attention_fwd":
        peers = {name: lambda name=name: forward(name) for name in BACKENDS}
        return Case(op, dims, 0, inputs, peers, attributes={"causal": True})
    grad = numbers(sequences, positions, heads, size, dtype=dtype)
    output, lse = torch.ops.opdock.attention_fwd.full(*inputs, causal=True)

    def back(name):
        if name == "torch efficient" and heads != keys:
            raise RuntimeError("has no groups of heads")
        needs = [leaf(one) for one in turned]
        run = backward(sdpa(name, *needs, True)(), needs, grad.transpose(1, 2))
        return lambda: [one.transpose(1, 2) for one in run()]

    peers = {name: lambda name=name: back(name) for name in BACKENDS}
    return Case(op, dims, 0, (grad, *inputs, output, lse), peers, attributes={"causal": True})


def decode(op, dims, dtype):
    """torch has no paged caches: its caches are dense, and all lengths are equal."""
    sequences, keys, heads, key_heads, size, page = dims
    pages = -(-keys // page)
    q = numbers(sequences, heads, size, dtype=dtype)
    caches = [numbers(sequences * pages, page, key_heads, size, dtype=dtype) for _ in range(2)]
    table = torch.randperm(sequences * pages, device="cuda").int().view(sequences, pages)
    lengths = torch.full((sequences,), keys, dtype=torch.int32, device="cuda")

    @functools.cache
    def without_pages():
        return [one[table.long()].flatten(1, 2)[:, :keys].transpose(1, 2) for one in caches]

    def dense(name):
        run = sdpa(name, q[:, :, None], *without_pages(), False)
        return lambda: run()[:, :, 0]

    def of_flashinfer():
        if flashinfer is None:
            raise NotImplementedError
        workspace = torch.empty(128 << 20, dtype=torch.uint8, device="cuda")
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            workspace, "NHD", use_tensor_cores=heads >= 4 * key_heads
        )
        starts = torch.arange(sequences + 1, dtype=torch.int32) * pages
        last = torch.full((sequences,), keys - (pages - 1) * page, dtype=torch.int32)
        wrapper.plan(starts, table.flatten(), last, heads, key_heads, size, page, q_data_type=dtype)
        return lambda: wrapper.run(q, tuple(caches))

    peers = {(name, "no pages"): lambda name=name: dense(name) for name in BACKENDS}
    return Case(op, dims, 0, (q, *caches, table, lengths), peers | {"flashinfer": of_flashinfer})


def linear(op, dims, dtype):
    m, n, k = dims
    x, weight = numbers(m, k, dtype=dtype), numbers(n, k, dtype=dtype)
    if op == "linear_fwd":
        return Case(op, dims, 0, (x, weight, None), {"torch": lambda: lambda: F.linear(x, weight)})
    x, weight = x.to(E4M3), weight.to(E4M3)
    scales = [numbers(1, dtype=torch.float32, low=0.5, high=1.5) for _ in range(2)]
    run = lambda: torch._scaled_mm(x, weight.t(), *scales, out_dtype=dtype)
    return Case(op, dims, 0, (x, weight, *scales, None), {"torch": lambda: run}, attributes={"dtype": dtype})


def grouped(op, dims, dtype):
    rows, groups, n, k = dims
    x, weight = numbers(rows, k, dtype=dtype), numbers(groups, n, k, dtype=dtype)
    sizes = torch.bincount(indices(groups, rows), minlength=groups)
    starts = F.pad(sizes.cumsum(0), (1, 0)).int()
    on_host = sizes.tolist()

    def in_one():
        run = lambda: torch._grouped_mm(x, weight.transpose(1, 2), offs=starts[1:])
        return run

    def one_by_one():
        return lambda: torch.cat([F.linear(*one) for one in zip(x.split(on_host), weight, strict=True) if len(one[0])])

    peers = {"torch": in_one, ("torch, a product for each", "the host knows the groups"): one_by_one}
    return Case(op, dims, 0, (x, weight, starts), peers)


def of_heads(op, dims, dtype):
    tokens, heads, keys, size = dims
    return head_case(op, tokens, (heads, keys), size, dtype)[2]()


MAKE = {
    "fused_rope_qk_fwd": fused_rope,
    "rope_qk_positions": of_heads,
    "qk_norm_rope": of_heads,
    "embedding": embedding,
    "topk": topk,
    "topk_softmax_fwd": topk_softmax,
    "moe_permute": routed,
    "moe_unpermute": routed,
    "quantize_per_token": quantize,
    "rmsnorm_quantize": quantize,
    "attention_fwd": attention,
    "attention_bwd": attention,
    "attention_decode": decode,
    "linear_fwd": linear,
    "linear_fp8": linear,
    "grouped_linear_fwd": grouped,
}


def make(label, dims, dtype_name):
    """The Case of an op, with the label that field_shapes.KINDS gives it."""
    dtype = DTYPES[dtype_name]
    op, *outputs = label.split(" +")
    if op in MAKE:
        return MAKE[op](op, dims, dtype)
    cases = [*row_cases(*dims, dtype, 1.0), *loss_cases(*dims, dtype)]
    return next(one[2]() for one in cases if (one[0], list(one[3:])) == (op, outputs))


def versions():
    found = peer_cases.versions()
    if flashinfer is not None:
        found["flashinfer"] = flashinfer.__version__
    return found
