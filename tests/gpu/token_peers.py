"""torch's ops on tokens, for peers.py and field.py: rope at positions, norms of heads with it, and sampling."""

import torch
from peer_cases import Case, numbers, of

TABLE, EPS = 16384, 1e-6


def rotated(x, positions, cos, sin, sign=1.0):
    a, b = x.float().chunk(2, -1)
    c, s = cos[positions][:, None], sign * sin[positions][:, None]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)


def rope(query, key, *tables):
    return rotated(query, *tables), rotated(key, *tables)


def rope_backward(query, key, *tables):
    return rotated(query, *tables, -1.0), rotated(key, *tables, -1.0)


def norm_and_rope(query, key, query_weight, key_weight, *tables):
    def norm(x, weight):
        wide = x.float()
        return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS) * weight.float()

    both = (rotated(norm(x, w), *tables).to(x.dtype) for x, w in ((query, query_weight), (key, key_weight)))
    return tuple(both)


def norm_and_rope_backward(query_grad, key_grad, query, key, query_weight, key_weight, *tables):
    results = []
    for grad, x, weight in ((query_grad, query, query_weight), (key_grad, key, key_weight)):
        wide, u = x.float(), rotated(grad.float(), *tables, -1.0)
        factor = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)
        y, v = wide * factor, u * weight.float()
        of_input = factor * (v - y * (v * y).mean(-1, keepdim=True))
        results += [of_input.to(x.dtype), (u * y).sum((0, 1)).to(weight.dtype)]
    return tuple(results)


def sample(logits, k, p):
    """Samples as vLLM does without its own kernels; the random numbers differ."""
    if k is None and p is None:
        probabilities = logits.softmax(-1, dtype=torch.float32)
        return probabilities.div_(torch.empty_like(probabilities).exponential_()).argmax(-1)
    sorted_logits, order = logits.float().sort(-1, descending=True)
    if k is not None:
        places = torch.arange(logits.shape[-1], device=logits.device)
        sorted_logits.masked_fill_(places >= k[:, None], -torch.inf)
    probabilities = sorted_logits.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    probabilities.masked_fill_(before >= p[:, None], 0)
    chosen = probabilities.div_(torch.empty_like(probabilities).exponential_()).argmax(-1, keepdim=True)
    return order.gather(-1, chosen)[:, 0]


FORMULAS = {  # the formula, the number of its tensors of heads and of its weights, and the optional outputs
    "rope_qk_positions": (rope, 2, 0, ()),
    "rope_qk_positions_bwd": (rope_backward, 2, 0, ()),
    "qk_norm_rope": (norm_and_rope, 2, 2, ()),
    "qk_norm_rope_bwd": (norm_and_rope_backward, 4, 2, ("grad_query_weight", "grad_key_weight")),
}


def head_case(op, tokens, heads=(32, 8), dims=128, dtype=torch.bfloat16):
    """A case with queries and keys of `heads` heads with `dims` elements each."""
    formula, tensors, weights, outputs = FORMULAS[op]
    shape = (tokens, heads[0], dims)

    def make():
        of_heads = [numbers(tokens, heads[i % 2], dims, dtype=dtype) for i in range(tensors)]
        of_weights = [numbers(dims, dtype=dtype, low=0.5, high=1.5) for _ in range(weights)]
        cos, sin = (numbers(TABLE, dims // 2, dtype=torch.float32, low=-1.0, high=1.0) for _ in range(2))
        inputs = *of_heads, *of_weights, torch.randint(0, TABLE, (tokens,), device=cos.device), cos, sin
        elements = (tensors // 2 + 1) * tokens * sum(heads) * dims + (weights + len(outputs)) * dims
        bytes_ = dtype.itemsize * elements + 8 * tokens + 4 * TABLE * dims
        return Case(op, shape, bytes_, inputs, of(formula, *inputs), outputs)

    return op, shape, make, *outputs


def sampling_case(rows, vocabulary, dtype, has_k, has_p):
    def make():
        logits = numbers(rows, vocabulary, dtype=dtype, low=-15.0, high=15.0)
        k = torch.full((rows,), 50, dtype=torch.int32, device=logits.device) if has_k else None
        p = torch.full((rows,), 0.9, device=logits.device) if has_p else None
        peers = {("torch", "its random numbers are others"): lambda: lambda: sample(logits, k, p)}
        bytes_ = logits.numel() * logits.element_size() + rows * (8 + 4 * has_k + 4 * has_p) + 16
        inputs = logits, torch.tensor([7, 0], device=logits.device), k, p
        return Case("sample_top_k_top_p", (rows, vocabulary), bytes_, inputs, peers)

    return "sample_top_k_top_p", (rows, vocabulary), make


def token_cases():
    return [
        head_case("rope_qk_positions", 16384),
        head_case("rope_qk_positions", 64),
        head_case("rope_qk_positions_bwd", 16384),
        head_case("qk_norm_rope", 16384),
        head_case("qk_norm_rope", 64),
        head_case("qk_norm_rope_bwd", 16384),
        sampling_case(64, 128256, torch.bfloat16, True, True),
        sampling_case(128, 128256, torch.bfloat16, False, True),
        sampling_case(32, 128256, torch.bfloat16, False, False),
        sampling_case(1, 151936, torch.bfloat16, True, True),
        sampling_case(256, 128256, torch.float32, True, True),
    ]
