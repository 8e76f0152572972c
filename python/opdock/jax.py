"""opdock's ops in JAX: jit, gradients, CPUs and GPUs.

import opdock.jax
y = opdock.jax.rmsnorm_fwd(x, weight, eps=1e-6)
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import Host, _native
from ._gradients import Formula, formula_of
from ._signature import Parameter, Signature

_DTYPES = {name: getattr(jnp, elsewhere) for name, elsewhere in _native._dtypes().items() if hasattr(jnp, elsewhere)}

_signatures: dict[str, Signature] = {}
_formulas: dict[str, Formula | None] = {}  # by op; None if no op computes the gradients


@functools.cache
def host() -> Host:
    """The host whose ops are available in JAX."""
    return Host()


def register() -> None:
    """Registers all ops of the host, including those of plugins loaded since."""
    for one in host().describe()["ops"]:
        op = host().op(one["op"])
        _signatures[one["op"]] = Signature(op.parsed_signature())
        op._keep_for_jax()
    _formulas.update((name, formula_of(one, _signatures)) for name, one in _signatures.items())
    _differentiable.cache_clear()


def _dtype_name(value: Any) -> str:
    if isinstance(value, str):
        return value
    dtype = np.dtype(value)
    return next(name for name, own in _DTYPES.items() if np.dtype(own) == dtype)


def _expect(condition: Any, wrong: str) -> None:
    if not condition:
        raise ValueError(wrong)


def _attributes(signature: Signature, named: Mapping[str, Any]) -> dict[str, Any]:
    """All attributes, including defaults, as XLA takes them; None if one is absent."""
    known = {one.name for one in signature.attributes}
    if unknown := set(named) - known:
        raise TypeError(f"{signature.op}: it has no input and no attribute '{min(unknown)}'\n  {signature.text}")
    result = {}
    for one in signature.attributes:
        value = named.get(one.name, one.default)
        if one.type not in _XLA_TYPES:
            raise ValueError(f"{signature.op}: attribute '{one.name}' is a list of strings, which XLA does not support")
        if value is None and not one.optional:
            raise TypeError(f"{signature.op}: attribute '{one.name}' is missing\n  {signature.text}")
        result[one.name] = tuple(value) if isinstance(value, (list, np.ndarray)) else value
        if one.type == "dtype":
            result[one.name] = _dtype_name(value)
    return result


_XLA_TYPES: dict[str, Callable[[Any], Any]] = {
    "float": np.float64,
    "int": np.int64,
    "bool": np.bool_,
    "string": str,
    "dtype": str,
    "float[]": lambda values: np.array(values, np.float64),
    "int[]": lambda values: np.array(values, np.int64),
}


def _flat(parameters: list[Parameter], values: list[Any]) -> list[Any]:
    return [
        one
        for parameter, value in zip(parameters, values, strict=True)
        if value is not None
        for one in (value if parameter.is_list else [value])
    ]


def _spec(like: Any) -> Any:
    return jax.ShapeDtypeStruct(like.shape, like.dtype)  # type: ignore[no-untyped-call]


def _count(parameter: Parameter, value: Any) -> int:
    return 0 if value is None else len(value) if parameter.is_list else 1


def _plain_call(signature: Signature, inputs: list[Any], attributes: Mapping[str, Any], all_outputs: bool) -> list[Any]:
    """Returns the requested outputs, followed by the new values of inputs that the op writes."""
    if any(one.host for one in [*signature.inputs, *signature.outputs]):
        raise ValueError(
            f"{signature.op}: it takes tensors of the host, which JAX does not provide\n  {signature.text}"
        )
    own = {name: _DTYPES.get(value, value) if isinstance(value, str) else value for name, value in attributes.items()}
    inferred = signature.infer(inputs, own, all_outputs, _DTYPES, _expect)
    outputs = signature.wanted(all_outputs)
    given = [_count(parameter, value) for parameter, value in zip(signature.inputs, inputs, strict=True)]
    wanted = {one.name: _count(one, spec) for one, spec in zip(outputs, inferred, strict=True)}
    given += [wanted.get(one.name, 0) for one in signature.outputs]

    flat = _flat(signature.inputs, inputs)
    specs = [_spec(one) for one in _flat(outputs, inferred)]
    written: list[Any] = []
    aliases, at = {}, 0
    for parameter, value in zip(signature.inputs, inputs, strict=True):
        for _ in range(_count(parameter, value)):
            if parameter.mut:
                aliases[at] = len(specs) + len(written)
                written.append(_spec(flat[at]))
            at += 1
    types = {one.name: one.type for one in signature.attributes}
    call = jax.ffi.ffi_call("opdock", [*specs, *written], input_output_aliases=aliases, vmap_method="sequential")
    results = list(
        call(
            *flat,
            **{
                "opdock.op": signature.op,
                "opdock.given": ",".join(map(str, given)),
                **{name: _XLA_TYPES[types[name]](value) for name, value in attributes.items() if value is not None},
            },
        )
    )

    def next_of(parameter: Parameter, count: int) -> Any:
        values = [results.pop(0) for _ in range(count)]
        return values if parameter.is_list else values[0]

    answer = [next_of(one, wanted[one.name]) for one in outputs]
    for parameter, value in zip(signature.inputs, inputs, strict=True):
        if parameter.mut and value is not None:
            answer.append(next_of(parameter, _count(parameter, value)))
    return answer


def _call(op: str, named: dict[str, Any], all_outputs: bool) -> dict[str, Any]:
    signature = _signatures[op]
    inputs = [named.pop(one.name, None) for one in signature.inputs]
    values = _plain_call(signature, inputs, _attributes(signature, named), all_outputs)
    return dict(zip([one.name for one in signature.wanted(all_outputs)], values, strict=False))


@functools.cache
def _differentiable(op: str, all_outputs: bool, frozen: tuple[tuple[str, Any], ...], absent: frozenset[str]) -> Any:
    """The op as a function of its present inputs, with the gradients of its formula."""
    signature, formula, attributes = _signatures[op], _formulas[op], dict(frozen)
    assert formula is not None
    names = [one.name for one in signature.inputs if one.name not in absent]
    wanted = [one.name for one in signature.wanted(all_outputs)]
    optional = {one.name for one in signature.outputs if one.optional}

    def run(inputs: tuple[Any, ...], all_outputs: bool) -> dict[str, Any]:
        return _call(op, {**dict(zip(names, inputs, strict=True)), **attributes}, all_outputs)

    def function(*inputs: Any) -> tuple[Any, ...]:
        outputs = run(inputs, all_outputs)
        return tuple(outputs[name] for name in wanted)

    def forward(*inputs: Any) -> tuple[Any, Any]:
        outputs = run(inputs, all_outputs or not optional.isdisjoint(formula.outputs))
        by_name = dict(zip(names, inputs, strict=True))
        kept = {name: by_name.get(name) for name in formula.inputs} | {name: outputs[name] for name in formula.outputs}
        return tuple(outputs[name] for name in wanted), (kept, by_name)

    def backward(saved: Any, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        kept, _inputs = saved
        result = formula.compute(
            _call, kept, dict(zip(wanted, grads, strict=True)), attributes, set(formula.covers) & set(names)
        )
        return tuple(result.get(name) for name in names)

    differentiable = jax.custom_vjp(function)
    differentiable.defvjp(forward, backward)
    return differentiable


def _array(value: Any, parameter: Parameter) -> Any:
    if not isinstance(value, jax.Array):
        with jax.enable_x64(False):  # the setting outside of this function
            value = jnp.asarray(value)
    # Programs without 64-bit types have i32 indices.
    if parameter.dtype == "i64" and value.dtype == jnp.int32:
        return jax.lax.convert_element_type(value, jnp.int64)
    return value


def call(op: str, /, *inputs: Any, all_outputs: bool = False, **named: Any) -> Any:
    """Calls an op of the host: inputs by position in the signature's order or by name, None for absent ones.

    Attributes are given by name. Returns the outputs that the signature requires, with `all_outputs` also the optional
    ones, followed by the new values of inputs that the op writes: a single one as it is, several as a tuple.
    """
    if op not in _signatures:
        raise AttributeError(f"opdock has registered no op '{op}' with JAX; call register() after a plugin was loaded")
    signature = _signatures[op]
    if len(inputs) > len(signature.inputs):
        raise TypeError(f"{op}: it takes {len(signature.inputs)} inputs by position\n  {signature.text}")
    values = list(inputs)
    for parameter in signature.inputs[len(inputs) :]:
        values.append(named.pop(parameter.name, None))
    for parameter, value in zip(signature.inputs, values, strict=True):
        if value is None and not parameter.optional:
            raise TypeError(f"{op}: input '{parameter.name}' is missing\n  {signature.text}")
    attributes = _attributes(signature, named)
    with jax.enable_x64(True):  # for 64-bit inputs and outputs; other dtypes are not affected
        values = [
            value if value is None else [_array(each, one) for each in value] if one.is_list else _array(value, one)
            for one, value in zip(signature.inputs, values, strict=True)
        ]
        if _formulas[op] is None:
            results = _plain_call(signature, values, attributes, all_outputs)
        else:
            absent = frozenset(one.name for one, value in zip(signature.inputs, values, strict=True) if value is None)
            function = _differentiable(op, all_outputs, tuple(attributes.items()), absent)
            results = list(function(*(value for value in values if value is not None)))
    return None if not results else results[0] if len(results) == 1 else tuple(results)


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    op = name if name in _signatures else next((one for one in _signatures if one.replace(".", "_") == name), name)
    if op not in _signatures:
        raise AttributeError(
            f"opdock has registered no op '{name}' with JAX; call register() after a plugin was loaded"
        )
    return functools.partial(call, op)


_on_cpu, _on_gpu = _native._jax_handlers()
jax.ffi.register_ffi_target("opdock", _on_cpu, platform="cpu")
jax.ffi.register_ffi_target("opdock", _on_gpu, platform="CUDA")
register()
