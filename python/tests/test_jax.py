"""Ops in JAX: same bits as the host, jit, gradients."""

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")
jnp = jax.numpy

import opdock.jax as ours
from opdock._gradients import formula_of

names = sorted(ours._signatures)


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


def normal(rng, *shape):
    return jnp.asarray(rng.standard_normal(shape), jnp.float32)


def takes_float8(op):
    return any(one.dtype == "F" for one in ours._signatures[op].inputs)


def sample(rng, op, dtype):
    """Arguments of an op; all dims are 8."""
    signature = ours._signatures[op]
    others = {"...": 3, "2*n": 16, "g+1": 9, "(k+127)/128": 1, "(n+127)/128": 1}
    others |= (
        {"r": 64} if op.startswith("moe_") else {"r": 4} if "cos: " in signature.text else {}
    )  # r == t*k, 2*r <= d

    def tensor(one):
        sizes = [int(dim) if dim.isdigit() else others.get(dim, 8) for dim in one.dims]
        if one.name.endswith("_starts"):  # of sequences in a batch of 1
            return None
        float8 = jnp.float8_e4m3fn
        own = {"F": float8, "G": float8, "P": jnp.int32}.get(one.dtype, ours._DTYPES.get(one.dtype, dtype))
        if jnp.issubdtype(own, jnp.floating):
            positive = one.name in ("scale", "rsigma", "scale_inv", "exp_avg_sq")
            values = rng.standard_normal(sizes) * 0.5
            return jnp.asarray(np.abs(values) + 1 if positive else values).astype(own)
        if one.name in ("slots", "places", "starts"):  # no two alike, or in order
            return jnp.arange(math.prod(sizes), dtype=own).reshape(sizes)
        return jnp.asarray(rng.integers(0, 2 if one.name == "mask" else 1 if one.name == "noop" else 8, sizes)).astype(
            own
        )

    with jax.enable_x64(True):
        inputs = [[tensor(one) for _ in range(2)] if one.is_list else tensor(one) for one in signature.inputs]
    required = {"p": 0.25, "groups": 2, "k": 3, "experts": 8}
    attributes = {one.name: required[one.name] for one in signature.attributes if one.name in required}
    if any(one.type == "dtype" for one in signature.attributes):
        attributes["dtype"] = dtype if takes_float8(op) else jnp.float8_e4m3fn
    return inputs, attributes


def flat(values):
    if isinstance(values, (list, tuple)):
        return [one for value in values for one in flat(value)]
    return [] if values is None else [values]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("op", names)
def test_results_have_the_bits_of_the_host(host, rng, op, dtype):
    torch = pytest.importorskip("torch")  # numpy has no bf16
    signature = ours._signatures[op]
    inputs, attributes = sample(rng, op, dtype)

    def copied(value):
        if isinstance(value, list):
            return [copied(each) for each in value]
        return None if value is None else torch.from_dlpack(value).clone()

    given = [copied(one) for one in inputs]
    before = [np.asarray(one).tobytes() for one in flat(inputs)]
    found = jax.jit(lambda inputs: ours.call(op, *inputs, all_outputs=True, **attributes))(inputs)
    named = dict(attributes)
    if "dtype" in named:
        named["dtype"] = {jnp.float32: "f32"}.get(dtype, "bf16") if takes_float8(op) else "e4m3"
    expected = host.op(op)(*given, outputs=[one.name for one in signature.outputs if one.optional], **named)
    written = [value for one, value in zip(signature.inputs, given, strict=True) if one.mut]
    expected = flat([*flat(expected), *flat(written)])
    assert len(flat(found)) == len(expected)
    for one, other in zip(flat(found), expected, strict=True):
        assert np.asarray(one).tobytes() == other.contiguous().view(torch.uint8).numpy().tobytes()
    assert [np.asarray(one).tobytes() for one in flat(inputs)] == before


def rms(x, w):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def layer(x, w, b):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b


target = jnp.array([1, 5, 7])

# The formulas of ops in JAX, and the shapes of inputs that have gradients.
formulas = {
    "cross_entropy_fwd": (
        lambda x: ours.cross_entropy_fwd(x, target),
        lambda x: -jax.nn.log_softmax(x)[jnp.arange(3), target],
        [(3, 8)],
    ),
    "fused_add_rmsnorm_fwd": (
        ours.fused_add_rmsnorm_fwd,
        lambda x, r, w: (rms(x + r, w), x + r),
        [(3, 8), (3, 8), (8,)],
    ),
    "gelu": (ours.gelu, jax.nn.gelu, [(3, 8)]),
    "layernorm_fwd": (ours.layernorm_fwd, layer, [(3, 8), (8,), (8,)]),
    "linear_fwd": (ours.linear_fwd, lambda x, w, b: x @ w.T + b, [(3, 8), (4, 8), (4,)]),
    "matmul": (ours.matmul, jnp.matmul, [(3, 8), (8, 4)]),
    "mul": (ours.mul, jnp.multiply, [(3, 8), (3, 8)]),
    "rmsnorm_fwd": (ours.rmsnorm_fwd, rms, [(3, 8), (8,)]),
    "scaled_softmax_fwd": (
        lambda x: ours.scaled_softmax_fwd(x, scale=0.5),
        lambda x: jax.nn.softmax(x * 0.5),
        [(3, 8)],
    ),
    "silu_and_mul": (ours.silu_and_mul, lambda g, u: jax.nn.silu(g) * u, [(3, 8), (3, 8)]),
    "swiglu": (ours.swiglu, lambda x: jax.nn.silu(x[:, :8]) * x[:, 8:], [(3, 16)]),
}


@pytest.mark.parametrize("op", sorted(formulas))
def test_gradients_are_those_of_jax(rng, op):
    assert formula_of(ours._signatures[op], ours._signatures) is not None
    inputs = [normal(rng, *shape) for shape in formulas[op][2]]

    def loss(function):
        def of(*inputs):
            results = function(*inputs)
            weighted = [(one * jnp.cos(one)).sum() for one in (results if isinstance(results, tuple) else [results])]
            return sum(weighted)

        return of

    every = tuple(range(len(inputs)))
    own, jaxs = (jax.jit(jax.value_and_grad(loss(one), every))(*inputs) for one in formulas[op][:2])
    np.testing.assert_allclose(own[0], jaxs[0], rtol=1e-4)
    for one, other in zip(own[1], jaxs[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
    eager = jax.grad(loss(formulas[op][0]))(*inputs)
    np.testing.assert_allclose(eager, own[1][0], rtol=1e-5, atol=1e-5)


def test_optional_inputs_and_outputs(rng):
    x, w = normal(rng, 3, 8), normal(rng, 4, 8)
    np.testing.assert_allclose(ours.linear_fwd(x, w), ours.linear_fwd(x, weight=w, bias=None))
    _, rsigma = ours.rmsnorm_fwd(x, normal(rng, 8), all_outputs=True)
    np.testing.assert_allclose(rsigma, 1 / np.sqrt((x * x).mean(-1) + 1e-5), rtol=1e-5)


def test_vmap_calls_the_op_for_each(rng):
    x, w = normal(rng, 5, 3, 8), normal(rng, 8)
    np.testing.assert_allclose(jax.vmap(ours.rmsnorm_fwd, (0, None))(x, w), ours.rmsnorm_fwd(x, w), rtol=1e-6)


def test_wrong_calls_say_what_was_expected(rng):
    x = normal(rng, 3, 8)
    with pytest.raises(ValueError, match="'weight' has other sizes than\n  rmsnorm_fwd"):
        ours.rmsnorm_fwd(x, normal(rng, 3))
    with pytest.raises(ValueError, match=r"'weight' has 2 dims, expected \[n\]"):
        ours.rmsnorm_fwd(x, x)
    with pytest.raises(TypeError, match="input 'weight' is missing"):
        ours.rmsnorm_fwd(x)
    with pytest.raises(TypeError, match="no input and no attribute 'epsilon'"):
        ours.gelu(x, epsilon=1)
    with pytest.raises(TypeError, match="attribute 'p' is missing"):
        ours.dropout_fwd(x, jnp.zeros(2, jnp.int32))
    with pytest.raises(AttributeError, match="no op 'jelu'"):
        ours.__getattr__("jelu")
    with pytest.raises(Exception, match="'input' is of dtype int32, expected f64 or f32 or f16 or bf16"):
        ours.gelu(jnp.zeros(3, jnp.int32)).block_until_ready()


def test_the_policy_of_the_host_decides(rng):
    own = ours.host()
    before = own.served("gelu", "reference.cpp")
    own.set_policy(own.policy(per_op={"gelu": "reference"}))
    try:
        ours.gelu(normal(rng, 3, 8)).block_until_ready()
    finally:
        own.set_policy(None)
    assert own.served("gelu", "reference.cpp") == before + 1
