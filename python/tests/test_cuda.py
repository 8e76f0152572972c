"""Tensors on a GPU: choice of the stream, graphs, JAX and CuPy. Needs a GPU and the CUDA plugin."""

import threading

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU is here", allow_module_level=True)

import opdock.torch

F = torch.nn.functional
ops = torch.ops.opdock


@pytest.fixture(autouse=True)
def random(seed):
    torch.manual_seed(seed)


def rand(*shape, **options):
    return torch.randn(*shape, device="cuda", **options)


def busy(seconds=0.2):
    """Keeps the current stream busy for that long."""
    torch.cuda._sleep(int(seconds * 1.5e9))


def calls_of(host):
    """Ways to compute gelu of a tensor: through torch's dispatcher and through the package."""
    prepared = host.gelu.prepare(rand(512, 512))
    return {"torch": ops.gelu, "host": host.gelu, "prepared": prepared}


def test_work_follows_the_current_stream_of_torch(host):
    for name, gelu in calls_of(host).items():
        expected = F.gelu(torch.full((512, 512), 2.0, device="cpu"), approximate="tanh")
        stream = torch.cuda.Stream()
        x = torch.zeros(512, 512, device="cuda")
        gelu(x).mul_(1.0)  # anything that blocks on first use
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            busy()
            x.fill_(2.0)  # seen only by work that waits for this stream
            y = gelu(x)
            assert not stream.query(), name  # nothing waited for it
            y.mul_(1.0)
        stream.synchronize()
        torch.testing.assert_close(y.cpu(), expected, msg=name)


def test_a_graph_is_captured_and_replayed(host):
    w = rand(512)
    out = torch.empty(512, 512, device="cuda")
    prepared = host.rmsnorm_fwd.prepare(rand(512, 512), w, out=out)
    for name, call in {
        "torch": lambda x: out.copy_(ops.rmsnorm_fwd(x, w)),
        "host": lambda x: host.rmsnorm_fwd(x, w, out=out),
        "prepared": lambda x: prepared(x, w, out=out),
    }.items():
        x = rand(512, 512)
        call(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call(x)
        for _ in range(3):
            x.copy_(rand(512, 512))
            graph.replay()
            torch.testing.assert_close(out, F.rms_norm(x, [512], w, 1e-5), msg=name)


def test_training_is_captured_and_replayed():
    x, w = rand(64, 512), rand(512).requires_grad_()
    gate, up = (rand(512, 512).mul_(0.05).requires_grad_() for _ in range(2))
    target = torch.randint(0, 512, (64,), device="cuda")

    def loss(norm, mlp, entropy):
        h = norm(x, w)
        return entropy(mlp(h @ gate, h @ up)).mean()

    def ours():
        return loss(ops.rmsnorm_fwd, ops.silu_and_mul, lambda y: ops.cross_entropy_fwd(y, target))

    def torchs():
        return loss(
            lambda x, w: F.rms_norm(x, [512], w, 1e-5),
            lambda a, b: F.silu(a) * b,
            lambda y: F.cross_entropy(y, target, reduction="none"),
        )

    weights = [w, gate, up]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.autograd.grad(ours(), weights)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = ours()
        grads = torch.autograd.grad(captured, weights)
    for _ in range(2):
        x.copy_(rand(64, 512))
        graph.replay()
        expected = torchs()
        torch.testing.assert_close(captured, expected, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(grads, torch.autograd.grad(expected, weights), rtol=1e-3, atol=1e-5)


def test_a_compiled_program_in_a_graph_has_the_same_results():
    w = rand(512)

    def block(x):
        return ops.silu_and_mul(ops.rmsnorm_fwd(x, w), x + 1.0) * 2.0

    compiled = torch.compile(block, fullgraph=True, mode="reduce-overhead")
    with torch.inference_mode():
        for _ in range(4):
            x = rand(64, 512)
            torch.testing.assert_close(compiled(x), block(x))


def test_threads_have_streams_of_their_own(host):
    expected = F.gelu(torch.arange(512.0).reshape(1, 512).expand(512, 512) / 100, approximate="tanh").cpu()
    right = []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                x = torch.arange(512.0, device="cuda").reshape(1, 512).expand(512, 512) / 100
                y = ops.gelu(host.gelu(x) * 0 + x)
                right.append(torch.allclose(y.cpu(), expected, atol=1e-5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert right == [True] * 200


def test_tensors_of_two_devices_are_refused(host):
    with pytest.raises((RuntimeError, opdock.Error), match="is on cpu:0, expected cuda:0"):
        host.rmsnorm_fwd(rand(4, 8), torch.ones(8, device="cpu"))
    with pytest.raises(RuntimeError, match="is on cpu:0, expected cuda:0"):
        ops.rmsnorm_fwd(rand(4, 8), torch.ones(8, device="cpu"))


def test_memory_that_is_gone_is_an_error_that_programs_know():
    free, _ = torch.cuda.mem_get_info()
    x = torch.empty(1, 1, device="cuda").expand(free // 4096, 2048)
    with pytest.raises(RuntimeError, match="out of memory"):
        ops.gelu(x)


def test_arrays_of_cupy_and_its_stream(host):
    cupy = pytest.importorskip("cupy")
    x = cupy.random.standard_normal((64, 512), dtype=cupy.float32)
    expected = F.gelu(torch.from_dlpack(x), approximate="tanh")
    y = host.gelu(x)
    assert type(y) is cupy.ndarray
    torch.testing.assert_close(torch.from_dlpack(y), expected)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        z = host.gelu(y)
        stream.synchronize()
    torch.testing.assert_close(torch.from_dlpack(z), F.gelu(expected, approximate="tanh"))


def test_programs_of_jax(host):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    import opdock.jax as ours

    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    x = jax.random.normal(jax.random.key(1), (64, 512), jnp.float32)
    w = jax.random.normal(jax.random.key(2), (512,), jnp.float32)

    def rms(x, w):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w

    @jax.jit
    def program(x, w):
        def loss(one):
            return lambda x, w: (jnp.sin(one(x * 2.0, w)) ** 2).mean()

        return [jax.value_and_grad(loss(one), argnums=(0, 1))(x, w) for one in (ours.rmsnorm_fwd, rms)]

    for _ in range(20):
        found, expected = program(x, w)
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert jnp.allclose(one, other, rtol=1e-4, atol=1e-6)
        x = x + found[1][0]
    y = host.gelu(x)
    assert type(y) is type(x) and y.device.platform == "gpu"
    assert jnp.allclose(y, jax.nn.gelu(x), rtol=1e-5, atol=1e-5)
