"""Calls on numpy tensors: arguments, results and refusals. tests/numerics covers the values."""

import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import opdock


@pytest.fixture
def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((6, 64), dtype=np.float32)


@pytest.fixture
def weight(seed: int) -> np.ndarray:
    return np.random.default_rng(seed + 1).standard_normal(64, dtype=np.float32)


def rmsnorm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + eps) * weight


def test_an_op_is_an_attribute_and_its_output_is_made(host, rows, weight):
    y = host.rmsnorm_fwd(rows, weight, eps=1e-3)
    assert type(y) is np.ndarray and y.dtype == np.float32
    np.testing.assert_allclose(y, rmsnorm(rows, weight, 1e-3), rtol=1e-5, atol=1e-6)
    assert host.rmsnorm_fwd is host.rmsnorm_fwd
    assert host.rmsnorm_fwd.name == host.op("rmsnorm_fwd").name == "rmsnorm_fwd"
    assert host.rmsnorm_fwd.signature.startswith("rmsnorm_fwd(input: T[..., n], weight: U[n]")
    assert host.op("dgelu").name == "gelu_bwd"


def test_inputs_may_be_given_by_name(host, rows, weight):
    expected = host.rmsnorm_fwd(rows, weight)
    np.testing.assert_array_equal(host.rmsnorm_fwd(rows, weight=weight), expected)
    np.testing.assert_array_equal(host.rmsnorm_fwd(weight=weight, input=rows, eps=None), expected)


def test_optional_inputs_may_be_left_out_or_none_and_some_are_written(host):
    step = np.zeros(1, np.float32)
    rate = np.full(1, 0.1, np.float32)
    lists = [[np.ones(3, np.float32)] for _ in range(4)]
    host.multi_tensor_adam(*lists, rate, step)
    host.multi_tensor_adam(*lists, rate, step, None)
    assert step[0] == 2
    host.multi_tensor_adam(*lists, rate, step, np.ones(1, np.int32))  # noop: everything is left unchanged
    assert step[0] == 2


def test_optional_outputs_are_made_when_they_are_named(host, rows, weight):
    _, rsigma = host.rmsnorm_fwd(rows, weight, eps=1e-3, outputs=["rsigma"])
    assert rsigma.shape == (6,)
    np.testing.assert_allclose(rsigma, 1 / np.sqrt((rows**2).mean(-1) + 1e-3), rtol=1e-5)
    assert len(host.rmsnorm_fwd(rows, weight, outputs="rsigma")) == 2


def test_outputs_may_be_given(host, rows, weight):
    expected = host.rmsnorm_fwd(rows, weight)
    y, rsigma = np.empty_like(rows), np.empty(6, np.float32)
    assert host.rmsnorm_fwd(rows, weight, out=y) is y
    np.testing.assert_array_equal(y, expected)
    both = host.rmsnorm_fwd(rows, weight, out=(y, rsigma))
    assert both[0] is y and both[1] is rsigma
    both = host.rmsnorm_fwd(rows, weight, out={"rsigma": rsigma, "output": y})
    assert both[0] is y and both[1] is rsigma


def test_views_keep_their_strides(host, weight, seed):
    whole = np.random.default_rng(seed).standard_normal((6, 128), dtype=np.float32)
    expected = host.rmsnorm_fwd(np.ascontiguousarray(whole[:, ::2]), weight)
    np.testing.assert_allclose(host.rmsnorm_fwd(whole[:, ::2], weight), expected, rtol=1e-6, atol=1e-7)


def test_lists_of_tensors_and_inputs_that_are_written(host):
    grads = [np.full(3, 0.5, np.float32), np.full(5, 0.25, np.float32)]
    params = [np.ones(3, np.float32), np.ones(5, np.float32)]
    averages = [[np.zeros_like(one) for one in params] for _ in range(2)]
    step = np.zeros(1, np.float32)
    assert host.multi_tensor_adam(grads, params, *averages, np.full(1, 0.1, np.float32), step) is None
    assert step[0] == 1
    for param in params:
        np.testing.assert_allclose(param, 0.9, rtol=1e-5)  # the first step has the length of the rate


def test_attributes_have_the_types_of_the_signature(host, rows):
    scale = np.ones(1, np.float32)
    with pytest.raises(TypeError, match="attribute 'dtype' is of type dtype, but 'f33' was given"):
        host.quantize(rows, scale, dtype="f33")
    with pytest.raises(TypeError, match="attribute 'eps' is of type float, but 'small' was given"):
        host.rmsnorm_fwd(rows, rows[0], eps="small")


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ((), {}, "input 'input' is missing"),
        (("rows",), {}, "input 'weight' is missing"),
        (("rows", "weight", "rows"), {}, "takes 2 inputs by position, but 3 were given"),
        (("rows", "weight"), {"input": "rows"}, "input 'input' was given twice"),
        (("rows", "weight"), {"epsilon": 1}, "no input and no attribute 'epsilon'"),
        (("rows", "weight"), {"outputs": ["sigma"]}, "no output 'sigma'"),
        (("rows", 3), {}, "expected a tensor .* found an object of type builtins.int"),
        (("rows", "weight"), {"out": {"y": "rows"}}, "no output 'y'"),
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_shows_the_signature(host, rows, weight, arguments, named, words):
    tensors = {"rows": rows, "weight": weight}

    def tensor(value):
        return tensors.get(value, value) if isinstance(value, str) else value

    with pytest.raises(TypeError, match=words) as error:
        host.rmsnorm_fwd(
            *map(tensor, arguments),
            **{k: {n: tensor(t) for n, t in v.items()} if isinstance(v, dict) else tensor(v) for k, v in named.items()},
        )
    assert "rmsnorm_fwd(input: T[..., n], weight: U[n]" in str(error.value)


def test_what_the_host_refuses_is_an_error_with_its_status(host, rows, weight):
    with pytest.raises(opdock.Error, match="dim 0 is 3, expected n = 64") as error:
        host.rmsnorm_fwd(rows, weight[:3])
    assert error.value.name == "INVALID_ARGUMENT"
    with pytest.raises(AttributeError, match="no plugin declares op 'rmsnorm_forwards'"):
        host.rmsnorm_forwards(rows)
    with pytest.raises(opdock.Error) as unknown:
        host.op("rmsnorm_forwards")
    assert unknown.value.name == "UNKNOWN_OP"
    assert not hasattr(host, "_repr_html_")


def test_a_read_only_tensor_is_no_output(host, rows, weight):
    y = np.empty_like(rows)
    y.flags.writeable = False
    with pytest.raises(TypeError, match="'output' is written, but the ndarray given for it is read-only"):
        host.rmsnorm_fwd(rows, weight, out=y)
    rows.flags.writeable = False
    assert host.rmsnorm_fwd(rows, weight).shape == rows.shape


def test_a_prepared_call_takes_tensors_of_the_same_form_alone(host, rows, weight):
    y = np.empty_like(rows)
    prepared = host.rmsnorm_fwd.prepare(rows, weight, out=y, eps=1e-3)
    assert prepared.impl in ("default.cpu", "reference.cpp") and not prepared.stale
    assert prepared(rows, weight, out=y) is y
    np.testing.assert_array_equal(y, host.rmsnorm_fwd(rows, weight, eps=1e-3))
    for wrong, words in [
        (rows.astype(np.float64), "another dtype"),
        (rows[:3], "another shape"),
        (np.asfortranarray(rows), "other strides"),
    ]:
        with pytest.raises(ValueError, match=f"tensor 1 has {words}"):
            prepared(wrong, weight, out=y)
    with pytest.raises(ValueError, match="tensor 4 is given, but was absent before"):
        prepared(rows, weight, out=(y, np.empty(6, np.float32)))
    with pytest.raises(TypeError, match="attributes were fixed"):
        prepared(rows, weight, out=y, eps=1e-3)


def test_a_prepared_call_makes_its_output_or_takes_it_in_any_form(host, rows, weight):
    prepared = host.rmsnorm_fwd.prepare(rows, weight)
    expected = host.rmsnorm_fwd(rows, weight)
    y = np.empty_like(rows)
    for named in [{}, {"out": None}, {"out": y}, {"out": (y,)}, {"out": (y, None)}, {"out": {"output": y}}]:
        y[:] = 0
        made = prepared(rows, weight, **named)
        np.testing.assert_array_equal(made, expected)
        assert (made is y) == (named.get("out") is not None)
    np.testing.assert_array_equal(prepared(weight=weight, input=rows), expected)
    with pytest.raises(ValueError, match="read-only"):
        y.flags.writeable = False
        prepared(rows, weight, out=y)


def test_a_policy_is_in_force_in_its_block_and_on_its_thread(host):
    usual = host.explain("gelu")["chain"]
    assert usual[0] == "default.cpu"
    seen = []
    with host.policy(prefer="reference", strict=True, per_op={"silu": ["default", "reference"]}):
        assert host.explain("gelu")["chain"][0] == "reference.cpp"
        assert host.explain("gelu")["strict"] is True
        other = threading.Thread(target=lambda: seen.append(host.explain("gelu")["chain"]))
        other.start()
        other.join()
    assert seen == [usual]
    assert host.explain("gelu")["chain"] == usual
    with pytest.raises(opdock.Error, match="prefer"):
        host.policy(prefer="fastest")


def test_a_policy_ends_with_its_block_also_after_an_exception(host):
    usual = host.explain("gelu")["chain"]
    with pytest.raises(RuntimeError, match="mine"), host.policy(prefer="reference"):
        raise RuntimeError("mine")
    assert host.explain("gelu")["chain"] == usual


def test_calls_are_counted_and_explained(host, rows):
    before = host.served("gelu", "default.cpu")
    host.gelu(rows)
    assert host.served("gelu", "default.cpu") == before + 1
    host.gelu.prepare(rows)(rows)
    counted = [one["served"] for one in host.counters() if (one["op"], one["impl_id"]) == ("gelu", "default.cpu")]
    assert counted == [before + 2] == [host.served("gelu", "default.cpu")]
    assert host.gelu.explain(rows)["chain"][0] == "default.cpu"
    assert host.devices()[0]["device"] == "cpu:0"
    assert {"cpu", "reference"} <= {plugin["id"] for plugin in host.describe()["plugins"]}


def test_threads_call_at_the_same_time(host, rows):
    expected = host.gelu(rows)
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(host.gelu(rows), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_was_given_out_keeps_the_host_open(rows):
    op = opdock.Host().gelu
    prepared = op.prepare(rows)
    assert op(rows).shape == rows.shape
    del op
    assert prepared(rows).shape == rows.shape


def test_freezing_gives_a_manifest_that_another_host_is_held_to(rows):
    manifest = opdock.Host().freeze()
    assert manifest["schema"] == "opdock.frozen/1"
    other = opdock.Host()
    assert other.freeze(manifest)["digest"] == manifest["digest"]
    with pytest.raises(opdock.Error) as error:
        other.set_policy(other.policy(prefer="reference"))
    assert error.value.name == "FROZEN"
    changed = opdock.Host()
    changed.set_policy(changed.policy(prefer="reference"))
    with pytest.raises(opdock.Error, match="op 'add' on cpu .* expected 'default.cpu'"):
        changed.freeze(manifest)


def test_lists_of_another_size_are_not_the_prepared_call(host):
    def ones(count):
        return [np.ones(3, np.float32) for _ in range(count)]

    rate, step = np.full(1, 0.1, np.float32), np.zeros(1, np.float32)
    prepared = host.multi_tensor_adam.prepare(ones(2), ones(2), ones(2), ones(2), rate, step)
    prepared(ones(2), ones(2), ones(2), ones(2), rate, step)
    with pytest.raises(ValueError, match="lists of tensors have other sizes"):
        prepared(ones(3), ones(1), ones(2), ones(2), rate, step)


def test_strides_without_a_step_do_not_count(host):
    prepared = host.gelu.prepare(np.ones((1, 8), np.float32))
    assert prepared(np.ones((5, 8), np.float32)[::5]).shape == (1, 8)
    empty = host.gelu.prepare(np.empty((0, 8), np.float32))
    assert empty(np.empty((4, 8), np.float32)[:0]).shape == (0, 8)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.ones(3, ">f4"), "'input': the ndarray given for it does not provide its data"),
        (np.array([object()]), "'input': the ndarray given for it does not provide its data"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "expected a tensor"),
    ],
)
def test_what_is_no_usable_tensor_is_a_type_error(host, wrong, words):
    with pytest.raises(TypeError, match=words):
        host.gelu(wrong)


def test_wrong_values_of_the_calls_own_arguments_are_type_errors(host, rows):
    for named in [{"stream": "x"}, {"stream": -1}, {"outputs": 3}, {"outputs": [3]}]:
        with pytest.raises(TypeError, match="was given"):
            host.gelu(rows, **named)
    with pytest.raises(TypeError, match="numpy lacks"):
        host.quantize(rows, np.ones(1, np.float32), dtype="e4m3")
    with pytest.raises(ValueError, match="NUL"):
        host.op("gelu\0x")
    with pytest.raises(ValueError, match="path of a plugin is empty"):
        opdock.Host(modules=[""])
    with pytest.raises(opdock.Error):
        host.load(pathlib.Path("/nonexistent/libx.so"))


def test_blocks_of_policies_that_overlap_are_refused(host):
    usual = host.explain("gelu")["chain"]
    first, second = host.policy(prefer="reference"), host.policy(prefer="vendor")
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match="a later block on this thread"):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert host.explain("gelu")["chain"] == usual


def test_the_end_of_the_interpreter_ends_threads_in_calls():
    script = """
import threading, numpy, opdock
host = opdock.Host()
x = numpy.ones((64, 64), "f4")
prepared = host.gelu.prepare(x)
ready = threading.Barrier(7)
def work(call):
    ready.wait()
    while True:
        call(x)
for i in range(6):
    threading.Thread(target=work, args=(prepared if i % 2 else host.gelu,), daemon=True).start()
ready.wait()
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
