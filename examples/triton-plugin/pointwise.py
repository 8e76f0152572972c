"""The first step: elementwise kernels."""

import triton
import triton.language as tl


@triton.jit
def add(a, b, output, count, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    x = tl.load(a + at, there).to(tl.float32)
    y = tl.load(b + at, there).to(tl.float32)
    tl.store(output + at, (x + alpha * y).to(output.dtype.element_ty), there)


@triton.jit
def gelu(input, output, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    x = tl.load(input + at, there).to(tl.float32)
    # x / 2 * (1 + tanh(u)), as a sigmoid of 2 u.
    u2 = 1.5957691216057308 * x * (1 + 0.044715 * x * x)
    y = x * tl.sigmoid(u2)
    tl.store(output + at, y.to(output.dtype.element_ty), there)


@triton.jit
def silu_and_mul(gate, up, output, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    x = tl.load(gate + at, there).to(tl.float32)
    y = tl.load(up + at, there).to(tl.float32)
    tl.store(output + at, (x * tl.sigmoid(x) * y).to(output.dtype.element_ty), there)
