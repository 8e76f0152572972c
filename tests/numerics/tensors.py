"""Tensors as ops see them: rounded to a dtype, and written to .safetensors."""

import json
import struct
from typing import NamedTuple

import numpy as np

SAFETENSORS_NAMES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "f64": "F64", "i64": "I64", "i32": "I32", "u8": "U8"}
NUMPY_TYPES = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "i64": np.int64, "i32": np.int32, "u8": np.uint8}

INTEGERS = ("i64", "i32", "u8")


class Tensor(NamedTuple):
    dtype: str
    stored: np.ndarray  # what is in memory; bf16 as uint16
    values: np.ndarray  # what that means, in float64 (of an integer, itself)


def rounded(values, dtype):
    """Values rounded to the nearest that `dtype` can hold, ties to even."""
    values = np.asarray(values)
    if dtype == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        stored = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return Tensor(dtype, stored, (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
    stored = values.astype(NUMPY_TYPES[dtype])
    return Tensor(dtype, stored, stored if dtype in INTEGERS else stored.astype(np.float64))


def write_safetensors(path, tensors):
    """`tensors` maps names to Tensor."""
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
