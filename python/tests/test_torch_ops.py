"""Ops as torch ops: schemas, gradients, compiled programs."""

import math
import re
import threading

import pytest

torch = pytest.importorskip("torch")

from conftest import DEVICE

import opdock.torch
from opdock._gradients import formula_of
from opdock.torch import _ops
from opdock.torch._schema import DTYPES

F = torch.nn.functional
ops = torch.ops.opdock
names = sorted(_ops._names)


def rand(*shape: int, dtype: "torch.dtype" = torch.float32) -> "torch.Tensor":
    return torch.randn(*shape).to(dtype)


@pytest.fixture(autouse=True)
def random(seed):
    torch.manual_seed(seed)


def takes_float8(op):
    return any(one.dtype == "F" for one in _ops._signatures[op].inputs)


def sample(op: str, dtype: "torch.dtype") -> "tuple[list, dict]":
    """Arguments of an op; all dims are 8."""
    signature = _ops._signatures[op]
    others = {"...": 3, "2*n": 16, "g+1": 9, "(k+127)/128": 1, "(n+127)/128": 1}
    others |= (
        {"r": 64} if op.startswith("moe_") else {"r": 4} if "cos: " in signature.text else {}
    )  # r == t*k, 2*r <= d

    def tensor(parameter):
        sizes = [others.get(dim, 8) for dim in parameter.dims]
        sizes = [int(dim) if dim.isdigit() else size for dim, size in zip(parameter.dims, sizes, strict=True)]
        named = DTYPES.get(parameter.dtype, dtype)
        if parameter.name.endswith("_starts"):  # of sequences in a batch of 1
            return None
        if parameter.name in ("slots", "places", "starts"):  # no two alike, or in order
            return torch.arange(math.prod(sizes), dtype=named).reshape(sizes)
        named = {"F": torch.float8_e4m3fn, "G": torch.float8_e4m3fn, "P": torch.int64}.get(parameter.dtype, named)
        if named.is_floating_point:
            return (rand(*sizes) * 0.5 + (1.0 if parameter.name in ("scale", "rsigma", "scale_inv") else 0.0)).to(named)
        if parameter.name == "mask":
            return torch.randint(0, 2, sizes, dtype=named)
        return torch.zeros(sizes, dtype=named) if parameter.name == "noop" else torch.randint(0, 8, sizes, dtype=named)

    inputs = [[tensor(one) for _ in range(2)] if one.is_list else tensor(one) for one in signature.inputs]
    for one, value in zip(signature.inputs, inputs, strict=True):
        if one.name == "exp_avg_sq":
            for each in value:
                each.abs_()
    if op.startswith("kl_div"):  # a target that is no probability has no logarithm
        inputs[1].abs_()
    required = {"p": 0.25, "groups": 2, "k": 3, "experts": 8}
    attributes = {one.name: required[one.name] for one in signature.attributes if one.name in required}
    for one in signature.attributes:
        if one.type == "dtype":
            attributes[one.name] = dtype if takes_float8(op) else torch.float8_e4m3fn
    return inputs, attributes


def test_every_op_of_the_host_is_one_of_torch(host):
    assert set(names) == {one["op"] for one in host.describe()["ops"]}
    assert not _ops.left_out


@pytest.mark.parametrize("op", names)
def test_torch_finds_nothing_wrong_with(op):
    inputs, attributes = sample(op, torch.float32)
    signature = _ops._signatures[op]
    formula = formula_of(signature, _ops._signatures)
    if formula is not None:
        for one, value in zip(signature.inputs, inputs, strict=True):
            if one.name in formula.covers:
                value.requires_grad_()
    # Torch's own mutation check multiplies, which float8 does not support.
    checks = {"test_utils": ("test_faketensor", "test_aot_dispatch_dynamic")} if takes_float8(op) else {}
    for all_outputs in {False, any(one.optional for one in signature.outputs)}:
        torch.library.opcheck(_ops.overload(op, all_outputs), inputs, attributes, **checks)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("op", names)
def test_fake_tensors_are_like_real_ones_of(op, dtype):
    inputs, attributes = sample(op, dtype)
    torch.library.opcheck(_ops.overload(op, True), inputs, attributes, test_utils="test_faketensor")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("op", names)
def test_results_have_the_bits_of_the_host(host, op, dtype):
    signature = _ops._signatures[op]
    inputs, attributes = sample(op, dtype)
    copies = [
        [each.clone() for each in one] if isinstance(one, list) else None if one is None else one.clone()
        for one in inputs
    ]
    optional = [one.name for one in signature.outputs if one.optional]
    ours = _ops.overload(op, True)(*inputs, **attributes)
    hosts = host.op(op)(*copies, outputs=optional, **attributes)

    def flat(values):
        if isinstance(values, (list, tuple)):
            for one in values:
                yield from flat(one)
        elif values is not None:
            yield values

    for ours_one, hosts_one in zip(flat([ours, *inputs]), flat([hosts, *copies]), strict=True):
        assert ours_one.dtype == hosts_one.dtype
        assert torch.equal(ours_one.flatten().view(torch.uint8), hosts_one.flatten().view(torch.uint8))


def softmax(x, scale=1.0, mask=None):
    return F.softmax((x * scale) if mask is None else (x * scale).masked_fill(mask, float("-inf")), -1)


def rotated(x, freqs):
    half = torch.cat((-x[..., 4:], x[..., :4]), -1)
    return x * freqs.cos() + half * freqs.sin()


def gated(act):
    return lambda x: act(x[..., :8]) * x[..., 8:]


def qgelu(x):
    return x * torch.sigmoid(1.702 * x)


def clamped(x):
    a, b = x[..., :8].clamp(max=7.0), x[..., 8:].clamp(-7.0, 7.0)
    return a * torch.sigmoid(1.702 * a) * (b + 1)


def attention(query, key, value):
    heads_first = (one.transpose(1, 2) for one in (query, key, value))
    return F.scaled_dot_product_attention(*heads_first, is_causal=True, enable_gqa=True).transpose(1, 2)


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def rotated_at(x, positions):
    return rotated(x[:, None], torch.cat([angles_of_tables, angles_of_tables], -1)[positions][:, None, None])[:, 0]


def jensen_shannon(x, y):
    m = torch.log((x.exp() + y.exp()) / 2)
    return (x.exp() * (x - m) + y.exp() * (y - m)).sum(-1) / 2


causal = torch.ones(8, 8, dtype=torch.bool).triu(1)
target = torch.arange(8) % 5
mask = torch.zeros(8, 1, 8, 8, dtype=torch.uint8)
mask[:, :, :, 6:] = 1
probabilities = torch.softmax(torch.linspace(-2, 3, 24).reshape(3, 8), -1)
apart = 4 * torch.arange(8)  # no two of them swap places
angles = torch.linspace(0, 3, 64).reshape(8, 1, 1, 8)
angles_of_tables = torch.linspace(0, 3, 20).reshape(5, 4)
tables = (angles_of_tables.cos(), angles_of_tables.sin())
positions = torch.tensor([3, 0, 3])
places = torch.tensor([[0, 3], [4, 1], [-6, 2]], dtype=torch.int32)  # two choices per token, one of them dropped

# The formula of each op with gradients, in torch; and its inputs, all of which have gradients.
formulas = {
    "add": (lambda a, b: ops.add(a, b, alpha=2.0), lambda a, b: a + 2 * b, [(3, 8), (3, 8)]),
    "attention_fwd": (
        lambda q, k, v: ops.attention_fwd(q, k, v, causal=True),
        attention,
        [(2, 5, 4, 8), (2, 5, 2, 8), (2, 5, 2, 8)],
    ),
    "clamped_swiglu": (ops.clamped_swiglu, clamped, [(3, 16)]),
    "cross_entropy_fwd": (
        lambda x: ops.cross_entropy_fwd(x, target, ignore_index=4),
        lambda x: F.cross_entropy(x, target, reduction="none", ignore_index=4),
        [(8, 8)],
    ),
    "dropout_fwd": (
        lambda x: ops.dropout_fwd(x, torch.tensor([7, 0]), p=0.0)[0],
        lambda x: x * 1.0,
        [(3, 8)],
    ),
    "embedding": (lambda w: ops.embedding(w, target), lambda w: F.embedding(target, w), [(5, 8)]),
    "fused_add_rmsnorm_fwd": (
        ops.fused_add_rmsnorm_fwd,
        lambda x, r, w: (F.rms_norm(x + r, [8], w, 1e-5), x + r),
        [(3, 8), (3, 8), (8,)],
    ),
    "fused_rope_fwd": (lambda x: ops.fused_rope_fwd(x, angles), lambda x: rotated(x, angles), [(8, 2, 3, 8)]),
    "fused_rope_qk_fwd": (
        lambda q, k: ops.fused_rope_qk_fwd(q, k, angles),
        lambda q, k: (rotated(q, angles), rotated(k, angles)),
        [(8, 2, 3, 8), (8, 2, 1, 8)],
    ),
    "geglu": (ops.geglu, gated(tanh_gelu), [(3, 16)]),
    "gelu": (ops.gelu, tanh_gelu, [(3, 8)]),
    "gelu_and_mul": (ops.gelu_and_mul, lambda g, u: tanh_gelu(g) * u, [(3, 8), (3, 8)]),
    "group_norm_fwd": (
        lambda x, w, b: ops.group_norm_fwd(x, w, b, groups=2),
        lambda x, w, b: F.group_norm(x, 2, w, b),
        [(3, 4, 8), (4,), (4,)],
    ),
    "grouped_linear_fwd": (
        lambda x, w: ops.grouped_linear_fwd(x, w, torch.tensor([0, 2, 2, 5], dtype=torch.int32)),
        lambda x, w: torch.cat([x[:2] @ w[0].mT, x[2:5] @ w[2].mT, 0 * x[5:, :4]]),
        [(6, 8), (3, 4, 8)],
    ),
    "jsd": (
        lambda x: ops.jsd(x, probabilities.log().to(x.dtype)),
        lambda x: jensen_shannon(x, probabilities.log().to(x.dtype)),
        [(3, 8)],
    ),
    "kl_div": (
        lambda x: ops.kl_div(x, probabilities.to(x.dtype)),
        lambda x: F.kl_div(x, probabilities.to(x.dtype), reduction="none").sum(-1),
        [(3, 8)],
    ),
    "l2norm_fwd": (ops.l2norm_fwd, lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6), [(3, 8)]),
    "layernorm_fwd": (ops.layernorm_fwd, lambda x, w, b: F.layer_norm(x, [8], w, b), [(3, 8), (8,), (8,)]),
    "linear_fwd": (ops.linear_fwd, F.linear, [(3, 8), (4, 8), (4,)]),
    "log_softmax_fwd": (ops.log_softmax_fwd, lambda x: F.log_softmax(x, -1), [(3, 8)]),
    "matmul": (ops.matmul, torch.matmul, [(3, 4, 8), (3, 8, 5)]),
    "moe_permute": (
        lambda x: ops.moe_permute(x, places),
        lambda x: torch.cat([x[[0, 1, 2, 0, 1]], 0 * x[:1]]),
        [(3, 8)],
    ),
    "moe_unpermute": (
        lambda x, w: ops.moe_unpermute(x, places, w.float()),
        lambda x, w: (torch.where(places < 0, 0, w)[..., None] * x[places.clamp(min=0)]).sum(1),
        [(6, 8), (3, 2)],
    ),
    "mul": (ops.mul, torch.mul, [(3, 8), (3, 8)]),
    "permute_021": (ops.permute_021, lambda x: x.mT, [(2, 3, 4)]),
    "qk_norm_rope": (
        lambda q, k, u, w: ops.qk_norm_rope(q, k, u, w, positions, *tables),
        lambda q, k, u, w: tuple(rotated_at(F.rms_norm(x, [8], y, 1e-6), positions) for x, y in ((q, u), (k, w))),
        [(3, 4, 8), (3, 2, 8), (8,), (8,)],
    ),
    "qgeglu": (ops.qgeglu, gated(qgelu), [(3, 16)]),
    "qgelu": (ops.qgelu, qgelu, [(3, 8)]),
    "reglu": (ops.reglu, gated(torch.relu), [(3, 16)]),
    "relu": (ops.relu, torch.relu, [(3, 8)]),
    "rmsnorm_fwd": (
        lambda x, w: ops.rmsnorm_fwd(x, w, zero_centered_gamma=True),
        lambda x, w: F.rms_norm(x, [8], 1 + w, 1e-5),
        [(3, 8), (8,)],
    ),
    "rope_positions": (
        lambda x: ops.rope_positions(x, positions, *tables),
        lambda x: rotated_at(x, positions),
        [(3, 4, 8)],
    ),
    "rope_qk_positions": (
        lambda q, k: ops.rope_qk_positions(q, k, positions.int(), *tables),
        lambda q, k: (rotated_at(q, positions), rotated_at(k, positions)),
        [(3, 4, 8), (3, 2, 8)],
    ),
    "scaled_aligned_causal_masked_softmax_fwd": (
        lambda x: ops.scaled_aligned_causal_masked_softmax_fwd(x, scale=0.5),
        lambda x: softmax(x, 0.5, causal),
        [(2, 3, 8, 8)],
    ),
    "scaled_masked_softmax_fwd": (
        lambda x: ops.scaled_masked_softmax_fwd(x, mask, scale=0.5),
        lambda x: softmax(x, 0.5, mask.bool()),
        [(8, 3, 8, 8)],
    ),
    "scaled_softmax_fwd": (lambda x: ops.scaled_softmax_fwd(x, scale=0.5), lambda x: softmax(x, 0.5), [(3, 8)]),
    "scaled_upper_triang_masked_softmax_fwd": (
        ops.scaled_upper_triang_masked_softmax_fwd,
        lambda x: softmax(x, 1.0, causal),
        [(3, 8, 8)],
    ),
    "silu": (ops.silu, F.silu, [(3, 8)]),
    "silu_and_mul": (ops.silu_and_mul, lambda g, u: F.silu(g) * u, [(3, 8), (3, 8)]),
    "sreglu": (ops.sreglu, gated(lambda x: torch.relu(x) ** 2), [(3, 16)]),
    "srelu": (ops.srelu, lambda x: torch.relu(x) ** 2, [(3, 8)]),
    "swiglu": (ops.swiglu, gated(F.silu), [(3, 16)]),
    "topk_sigmoid_fwd": (
        lambda x: ops.topk_sigmoid_fwd(x + apart - 20, k=3, renormalize=True, scale=2.5)[0],
        lambda x: 2.5 * F.normalize(torch.sigmoid(x + apart - 20).topk(3).values, p=1, dim=-1),
        [(3, 8)],
    ),
    "topk_softmax_fwd": (
        lambda x: ops.topk_softmax_fwd(x + apart, k=3)[0],
        lambda x: torch.softmax(x + apart, -1).topk(3).values,
        [(3, 8)],
    ),
}


def test_these_are_the_ops_with_gradients():
    assert set(formulas) == {name for name in names if formula_of(_ops._signatures[name], _ops._signatures)}


@pytest.mark.parametrize("op", sorted(formulas))
def test_gradients_are_those_of_torch(op):
    ours, torchs, shapes = formulas[op]
    inputs = [rand(*shape).requires_grad_() for shape in shapes]
    results = [(one,) if isinstance(one, torch.Tensor) else one for one in (ours(*inputs), torchs(*inputs))]
    upstream = [rand(*one.shape) for one in results[1]]
    for wanted in [inputs, inputs[:1], inputs[-1:]]:
        grads = [torch.autograd.grad(one, wanted, upstream, retain_graph=True) for one in results]
        torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(DEVICE != "cpu", reason="f64 is the reference's alone, which computes on the CPU")
@pytest.mark.parametrize("op", sorted(formulas))
def test_gradients_are_what_differences_say(op):
    ours, _, shapes = formulas[op]
    inputs = [rand(*shape, dtype=torch.float64).requires_grad_() for shape in shapes]
    of_f32 = ("cross_entropy_fwd", "jsd", "kl_div", "moe_unpermute", "topk_sigmoid_fwd", "topk_softmax_fwd")
    # Losses are f32 for any dtype of logits, so differences have to be larger.
    precision = {"eps": 1e-2, "atol": 1e-3} if op in of_f32 else {}
    torch.autograd.gradcheck(ours, inputs, **precision)


def test_dropout_has_the_gradient_of_what_it_kept():
    x = rand(64, 8).requires_grad_()
    y, kept = ops.dropout_fwd(x, torch.tensor([7, 0]), p=0.5)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert 0 < kept.sum() < kept.numel()
    torch.testing.assert_close(grad, kept * 2.0)


def test_a_gradient_that_nothing_computes_is_an_error():
    with pytest.raises(RuntimeError, match="no gradient for 'freqs', which requires one"):
        ops.fused_rope_fwd(rand(8, 2, 3, 8), angles.clone().requires_grad_())
    x = rand(3, 8).requires_grad_()
    (grad,) = torch.autograd.grad(ops.gelu(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="nothing computes gradients of the gradients of opdock::gelu"):
        grad.norm().backward()
    y = ops.gelu_bwd(x, x) + x
    with pytest.raises(RuntimeError, match="nothing computes gradients of opdock::gelu_bwd"):
        y.sum().backward()


def test_other_ways_to_gradients_are_refused_or_work():
    x = rand(3, 8)
    for transform in (lambda f: torch.func.grad(f)(x), lambda f: torch.func.jvp(f, (x,), (x,))):
        with pytest.raises(RuntimeError, match="does not support torch.func's grad"):
            transform(lambda x: ops.gelu(x).sum())
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="jvp"):
        ops.gelu(torch.autograd.forward_ad.make_dual(x, x))
    torch.testing.assert_close(torch.func.vmap(ops.gelu)(x), ops.gelu(x))


def test_what_is_written_is_counted_and_needs_no_gradient():
    x = rand(3).requires_grad_()
    y = x * 1.0
    z = (y * y).sum()
    before = y._version
    with torch.no_grad():
        ops.multi_tensor_scale([y], torch.tensor([10.0]))
    assert y._version == before + 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    with pytest.raises(RuntimeError, match="writes 'tensors', which requires a gradient"):
        ops.multi_tensor_scale([x], torch.tensor([10.0]))


def test_statistics_have_no_gradient():
    x, w = rand(3, 8).requires_grad_(), rand(8).requires_grad_()
    y, rsigma = ops.rmsnorm_fwd.full(x, w)
    assert y.requires_grad and not rsigma.requires_grad
    torch.testing.assert_close(rsigma, (x * x).mean(-1).add(1e-5).rsqrt().detach())


def test_a_compiled_program_has_no_breaks_and_the_same_results():
    def block(x, residual, w, gate, up):
        h, residual = ops.fused_add_rmsnorm_fwd(x, residual, w)
        return (ops.silu_and_mul(h @ gate, h @ up) + residual).square().mean()

    tensors = [rand(*shape).requires_grad_() for shape in [(6, 8), (6, 8), (8,), (8, 8), (8, 8)]]
    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (6, 5, 3):
        given = [tensors[0][:rows], tensors[1][:rows], *tensors[2:]]
        losses = [one(*given) for one in (block, compiled)]
        torch.testing.assert_close(losses[0], losses[1])
        grads = [torch.autograd.grad(loss, tensors) for loss in losses]
        torch.testing.assert_close(grads[0], grads[1])


def test_a_compiled_program_updates_in_place():
    def step(params, grads, averages, squares, rate, count):
        ops.multi_tensor_adam(grads, params, averages, squares, rate, count)
        return params[0] * 1.0

    results = []
    for program in (step, torch.compile(step, fullgraph=True, backend="aot_eager")):
        torch.manual_seed(1)
        state = [[rand(5), rand(7)] for _ in range(2)] + [[torch.zeros(5), torch.zeros(7)] for _ in range(2)]
        count = torch.zeros(1)
        returned = program(*state, torch.tensor([0.1]), count)
        assert count.item() == 1
        results.append((state, returned))
    torch.testing.assert_close(results[0], results[1])


def test_wrong_calls_say_what_the_host_says_also_when_they_are_traced():
    with pytest.raises(RuntimeError, match=re.escape("op 'rmsnorm_fwd': input 'weight' of shape [3]")):
        ops.rmsnorm_fwd(rand(2, 8), rand(3))
    with pytest.raises(RuntimeError, match="complex|dtype"):
        ops.gelu(torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(Exception, match="'weight' has other sizes than"):
        torch.compile(ops.rmsnorm_fwd, fullgraph=True, backend="eager")(rand(2, 8), rand(3))
    with pytest.raises(Exception, match="'weight' has 2 dims"):
        ops.rmsnorm_fwd(rand(2, 8).to("meta"), rand(3, 8).to("meta"))


def test_tensors_without_data_are_checked_as_others_are():
    meta = {"device": "meta"}
    for call, message in [
        (
            lambda: ops.gelu(torch.zeros(3, dtype=torch.int32, **meta)),
            "int32, expected f64 or f32 or f16 or bf16",
        ),
        (lambda: ops.mul(torch.zeros(3, **meta), torch.zeros(3, dtype=torch.float16, **meta)), "expected f32"),
        (lambda: ops.cross_entropy_fwd(torch.zeros(3, 8, **meta), torch.zeros(3, **meta)), "expected i64"),
        (lambda: ops.fused_rope_fwd(torch.zeros(9, 2, 3, 8, **meta), torch.zeros(8, 1, 1, 8, **meta)), "m >= s"),
        (
            lambda: ops.scaled_masked_softmax_fwd(
                torch.zeros(4, 3, 8, 8, **meta), torch.zeros(2, 1, 8, 8, dtype=torch.uint8, **meta)
            ),
            r"m in 1\|b",
        ),
    ]:
        with pytest.raises(Exception, match=message):
            call()


def test_views_are_taken_as_they_are():
    wide = rand(6, 16)
    torch.testing.assert_close(ops.gelu(wide[:, ::2]), ops.gelu(wide[:, ::2].contiguous()))
    assert ops.gelu(wide.t()).is_contiguous()
    expanded = rand(1, 8).expand(4, 8)
    torch.testing.assert_close(ops.gelu(expanded), ops.gelu(expanded.contiguous()))
    assert ops.gelu(rand(0, 8)).shape == (0, 8)


def test_what_is_absent_is_none():
    x, w = rand(3, 8), rand(4, 8)
    assert torch.equal(ops.linear_fwd(x, w, None), ops.linear_fwd(x, w))
    assert ops.quantize(x, torch.ones(1), None, dtype=torch.float8_e5m2).dtype == torch.float8_e5m2


def test_the_policy_of_the_host_decides(host):
    x = rand(3, 8).cpu()  # the reference's device
    own = opdock.torch.host()
    with own.policy(per_op={"gelu": "reference"}, strict=True):
        before = own.served("gelu", "reference.cpp")
        ops.gelu(x)
        assert own.served("gelu", "reference.cpp") == before + 1


def test_threads_compute_at_the_same_time():
    x = rand(64, 64)
    expected = ops.gelu(x)
    wrong = []

    def work():
        for _ in range(200):
            if not torch.equal(ops.gelu(x), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_nothing_of_a_refused_call_is_kept():
    import resource

    x = torch.zeros(1 << 20, dtype=torch.complex64)
    for round in range(40):
        with pytest.raises(RuntimeError, match="op 'gelu': 'input' has a dtype that ops do not support"):
            ops.gelu(x.clone())
        with pytest.raises(RuntimeError, match="'inputs' has a dtype"):
            ops.multi_tensor_l2norm([torch.ones(1 << 18), x.clone(), torch.ones(1 << 18)])
        if round == 10:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
