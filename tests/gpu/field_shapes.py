"""Shapes of real models, drawn by a seed: the same for the same seed, on any machine.

A shape is a class (small: up to 64 rows, as in decoding; middle: up to 512; large) and what its op's kind names:

    hidden, gated, logits   rows, elements of each
    heads                   tokens, query heads, key heads, elements of a head
    attention               sequences, positions, query heads, key heads, elements of a head
    decode                  sequences, keys of each, query heads, key heads, elements of a head, keys of a page
    product                 rows, outputs, inputs
    groups                  rows, groups, outputs, inputs
    experts                 tokens, experts, experts of a token
    routed                  tokens, elements of each, experts, experts of a token
    lookup                  tokens, elements of each, entries of the table
"""

import random
from typing import NamedTuple

HIDDEN = (768, 896, 1024, 1152, 1536, 1600, 2048, 2304, 2560, 2880, 3072, 3584, 4096, 4608, 5120, 6144, 6656, 7168)
HIDDEN += (8192, 9216, 12288, 16384, 18432)
INTERMEDIATE = (768, 1408, 2816, 2880, 3072, 4864, 5632, 6400, 6912, 8192, 8960, 9728, 10944, 11008, 12288, 13696)
INTERMEDIATE += (13824, 14336, 16384, 17408, 18432)
VOCABULARIES = (32000, 49152, 50257, 50304, 51865, 64000, 65024, 100352, 102400, 128256, 129280, 131072, 151669)
VOCABULARIES += (151936, 152064, 201088, 256000, 262144)
HEADS = (  # query heads, key heads, elements
    (12, 12, 64),
    (14, 2, 64),
    (16, 8, 128),
    (20, 20, 64),
    (24, 8, 128),
    (28, 4, 128),
    (32, 8, 64),
    (32, 8, 128),
    (32, 32, 96),
    (40, 8, 128),
    (64, 8, 64),
    (64, 8, 128),
    (8, 4, 256),
    (16, 8, 256),
)
EXPERTS = (  # experts, experts per token, hidden size, elements of each
    (8, 2, 4096, 14336),
    (32, 4, 2880, 2880),
    (60, 4, 2048, 1408),
    (64, 6, 2048, 1408),
    (64, 8, 2048, 1024),
    (128, 8, 2048, 768),
    (128, 8, 4096, 1536),
)
CLASSES = {"small": (1, 64), "middle": (65, 512), "large": (513, 65536)}

# The kind of each op's shapes, in the order of the table. After a "+" comes a requested optional output.
KINDS = {
    "rmsnorm_fwd": "hidden",
    "rmsnorm_bwd +grad_weight": "hidden",
    "fused_add_rmsnorm_fwd": "hidden",
    "layernorm_fwd": "hidden",
    "layernorm_bwd +grad_weight +grad_bias": "hidden",
    "gelu": "gated",
    "gelu_bwd": "gated",
    "silu": "gated",
    "silu_and_mul": "gated",
    "silu_and_mul_bwd": "gated",
    "gelu_and_mul": "gated",
    "gelu_and_mul_bwd": "gated",
    "add": "hidden",
    "dropout_fwd": "hidden",
    "scaled_softmax_fwd": "hidden",
    "scaled_softmax_bwd": "hidden",
    "log_softmax_fwd": "logits",
    "cross_entropy_fwd": "logits",
    "cross_entropy_bwd": "logits",
    "fused_cross_entropy": "logits",
    "topk": "logits",
    "fused_rope_qk_fwd": "heads",
    "rope_qk_positions": "heads",
    "qk_norm_rope": "heads",
    "embedding": "lookup",
    "topk_softmax_fwd": "experts",
    "moe_permute": "routed",
    "moe_unpermute": "routed",
    "quantize_per_token": "hidden",
    "rmsnorm_quantize": "hidden",
    "attention_fwd": "attention",
    "attention_bwd": "attention",
    "attention_decode": "decode",
    "linear_fwd": "product",
    "linear_fp8": "product",
    "grouped_linear_fwd": "groups",
}
DTYPES = ("bf16", "f16", "f32")

# Limits for the elements of a tensor, and for the multiplications of a product.
MOST_ELEMENTS, MOST_LOGITS, MOST_CACHE, MOST_PRODUCTS = 1 << 27, 1 << 28, 1 << 29, 1 << 37


class Shape(NamedTuple):
    of_class: str
    dims: tuple[int, ...]

    def __str__(self):
        return "x".join(map(str, self.dims))


def rows(generator, of_class, most):
    """A number of rows of the class, at most `most` if the class has numbers that small; half are round numbers."""
    low, high = CLASSES[of_class]
    high = max(low, min(high, most))
    count = round(2 ** generator.uniform(low.bit_length() - 1, high.bit_length()))
    if generator.random() < 0.5:
        step = {"small": 4, "middle": 32, "large": 256}[of_class]
        count = max(1, count // step) * step
    return min(max(count, low), high)


def draw(generator, kind, of_class):
    choose = generator.choice
    if kind in ("hidden", "gated", "logits"):
        widths, most = {
            "hidden": (HIDDEN, MOST_ELEMENTS),
            "gated": (INTERMEDIATE, MOST_ELEMENTS),
            "logits": (VOCABULARIES, MOST_LOGITS),
        }[kind]
        n = choose(widths)
        return rows(generator, of_class, most // n), n
    if kind in ("heads", "attention", "decode"):
        query_heads, key_heads, elements = heads = choose(HEADS)
        if kind == "heads":
            return rows(generator, of_class, MOST_ELEMENTS // (query_heads * elements)), *heads
        if kind == "decode":
            page, keys = choose((16, 32, 64)), round(2 ** generator.uniform(7, 15))
            keys = min(keys, MOST_CACHE // (CLASSES[of_class][0] * key_heads * elements))
            return rows(generator, of_class, MOST_CACHE // (keys * key_heads * elements)), keys, *heads, page
        tokens = rows(generator, of_class, MOST_ELEMENTS // (query_heads * elements))
        while tokens**2 * query_heads * elements > MOST_PRODUCTS * 4:
            tokens //= 2
        sequences = choose([count for count in (1, 1, 2, 4) if tokens // count > 1] or [1])
        return sequences, max(2, tokens // sequences), *heads
    if kind == "product":
        hidden, inner = choose(HIDDEN[:16]), choose(INTERMEDIATE)
        n, k = choose(((inner, hidden), (hidden, inner), (hidden, hidden)))
        n, k = n // 16 * 16, k // 16 * 16
        return rows(generator, of_class, max(1, MOST_PRODUCTS // (n * k))), n, k
    if kind == "lookup":
        n = choose(HIDDEN[:16])
        return rows(generator, of_class, MOST_ELEMENTS // n), n, choose(VOCABULARIES[:6])
    experts, of_token, hidden, inner = choose(EXPERTS)
    if kind == "groups":
        n, k = choose(((inner, hidden), (hidden, inner)))
        tokens = rows(generator, of_class, max(1, MOST_PRODUCTS // (n * k * of_token)))
        return tokens * of_token, experts, n, k
    tokens = rows(generator, of_class, MOST_ELEMENTS // (hidden * of_token))
    return (tokens, experts, of_token) if kind == "experts" else (tokens, hidden, experts, of_token)


def shapes(op, seed, count=24):
    """A third of the shapes for each class, in turn."""
    generator = random.Random(f"{seed} {op}")
    classes = list(CLASSES)
    found = []
    for i in range(count):
        of_class = classes[i % len(classes)]
        found.append(Shape(of_class, draw(generator, KINDS[op], of_class)))
    return found
