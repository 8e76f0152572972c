"""Calls on torch's tensors: outputs are torch's, in its memory, with its dtypes."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture
def rows(seed: int) -> "torch.Tensor":
    return torch.randn(6, 64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_outputs_are_tensors_of_torch_with_the_same_bits_as_of_numpy(host, rows, dtype):
    x = rows.to(dtype)
    y = host.gelu(x)
    assert type(y) is torch.Tensor and y.dtype == dtype and y.is_contiguous()
    if dtype != torch.bfloat16:
        np.testing.assert_array_equal(y.numpy(), host.gelu(x.numpy()))
    torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"))


def test_views_parameters_and_outputs_that_are_given(host, rows):
    wide = torch.cat([rows, rows], 1)[:, ::2]
    out = torch.empty(6, 64)
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
