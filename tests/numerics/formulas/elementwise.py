"""The ops of opdock/ops/elementwise.h."""

import numpy as np

from tensors import fp8_codes, fp8_values

from .sums import total


def add(a, b, *, alpha=1.0):
    return {"output": total(a, alpha * b)}


def mul(a, b):
    return {"output": a * b}


WORD = np.uint64(0xFFFFFFFF)


def philox(counters, key):
    """Philox 4x32-10: counters are rows of four 32-bit words, the key is two."""
    a, b, c, d = (np.asarray(word, np.uint64) for word in counters)
    low_key, high_key = (int(word) for word in key)
    for _ in range(10):
        of_a, of_c = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        shift = np.uint64(32)
        a, b, c, d = (
            (of_c >> shift) ^ b ^ np.uint64(low_key),
            of_c & WORD,
            (of_a >> shift) ^ d ^ np.uint64(high_key),
            of_a & WORD,
        )
        low_key, high_key = (low_key + 0x9E3779B9) % 2**32, (high_key + 0xBB67AE85) % 2**32
    return np.stack([a, b, c, d], -1)


def halves_of(number):
    number = int(number) % 2**64
    return number % 2**32, number // 2**32


def dropout_fwd(input, rng_state, *, p):
    counters = np.arange(-(-input.size // 4), dtype=np.uint64)
    offset = (np.full(counters.shape, half, np.uint64) for half in halves_of(rng_state[1]))
    words = philox((counters & WORD, counters >> np.uint64(32), *offset), halves_of(rng_state[0]))
    kept = words.reshape(-1)[: input.size].reshape(input.shape) >= np.uint64(np.floor(p * 2**32 + 0.5))
    return {"output": dropout_bwd(input, kept, p=p)["grad_input"], "mask": kept.astype(np.uint8)}


def dropout_bwd(grad, mask, *, p):
    return {"grad_input": np.where(mask != 0, grad, 0) / (1 - p if p < 1 else 1)}


def quantize(input, scale, amax, *, dtype):
    product = (input * scale).astype(np.float32).astype(np.float64)
    quantized = {"output": fp8_values(fp8_codes(product, dtype), dtype)}
    if amax is not None:
        quantized["amax"] = np.maximum(amax, np.abs(input).max(initial=-np.inf))
    return quantized


def dequantize(input, scale_inv, *, dtype):
    return {"output": input * scale_inv}
