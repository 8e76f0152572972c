"""Rotary position embedding: one program for each head of a token."""

import triton
import triton.language as tl


@triton.jit
def rope(input, freqs, output, b, h, d, r, interleaved: tl.constexpr, HALF: tl.constexpr, REST: tl.constexpr):
    token = tl.program_id(0)  # over all sequences
    place = (token.to(tl.int64) * h + tl.program_id(1)) * d
    pair = tl.arange(0, HALF)
    there = pair < r // 2
    first = pair * 2 if interleaved else pair
    second = first + 1 if interleaved else first + r // 2
    angles = freqs + (token // b).to(tl.int64) * r
    angle1 = tl.load(angles + first, there, other=0)
    angle2 = tl.load(angles + second, there, other=0)
    x = tl.load(input + place + first, there, other=0).to(tl.float32)
    y = tl.load(input + place + second, there, other=0).to(tl.float32)
    tl.store(output + place + first, (x * tl.cos(angle1) - y * tl.sin(angle1)).to(output.dtype.element_ty), there)
    tl.store(output + place + second, (y * tl.cos(angle2) + x * tl.sin(angle2)).to(output.dtype.element_ty), there)
    for start in range(r, d, REST):  # the dims that are not rotated
        at = start + tl.arange(0, REST)
        tl.store(output + place + at, tl.load(input + place + at, at < d), at < d)
