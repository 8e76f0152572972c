"""The second step: kernels that reduce rows of n elements."""

import triton
import triton.language as tl


@triton.jit
def _weight(weight, at, there, gamma):
    return tl.load(weight + at, there, other=0).to(tl.float32) + gamma


# A row is one block, so it is read once; BLOCK is at least n.
@triton.jit
def rmsnorm_fwd(input, weight, output, rsigma, n, eps, gamma, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    there = at < n
    x = tl.load(input + row * n + at, there, other=0).to(tl.float32)
    r = 1 / tl.sqrt(tl.sum(x * x) / tl.maximum(n, 1) + eps)
    y = x * r * _weight(weight, at, there, gamma)
    tl.store(output + row * n + at, y.to(output.dtype.element_ty), there)
    if rsigma is not None:
        tl.store(rsigma + row, r)


# Each program processes every PROGRAMS-th row, and writes one row of sums for grad_weight.
@triton.jit
def rmsnorm_bwd(
    grad,
    input,
    rsigma,
    weight,
    grad_input,
    sums,
    rows,
    n,
    programs,
    gamma,
    with_sums: tl.constexpr,
    BLOCK: tl.constexpr,
):
    program = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    there = at < n
    g = _weight(weight, at, there, gamma)
    sum_of_weight = tl.zeros((BLOCK,), tl.float32)
    for row in range(program, rows, programs):
        place = row.to(tl.int64) * n + at
        dy = tl.load(grad + place, there, other=0).to(tl.float32)
        r = tl.load(rsigma + row)
        x = tl.load(input + place, there, other=0).to(tl.float32) * r
        d = g * dy
        dx = r * (d - x * (tl.sum(d * x) / n))
        tl.store(grad_input + place, dx.to(grad_input.dtype.element_ty), there)
        sum_of_weight += dy * x
    if with_sums:
        tl.store(sums + program.to(tl.int64) * n + at, sum_of_weight, there)


@triton.jit
def sum_columns(sums, output, rows, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        there = (row < rows)[:, None] & (column < n)[None, :]
        total += tl.load(sums + row[:, None].to(tl.int64) * n + column[None, :], there, other=0)
    result = tl.sum(total, axis=0)
    tl.store(output + column, result.to(output.dtype.element_ty), column < n)


# From here on, a row may be longer than a block.
@triton.jit
def layernorm_fwd(input, weight, bias, output, mu, rsigma, n, eps, gamma, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(input + row * n + at, at < n, other=0).to(tl.float32)
    mean = tl.sum(total) / tl.maximum(n, 1)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(input + row * n + at, at < n, other=0).to(tl.float32)
        x = tl.where(at < n, x - mean, 0)
        squares += x * x
    r = 1 / tl.sqrt(tl.sum(squares) / tl.maximum(n, 1) + eps)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        there = at < n
        x = tl.load(input + row * n + at, there, other=0).to(tl.float32)
        b = tl.load(bias + at, there, other=0).to(tl.float32)
        y = (x - mean) * r * _weight(weight, at, there, gamma) + b
        tl.store(output + row * n + at, y.to(output.dtype.element_ty), there)
    if mu is not None:
        tl.store(mu + row, mean)
    if rsigma is not None:
        tl.store(rsigma + row, r)


# Returns the largest element of a row, times scale, and the sum of exp(scale * x - largest): one pass, which rescales
# the sum when a block has a larger element.
@triton.jit
def _maximum_and_sum(row, n, scale, BLOCK: tl.constexpr):
    largest = -float("inf")
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(row + at, at < n, other=0).to(tl.float32)
        x = tl.where(at < n, x * scale, -float("inf"))
        new = tl.maximum(largest, tl.max(x, axis=0))
        # While only -inf has been seen, the difference would be NaN.
        finite = tl.where(new == -float("inf"), 0.0, new)
        total = total * tl.exp(largest - finite) + tl.exp(x - finite)
        largest = new
    return largest, tl.sum(total)


@triton.jit
def softmax(input, output, k, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest, total = _maximum_and_sum(input + row * k, k, scale, BLOCK)
    for start in range(0, k, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(input + row * k + at, at < k, other=0).to(tl.float32)
        x = tl.where(at < k, x * scale, 0)  # rounded as above, not fused with the difference
        tl.store(output + row * k + at, (tl.exp(x - largest) / total).to(output.dtype.element_ty), at < k)


@triton.jit
def cross_entropy(
    logits,
    target,
    loss,
    lse,
    v,
    ignore_index,
    label_smoothing,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    largest, total = _maximum_and_sum(logits + row * v, v, 1.0, BLOCK)
    log_sum = largest + tl.log(total)
    if lse is not None:
        tl.store(lse + row, log_sum)
    class_ = tl.load(target + row)
    counts = class_ != ignore_index
    x = tl.load(logits + row * v + class_, counts, other=0).to(tl.float32)
    result = log_sum - (1 - label_smoothing) * x
    if label_smoothing != 0:
        values = tl.zeros((BLOCK,), tl.float32)
        for start in range(0, v, BLOCK):
            at = start + tl.arange(0, BLOCK)
            values += tl.load(logits + row * v + at, at < v, other=0).to(tl.float32)
        result -= label_smoothing * (tl.sum(values) / v)
    tl.store(loss + row, tl.where(counts, result, 0))
