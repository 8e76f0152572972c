"""Tensors as ops see them: rounded to a dtype and written to .safetensors."""

import json
import struct
from typing import NamedTuple

import numpy as np

SAFETENSORS_NAMES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "f64": "F64", "i64": "I64", "i32": "I32", "u8": "U8", "i8": "I8"}
SAFETENSORS_NAMES |= {"e4m3": "F8_E4M3", "e5m2": "F8_E5M2"}
NUMPY_TYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64}
NUMPY_TYPES |= {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}

INTEGERS = ("i64", "i32", "i8", "u8")


class Tensor(NamedTuple):
    dtype: str
    stored: np.ndarray  # bits in memory; bf16 as uint16, fp8 as uint8
    values: np.ndarray  # their values in float64 (integers as they are)


class Fp8(NamedTuple):
    mantissa_bits: int
    bias: int
    largest: float


FP8 = {"e4m3": Fp8(3, 7, 448.0), "e5m2": Fp8(2, 15, 57344.0)}


def fp8_values(codes, dtype):
    """The values of the codes of an fp8 type."""
    mantissa_bits, bias, largest = FP8[dtype]
    magnitudes = np.arange(128)
    exponents, mantissas = magnitudes >> mantissa_bits, magnitudes & (2**mantissa_bits - 1)
    values = np.ldexp(mantissas + 2.0**mantissa_bits * (exponents > 0), np.maximum(exponents, 1) - bias - mantissa_bits)
    values[values > largest] = np.nan
    if dtype == "e5m2":
        values[0x7C] = np.inf
    return np.concatenate([values, -values])[codes]


def fp8_codes(values, dtype):
    """The nearest codes, ties to even; values beyond the largest are clamped to it."""
    mantissa_bits, bias, largest = FP8[dtype]
    magnitudes = np.minimum(np.nan_to_num(np.abs(values), nan=0.0, posinf=largest), largest)
    exponents = np.where(magnitudes > 0, np.maximum(np.frexp(magnitudes)[1] - 1, 1 - bias), 1 - bias)
    # In units of the last place. A mantissa that rounds up to the next power of two carries into the exponent.
    units = np.rint(np.ldexp(magnitudes, mantissa_bits - exponents)).astype(np.int64)
    codes = np.where(np.isnan(values), 0x7F, units + ((exponents + bias - 1) << mantissa_bits))
    return (codes + 128 * np.signbit(values)).astype(np.uint8)


def rounded(values, dtype):
    """Values rounded to the nearest ones that `dtype` can represent, ties to even."""
    values = np.asarray(values)
    if dtype in FP8:
        codes = fp8_codes(values, dtype)
        return Tensor(dtype, codes, fp8_values(codes, dtype))
    if dtype == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        stored = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return Tensor(dtype, stored, (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
    stored = values.astype(NUMPY_TYPES[dtype])
    return Tensor(dtype, stored, stored if dtype in INTEGERS else stored.astype(np.float64))


def write_safetensors(path, tensors):
    """Writes `tensors`, a dict of names and Tensors."""
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": SAFETENSORS_NAMES[tensor.dtype],
            "shape": tensor.stored.shape,
            "data_offsets": [offset, offset + tensor.stored.nbytes],
        }
        offset += tensor.stored.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor.stored).tobytes())
