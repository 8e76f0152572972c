"""Calls on torch tensors: outputs are torch's, in its memory, with its dtypes."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def rows(seed: int) -> "torch.Tensor":
    torch.manual_seed(seed)
    return torch.randn(6, 64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_outputs_are_tensors_of_torch_with_the_same_bits_as_of_numpy(host, rows, dtype):
    x = rows.to(dtype)
    y = host.gelu(x)
    assert type(y) is torch.Tensor and y.dtype == dtype and y.is_contiguous()
    if dtype != torch.bfloat16 and x.device.type == "cpu":
        np.testing.assert_array_equal(y.numpy(), host.gelu(x.numpy()))
    torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"))


def test_views_parameters_and_outputs_that_are_given(host, rows):
    wide = torch.cat([rows, rows], 1)[:, ::2].cpu()  # where there are kernels for them
    out = torch.empty(6, 64, device="cpu")
    assert host.gelu(wide, out=out) is out
    torch.testing.assert_close(out, host.gelu(wide.contiguous()))
    with torch.no_grad():
        torch.testing.assert_close(host.gelu(torch.nn.Parameter(rows)), host.gelu(rows))


def test_dtypes_of_torch_are_attributes(host, rows):
    scale = torch.ones(1)
    by_torch = host.quantize(rows, scale, dtype=torch.float8_e4m3fn)
    assert by_torch.dtype == torch.float8_e4m3fn
    by_name = host.quantize(rows, scale, dtype="e4m3")
    assert torch.equal(by_torch.view(torch.uint8), by_name.view(torch.uint8))


def test_a_prepared_call_takes_the_same_form_alone(host, rows):
    weight = torch.ones(64)
    prepared = host.rmsnorm_fwd.prepare(rows, weight)
    torch.testing.assert_close(prepared(rows * 2, weight), host.rmsnorm_fwd(rows * 2, weight))
    with pytest.raises(ValueError, match="tensor 1 has another dtype"):
        prepared(rows.to(torch.bfloat16), weight)


def test_a_tensor_whose_gradient_is_recorded_is_refused(host, rows):
    with pytest.raises(TypeError, match="'input': it requires a gradient"):
        host.gelu(rows.requires_grad_())
    assert host.gelu(rows.detach()).requires_grad is False


def test_a_tensor_without_memory_is_refused(host, rows):
    prepared = host.gelu.prepare(rows)
    emptied = torch.ones_like(rows)
    emptied.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="tensor 1 has elements but no data"):
        prepared(emptied)
    with pytest.raises(ValueError, match="tensor 2 has elements but no data"):
        prepared(rows, out=emptied)


def test_tensors_live_as_long_as_their_call(host):
    lists = [[torch.ones(200_000) for _ in range(20)] for _ in range(4)]
    stop = threading.Event()

    def clear():
        stop.wait()
        for one in lists:
            one.clear()

    other = threading.Thread(target=clear)
    other.start()
    step = torch.zeros(1)
    rate = torch.full((1,), 0.1)

    class Sets:  # in the middle of the call's arguments: the lists are cleared while later ones are read
        def __dlpack_device__(self):
            stop.set()
            other.join()
            return rate.__dlpack_device__()

        def __dlpack__(self, **options):
            return rate.__dlpack__(**options)

    host.multi_tensor_adam(*lists, Sets(), step)
    assert step.item() == 1


def test_autograd_hears_of_outputs_that_were_given(host):
    a = torch.ones(8, requires_grad=True)
    b = torch.ones(8)
    y = (a * b).sum()
    host.gelu(torch.full((8,), 5.0), out=b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_arrays_of_jax_are_not_written():
    jnp = pytest.importorskip("jax.numpy")
    import opdock

    host = opdock.Host()
    x = jnp.ones((4, 8))
    assert type(host.gelu(x)) is type(x)
    with pytest.raises(TypeError, match="is read-only"):
        host.gelu(x, out=jnp.zeros((4, 8)))
