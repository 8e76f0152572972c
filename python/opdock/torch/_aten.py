"""Routes torch's own ops of a whole program through opdock's, with torch's kernels as the last of each chain."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch

from ._ops import host, overload
from ._schema import FLOATS


@dataclass(frozen=True)
class _Rule:
    """An op of torch and the opdock op that replaces it."""

    ops: tuple[str, ...]
    # Returns None for a call that opdock's op does not compute.
    call: Callable[..., Any]


def _is_plain(*tensors: torch.Tensor) -> bool:
    first = tensors[0]
    return all(
        one.is_contiguous() and one.dtype == first.dtype and one.device == first.device and one.dtype in FLOATS
        for one in tensors
    )


def _unary(op: str) -> _Rule:
    def call(x: torch.Tensor) -> Any:
        return overload(op, False)(x) if _is_plain(x) else None

    return _Rule((op,), call)


def _silu_backward(grad: torch.Tensor, x: torch.Tensor) -> Any:
    return overload("silu_bwd", False)(grad, x) if _is_plain(grad, x) and grad.shape == x.shape else None


def _gelu(x: torch.Tensor, *, approximate: str = "none") -> Any:
    return overload("gelu", False)(x) if approximate == "tanh" and _is_plain(x) else None


def _gelu_backward(grad: torch.Tensor, x: torch.Tensor, *, approximate: str = "none") -> Any:
    fits = approximate == "tanh" and _is_plain(grad, x) and grad.shape == x.shape
    return overload("gelu_bwd", False)(grad, x) if fits else None


def _mm(a: torch.Tensor, b: torch.Tensor) -> Any:
    return overload("matmul", False)(a, b) if _is_plain(a, b) else None


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> Any:
    fits = x.dim() > 0 and dim in (-1, x.dim() - 1) and not half_to_float and _is_plain(x)
    return overload("scaled_softmax_fwd", False)(x) if fits else None


def _softmax_backward(grad: torch.Tensor, output: torch.Tensor, dim: int, input_dtype: torch.dtype) -> Any:
    fits = output.dim() > 0 and dim in (-1, output.dim() - 1) and _is_plain(grad, output)
    return overload("scaled_softmax_bwd", False)(grad, output) if fits and input_dtype == output.dtype else None


def _layer_norm(x: torch.Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    if len(shape) != 1 or weight is None or bias is None or not _is_plain(x, weight, bias):
        return None
    y, mean, rstd = overload("layernorm_fwd", True)(x, weight, bias, eps=eps)
    # Torch keeps statistics with a last dim of 1, and on the CPU in x's dtype.
    dtype = x.dtype if x.device.type == "cpu" else torch.float32
    return y, mean.unsqueeze(-1).to(dtype), rstd.unsqueeze(-1).to(dtype)


RULES: dict[str, _Rule] = {
    "silu": _unary("silu"),
    "silu_backward": _Rule(("silu_bwd",), _silu_backward),
    "gelu": _Rule(("gelu",), _gelu),
    "gelu_backward": _Rule(("gelu_bwd",), _gelu_backward),
    "relu": _unary("relu"),
    "mm": _Rule(("matmul",), _mm),
    "_softmax": _Rule(("scaled_softmax_fwd",), _softmax),
    "_softmax_backward_data": _Rule(("scaled_softmax_bwd",), _softmax_backward),
    "native_layer_norm": _Rule(("layernorm_fwd",), _layer_norm),
}


class Enabled:
    """The changes made by enable(). A context manager: leaving it undoes them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # device type
        self.calls: dict[str, int] = {}  # number of calls computed by opdock, by torch op
        self.others: dict[str, int] = {}  # number of calls left to torch, by torch op
        self.why: dict[str, str] = {}  # reason of the host's last refusal, by torch op
        self._library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]

    def undo(self) -> None:
        if self._library is not None:
            self._library._destroy()
            self._library = None
            live.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = []
        for name in self.calls:
            by = f"{self.calls[name]} by opdock, {self.others[name]} by torch"
            line = f"aten::{name} ({', '.join(RULES[name].ops)}): {by}"
            lines.append(line + (f"; the host last refused: {self.why[name]}" if name in self.why else ""))
        return "\n".join(lines)

    def _replace(self, name: str, key: str) -> None:
        rule, torchs = RULES[name], torch.library.get_kernel(f"aten::{name}", key)

        def kernel(keys: Any, *args: Any, **named: Any) -> Any:
            try:
                result = rule.call(*args, **named)
            except RuntimeError as error:
                if host().explain(rule.ops[0], str(args[0].device))["strict"]:
                    raise
                self.why[name], result = str(error), None
            if result is None:
                self.others[name] += 1
                return torchs.call_boxed(keys, *args, **named)
            self.calls[name] += 1
            return result

        self.calls[name] = self.others[name] = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a kernel that replaces another one
            self._library.impl(name, kernel, key, with_keyset=True)


live: list[Enabled] = []


def enable(
    ops: Iterable[str] | None = None, *, unused: Iterable[str] = (), device: str | torch.device = "cuda"
) -> Enabled:
    """Routes torch's own ops through opdock for the whole program, on one device type.

    `ops` and `unused` are names of torch's ops, such as "silu" or "_softmax"; by default, every op that opdock has a
    counterpart for. Torch's own kernel computes the calls that opdock's op does not compute (other dtypes,
    broadcasting, views that are not contiguous), and those that the host refuses if the policy is not strict. Returns
    the changes, which can be undone, also by using it as a context manager.
    """
    if isinstance(ops, str) or isinstance(unused, str):
        raise TypeError("ops and unused must be lists of names of torch's ops")
    names = list(RULES) if ops is None else list(dict.fromkeys(ops))
    left = set(unused)
    for name in [*names, *left]:
        if name not in RULES:
            raise ValueError(
                f"opdock has no counterpart of torch's op '{name}'; it has counterparts of {', '.join(RULES)}"
            )
    kind = torch.device(device).type
    keys = {"cpu": "CPU", "cuda": "CUDA", torch._C._get_privateuse1_backend_name(): "PrivateUse1"}
    if kind not in keys:
        raise ValueError(f"opdock does not serve torch's devices of type '{kind}'")
    taken = {(kind, name) for one in live for name in one.calls if one.kind == kind}
    if twice := [name for name in names if (kind, name) in taken and name not in left]:
        raise ValueError(f"'{twice[0]}' is already enabled for {kind}; undo that first")
    done = Enabled(kind)
    live.append(done)
    try:
        for name in names:
            if name not in left:
                done._replace(name, keys[kind])
    except BaseException:
        done.undo()
        raise
    return done
