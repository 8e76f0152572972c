"""What torch offers for ops on tokens: rope at positions, norms of heads with it, and sampling. For peers.py."""

import torch

TABLE, DIMS, EPS = 16384, 128, 1e-6


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
    """As vLLM does it without kernels of its own; the random numbers are others."""
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


def token_cases(numbers, case_of, of):
    """`numbers`, the class Case and `of` are those of peers.py."""

    def tables(tokens):
        wide = {"dtype": torch.float32, "low": -1.0, "high": 1.0}
        cos, sin = numbers(TABLE, DIMS // 2, **wide), numbers(TABLE, DIMS // 2, **wide)
        return torch.randint(0, TABLE, (tokens,), device=cos.device), cos, sin

    def of_heads(op, tokens, formula, tensors, weights, outputs=()):
        def make():
            heads = [numbers(tokens, (32, 8)[i % 2], DIMS) for i in range(tensors)]
            of_weights = [numbers(DIMS, low=0.5, high=1.5) for _ in range(weights)]
            elements = (tensors // 2 + 1) * tokens * 40 * DIMS + (weights + len(outputs)) * DIMS
            bytes_ = 2 * elements + 8 * tokens + 4 * TABLE * DIMS
            return case_of(op, dims, bytes_, of(formula, *heads, *of_weights, *tables(tokens)), outputs)

        dims = (tokens, 32, DIMS)
        return op, dims, make, *outputs

    def of_sampling(rows, vocabulary, dtype, has_k, has_p):
        def make():
            logits = numbers(rows, vocabulary, dtype=dtype, low=-15.0, high=15.0)
            k = torch.full((rows,), 50, device=logits.device) if has_k else None
            p = torch.full((rows,), 0.9, device=logits.device) if has_p else None
            peers = {("torch", "its random numbers are others"): lambda: lambda: sample(logits, k, p)}
            bytes_ = logits.numel() * logits.element_size() + rows * (8 + 4 * has_k + 4 * has_p) + 16
            return case_of("sample_top_k_top_p", (rows, vocabulary), bytes_, peers)

        return "sample_top_k_top_p", (rows, vocabulary), make

    weight_grads = ("grad_query_weight", "grad_key_weight")
    return [
        of_heads("rope_qk_positions", 16384, rope, 2, 0),
        of_heads("rope_qk_positions", 64, rope, 2, 0),
        of_heads("rope_qk_positions_bwd", 16384, rope_backward, 2, 0),
        of_heads("qk_norm_rope", 16384, norm_and_rope, 2, 2),
        of_heads("qk_norm_rope", 64, norm_and_rope, 2, 2),
        of_heads("qk_norm_rope_bwd", 16384, norm_and_rope_backward, 4, 2, weight_grads),
        of_sampling(64, 128256, torch.bfloat16, True, True),
        of_sampling(128, 128256, torch.bfloat16, False, True),
        of_sampling(32, 128256, torch.bfloat16, False, False),
        of_sampling(1, 151936, torch.bfloat16, True, True),
        of_sampling(256, 128256, torch.float32, True, True),
    ]
