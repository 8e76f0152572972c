"""The ops of opdock/ops/attention.h."""

import numpy as np

from .cases import Op, Special
from .sums import Sum


def sequences_of(query, key, query_starts, key_starts):
    """(batch, slice of queries, slice of keys) for each sequence."""
    if query_starts is None:
        return [(b, slice(0, query.shape[1]), slice(0, key.shape[1])) for b in range(query.shape[0])]
    return [
        (0, slice(query_starts[i], query_starts[i + 1]), slice(key_starts[i], key_starts[i + 1]))
        for i in range(len(query_starts) - 1)
    ]


def seen(queries, keys, causal, window_left, window_right):
    position = np.arange(queries)[:, None] + keys - queries
    j = np.arange(keys)[None, :]
    sees = np.ones((queries, keys), bool)
    if causal:
        sees &= j <= position
    if window_left >= 0:
        sees &= j >= position - window_left
    if window_right >= 0:
        sees &= j <= position + window_right
    return sees


def attend(query, key, value, bias, sees, scale, soft_cap):
    """For one head: output, lse, the weights, and the scores without the bias."""
    y = scale * query @ key.T
    if soft_cap > 0:
        y = soft_cap * np.tanh(y / soft_cap)
    z = np.where(sees, y if bias is None else y + bias, -np.inf)
    largest = z.max(-1, initial=-np.inf)
    some = largest > -np.inf
    e = np.exp(z - np.where(some, largest, 0)[:, None])
    total = e.sum(-1)
    with np.errstate(divide="ignore"):  # log(0) if no key is visible
        lse = np.where(some, largest + np.log(total), -np.inf)
    weights = e / np.where(some, total, 1)[:, None]
    return weights @ value, lse, weights, y


def default_scale(scale, depth):
    return (depth**-0.5 if depth else 1.0) if scale is None else scale


def attention_fwd(
    query,
    key,
    value,
    bias=None,
    query_starts=None,
    key_starts=None,
    *,
    scale=None,
    causal=False,
    window_left=-1,
    window_right=-1,
    soft_cap=0.0,
):
    b, s, h, d = query.shape
    output = np.zeros((b, s, h, value.shape[3]))
    lse = np.full((b, h, s), -np.inf)
    for batch, q, k in sequences_of(query, key, query_starts, key_starts):
        sees = seen(q.stop - q.start, k.stop - k.start, causal, window_left, window_right)
        for head in range(h):
            g = head // (h // key.shape[2])
            part = None if bias is None else bias[batch, head, q, k]
            output[batch, q, head], lse[batch, head, q], _, _ = attend(
                query[batch, q, head],
                key[batch, k, g],
                value[batch, k, g],
                part,
                sees,
                default_scale(scale, d),
                soft_cap,
            )
    return {"output": output, "lse": lse}


def attention_bwd(
    grad,
    query,
    key,
    value,
    output,
    lse,
    bias=None,
    query_starts=None,
    key_starts=None,
    *,
    scale=None,
    causal=False,
    window_left=-1,
    window_right=-1,
    soft_cap=0.0,
):
    b, s, h, d = query.shape
    by = default_scale(scale, d)
    grad_query, grad_key, grad_value = np.zeros(query.shape), np.zeros(key.shape), np.zeros(value.shape)
    grad_bias = np.zeros((b, h, s, key.shape[1]))
    # The gradients are differences: the size of their terms determines the accuracy that can be expected.
    query_terms, key_terms, bias_terms = np.zeros(query.shape), np.zeros(key.shape), np.zeros(grad_bias.shape)
    for batch, q, k in sequences_of(query, key, query_starts, key_starts):
        sees = seen(q.stop - q.start, k.stop - k.start, causal, window_left, window_right)
        for head in range(h):
            g = head // (h // key.shape[2])
            part = None if bias is None else bias[batch, head, q, k]
            _, _, _, y = attend(
                query[batch, q, head], key[batch, k, g], value[batch, k, g], part, sees, by, soft_cap
            )
            some = lse[batch, head, q] > -np.inf
            z = np.where(sees & some[:, None], y if part is None else y + part, -np.inf)
            weights = np.exp(np.minimum(z - np.where(some, lse[batch, head, q], 0)[:, None], 0))
            products = grad[batch, q, head] @ value[batch, k, g].T
            projection = (grad[batch, q, head] * output[batch, q, head]).sum(-1)[:, None]
            slopes, size = weights * (products - projection), weights * (abs(products) + abs(projection))
            grad_bias[batch, head, q, k], bias_terms[batch, head, q, k] = slopes, size
            factor = by * (1 - (y / soft_cap) ** 2 if soft_cap > 0 else 1)
            grad_query[batch, q, head] = (slopes * factor) @ key[batch, k, g]
            query_terms[batch, q, head] = (size * abs(factor)) @ abs(key[batch, k, g])
            grad_key[batch, k, g] += (slopes * factor).T @ query[batch, q, head]
            key_terms[batch, k, g] += (size * abs(factor)).T @ abs(query[batch, q, head])
            grad_value[batch, k, g] += weights.T @ grad[batch, q, head]
    sized = lambda sums, terms: Sum(sums, float(np.linalg.norm(np.ravel(terms))))
    return {
        "grad_query": sized(grad_query, query_terms),
        "grad_key": sized(grad_key, key_terms),
        "grad_value": grad_value,
        "grad_bias": sized(grad_bias, bias_terms),
    }


def attention_decode(
    query, key_cache, value_cache, block_table, lengths, *, scale=None, window_left=-1, soft_cap=0.0
):
    b, h, d = query.shape
    output, lse = np.zeros((b, h, value_cache.shape[3])), np.full((b, h), -np.inf)
    for i in range(b):
        n = lengths[i]
        of_pages = lambda cache: cache[block_table[i]].reshape(-1, *cache.shape[2:])[:n]
        one = attention_fwd(
            query[i][None, None],
            of_pages(key_cache)[None],
            of_pages(value_cache)[None],
            scale=default_scale(scale, d),
            causal=True,
            window_left=window_left,
            soft_cap=soft_cap,
        )
        output[i], lse[i] = one["output"][0, 0], one["lse"][0, :, 0]
    return {"output": output, "lse": lse}


def kv_cache_append(key_cache, value_cache, key, value, slots):
    changed = {"key_cache": key_cache.copy(), "value_cache": value_cache.copy()}
    tokens = key_cache.shape[1]
    for i, slot in enumerate(slots):
        if slot >= 0:
            changed["key_cache"][slot // tokens, slot % tokens] = key[i]
            changed["value_cache"][slot // tokens, slot % tokens] = value[i]
    return changed


# --- cases ---


# b, s, k, h, g, d, e. Includes sizes beyond the CPU plugin's blocks of 64 queries and 256 keys, and cases without
# queries, keys, heads or elements.
ATTENTION_SHAPES = [
    (2, 3, 5, 4, 2, 3, 2),
    (1, 70, 300, 2, 1, 24, 16),
    (1, 1, 1, 1, 1, 1, 1),
    (2, 7, 3, 3, 3, 5, 9),
    (2, 5, 17, 4, 2, 8, 6),
    (1, 130, 130, 2, 2, 16, 16),
    (1, 3, 0, 2, 1, 4, 4),
    (1, 0, 3, 2, 1, 4, 4),
    (0, 2, 3, 2, 2, 4, 4),
    (1, 2, 3, 0, 2, 4, 4),
    (1, 2, 3, 2, 1, 0, 4),
    (1, 2, 3, 2, 1, 4, 0),
]
ATTENTION_ATTRIBUTES = [
    {},
    {"causal": True},
    {"scale": 0.3, "window_left": 2},
    {"window_left": 1, "window_right": 3, "soft_cap": 2.5},
    {"causal": True, "soft_cap": 1.0, "window_left": 0},
]


def draw_attention(draw, shape, attributes):
    b, s, k, h, g, d, e = shape
    return {
        "query": draw("T", b, s, h, d),
        "key": draw("T", b, k, g, d),
        "value": draw("T", b, k, g, e),
        "bias": draw("T", b, h, s, k),
        "query_starts": None,
        "key_starts": None,
    }


def with_gradients(draw, inputs, attributes):
    saved = attention_fwd(
        **{name: None if tensor is None else tensor.values for name, tensor in inputs.items()}, **attributes
    )
    return {
        "grad": draw("T", *saved["output"].shape),
        **{name: inputs[name] for name in ("query", "key", "value")},
        "output": draw.rounded("T", saved["output"]),
        "lse": draw.rounded("f32", saved["lse"]),
        **{name: inputs[name] for name in ("bias", "query_starts", "key_starts")},
    }


def draw_attention_bwd(draw, shape, attributes):
    return with_gradients(draw, draw_attention(draw, shape, attributes), attributes)


def draw_packed(draw):
    """Three sequences, one of them without queries, and tokens that belong to no sequence."""
    inputs = draw_attention(draw, PACKED, {})
    starts = {"query_starts": [0, 70, 70, 85], "key_starts": [0, 80, 83, 100]}
    return {**inputs, **{name: draw.rounded("i32", value) for name, value in starts.items()}}


def draw_hidden(draw):
    """A bias hides some keys, and for one query all of them."""
    inputs = draw_attention(draw, (1, 4, 9, 2, 1, 8, 8), {})
    bias = np.where(draw.rng.random((1, 2, 4, 9)) < 0.4, -np.inf, inputs["bias"].values)
    bias[0, 1, 2] = -np.inf
    return {**inputs, "bias": draw.rounded("T", bias)}


def wrong_starts(draw):
    return {**draw_packed(draw), "key_starts": draw.rounded("i32", [0, 80, 79, 100])}


def odd_heads(draw):
    return draw_attention(draw, ODD_HEADS, {})


def one_start(draw):
    return {**draw_packed(draw), "key_starts": None}


def outputs_of(b, s, k, h, g, d, e):
    """The shapes of the outputs, forward and backward."""
    grads = {"grad_query": (b, s, h, d), "grad_key": (b, k, g, d), "grad_value": (b, k, g, e)}
    return {"output": (b, s, h, e), "lse": (b, h, s), **grads, "grad_bias": (b, h, s, k)}


def fails(label, draw, shape, message, **others):
    return Special(label, draw, "INVALID_ARGUMENT", message, shapes=outputs_of(*shape), **others)


PACKED = (1, 90, 110, 4, 2, 8, 6)
ODD_HEADS = (1, 2, 3, 5, 2, 4, 4)
SPECIAL = [
    Special("packed sequences", draw_packed, attributes={"causal": True}),
    Special("packed sequences with a window", draw_packed, attributes={"window_left": 3, "soft_cap": 4.0}),
    Special("hidden by the bias", draw_hidden),
    fails("starts that fall", wrong_starts, PACKED, "key_starts"),
    fails("heads that are no multiple", odd_heads, ODD_HEADS, "h%g", refused=True),
    fails("starts of queries alone", one_start, PACKED, "key_starts", refused=True),
]


def of_backward(special):
    def draw_all(draw):
        inputs = special.draw(draw)
        if special.status == "OK":
            return with_gradients(draw, inputs, special.attributes)
        b, s, h, _ = inputs["query"].stored.shape
        output = draw("T", b, s, h, inputs["value"].stored.shape[3])
        rest = {name: inputs[name] for name in ("bias", "query_starts", "key_starts")}
        first = {name: inputs[name] for name in ("query", "key", "value")}
        return {"grad": output, **first, "output": output, "lse": draw("f32", b, h, s), **rest}

    return special._replace(draw=draw_all)


# b, h, g, d, e, pages, tokens per page, pages per sequence
DECODE_SHAPES = [
    (3, 4, 2, 8, 6, 9, 4, 5),
    (2, 6, 1, 64, 64, 40, 16, 20),
    (1, 1, 1, 1, 1, 1, 1, 1),
    (2, 2, 2, 4, 4, 3, 300, 1),
    (0, 2, 1, 4, 4, 2, 2, 2),
    (2, 0, 1, 4, 4, 2, 2, 2),
]


DECODED = {"output": (3, 4, 6), "lse": (3, 4)}


def draw_decode(draw, shape, attributes):
    b, h, g, d, e, p, t, m = shape
    lengths = draw.rng.integers(0, m * t + 1, b)
    lengths[:1] = m * t
    lengths[1:2] = 0
    return {
        "query": draw("T", b, h, d),
        "key_cache": draw("T", p, t, g, d),
        "value_cache": draw("T", p, t, g, e),
        "block_table": draw.rounded("i32", draw.rng.integers(0, p, (b, m))),
        "lengths": draw.rounded("i32", lengths),
    }


def wrong_page(draw):
    return {**draw_decode(draw, DECODE_SHAPES[0], {}), "block_table": draw.rounded("i32", np.full((3, 5), 9))}


def too_long(draw):
    return {**draw_decode(draw, DECODE_SHAPES[0], {}), "lengths": draw.rounded("i32", [20, 3, 21])}


# n, g, d, e, pages, tokens per page
APPEND_SHAPES = [(5, 2, 8, 6, 4, 3), (1, 1, 1, 1, 1, 1), (0, 2, 4, 4, 2, 2), (3, 0, 4, 4, 2, 2), (3, 2, 0, 4, 2, 2)]


def draw_append(draw, shape, attributes):
    n, g, d, e, p, t = shape
    slots = draw.rng.permutation(p * t)[:n]
    slots[2:3] = -1
    return {
        "key_cache": draw("T", p, t, g, d),
        "value_cache": draw("T", p, t, g, e),
        "key": draw("T", n, g, d),
        "value": draw("T", n, g, e),
        "slots": draw.rounded("i64", slots),
    }


def wrong_slot(draw):
    return {**draw_append(draw, APPEND_SHAPES[0], {}), "slots": draw.rounded("i64", [0, 1, 2, 12, 4])}


OPS = {
    "attention_fwd": Op(
        draw_attention,
        {"output": "T", "lse": "f32"},
        ATTENTION_SHAPES,
        ATTENTION_ATTRIBUTES,
        optional=("bias", "lse"),
        within={"lse": "T"},
        special=SPECIAL,
    ),
    "attention_bwd": Op(
        draw_attention_bwd,
        {"grad_query": "T", "grad_key": "T", "grad_value": "T", "grad_bias": "T"},
        ATTENTION_SHAPES,
        ATTENTION_ATTRIBUTES,
        optional=("grad_bias",),
        special=[of_backward(special) for special in SPECIAL],
    ),
    "attention_decode": Op(
        draw_decode,
        {"output": "T", "lse": "f32"},
        DECODE_SHAPES,
        [{}, {"scale": 0.2}, {"window_left": 3, "soft_cap": 2.0}],
        optional=("lse",),
        special=[
            Special("a page that the cache lacks", wrong_page, "INVALID_ARGUMENT", "block_table", shapes=DECODED),
            Special("a sequence past its pages", too_long, "INVALID_ARGUMENT", "lengths", shapes=DECODED),
        ],
    ),
    "kv_cache_append": Op(
        draw_append,
        {},
        APPEND_SHAPES,
        changed={"key_cache": "T", "value_cache": "T"},
        special=[Special("a slot past the cache", wrong_slot, "INVALID_ARGUMENT", "slots")],
    ),
}
