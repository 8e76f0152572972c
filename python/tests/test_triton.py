"""`opdock triton build` without a GPU: its errors, its results, and the launches of its plugins through a driver that
only records them.
"""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import zlib

import pytest

pytest.importorskip("triton")
pytest.importorskip("yaml")

from opdock.triton import DescriptionError, _compile, _description, _device, _expression, build

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOLS = pathlib.Path(os.environ["OPDOCK_BUILD"]) / "tools"

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def scale(x, y, n, alpha, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at * stride, tl.load(x + at * stride, at < n) * alpha, at < n)

@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 128}, num_warps=2)], key=["n"])
@triton.jit
def sums(x, partial, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + tl.program_id(0), tl.sum(tl.load(x + at, at < n, other=0)))

@triton.jit
def total(partial, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(partial + at, at < n, other=0)))

@triton.jit
def count(x, y, kept, n, factor, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + at, at < n, other=0)) * factor)
    tl.store(kept, n.to(tl.float32))

@triton.jit
def tiled(x, bias, y, n, m, kept, BLOCK: tl.constexpr, IS_WHOLE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at) if IS_WHOLE else tl.load(x + at, at < n)
    if bias is not None:
        value += tl.load(bias)
    tl.store(y + at * kept, value, at < n * m)

@triton.jit
def hungry(x, y, n, BLOCK: tl.constexpr):
    a = tl.arange(0, BLOCK)
    m = tl.load(x + a[:, None] * BLOCK + a[None, :])
    tl.store(y + a[:, None] * BLOCK + a[None, :], tl.dot(m, m.T))
"""

DESCRIPTION = """schema: opdock.triton/1
name: tiny
version: 1.0.0
vendor: tiny
architectures: [sm_90]
dtypes: f32
ops:
  tiny.scale:
    signature: 'tiny.scale(x: T[n], *, alpha: float = 2.0) -> (y: T[n])'
    contiguous: false
    kernels: {function: 'tiny_kernels:scale', grid: 'cdiv(n, BLOCK)', arguments: {stride: stride_x_n}}
    product: {BLOCK: [64, 128], num_warps: 1}
    heuristics: {BLOCK: 'n > 100 ? 128 : 64'}
    where: stride_x_n == stride_y_n
  tiny.sum:
    signature: 'tiny.sum(x: T[n]) -> (y: T[])'
    workspace: {partial: {dtype: f32, size: 'cdiv(n, BLOCK)'}}
    kernels:
      - {function: 'tiny_kernels:sums', grid: 'cdiv(n, BLOCK)'}
      - {function: 'tiny_kernels:total', grid: 1, arguments: {n: 'cdiv(n, BLOCK)', BLOCK: 256}, num_warps: 1}
    configs: autotune
    where: n <= 256 * BLOCK
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("triton")
    (folder / "tiny_kernels.py").write_text(KERNELS)
    return folder


def written(folder: pathlib.Path, text: str) -> pathlib.Path:
    file = folder / "tiny.yaml"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def plugin(folder: pathlib.Path) -> pathlib.Path:
    seen = []
    path = build(written(folder, DESCRIPTION), folder / "out", progress=lambda *what: seen.append(what))
    assert seen[-1][:2] == (len(seen), len(seen)) and path == folder / "out" / "libtiny.so"
    return path


# Errors in descriptions.

WRONG = [
    ("dtypes: f32", "dtype: f32", r"tiny.yaml:6:1: unknown field 'dtype'; did you mean 'dtypes'\?"),
    ("dtypes: f32", "dtypes: f33", r"tiny.yaml:6:9: T of tiny.scale cannot be 'f33'"),
    (
        "  tiny.scale:",
        "  tiny.scale: {}\n  tiny.scale:",
        r"tiny.yaml:9:3: the key 'tiny.scale' is given twice",
    ),
    (
        "stride: stride_x_n",
        "strides: stride_x_n",
        r"tiny.yaml:11:8\d: tiny_kernels:scale has no parameter 'strides'; did",
    ),
    (", arguments: {stride: stride_x_n}", "", r"tiny.yaml:11:14: the parameter 'stride' of tiny_kernels:scale has no"),
    (
        "stride: stride_x_n",
        "stride: stride_x_m",
        r"tiny.yaml:11:\d+: unknown name 'stride_x_m'; did you mean 'stride_x_n'",
    ),
    (
        "kernels:scale",
        "kernels:scales",
        r"tiny.yaml:11:2\d: the module 'tiny_kernels' has no 'scales'; did you mean 'sc",
    ),
    (
        "'cdiv(n, BLOCK)', arguments",
        "'cdiv(n, BLOK)', arguments",
        r"tiny.yaml:11:\d+: unknown name 'BLOK'; did you mean",
    ),
    ("'n > 100 ? 128 : 64'", "'n > 100 ? 128'", r"tiny.yaml:13:39: an expression ends too early"),
    ("'n > 100 ? 128 : 64'", "'power(n)'", r"tiny.yaml:13:26: unknown function 'power'"),
    ("heuristics: {BLOCK", "heuristics: {BLOK", r"tiny.yaml:13:18: unknown knob 'BLOK'; did you mean 'BLOCK'\?"),
    (
        "BLOCK: 256",
        "BLOCK: n",
        r"tiny.yaml:20:\d+: a constexpr must be known .* 'n' may be any number: make it a knob",
    ),
    ("sm_90", "sm90", r"tiny.yaml:5:17: unknown architecture 'sm90'"),
    (
        "BLOCK: [64, 128]",
        "BLOCK: [64, 96]",
        r"tiny.yaml:11:14: tiny_kernels:scale does not compile for sm_90 with .*BLOCK=96",
    ),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_an_error_has_line_and_column_and_what_was_meant(folder, old, new, message):
    with pytest.raises(DescriptionError, match=message):
        build(written(folder, DESCRIPTION.replace(old, new, 1)), folder / "wrong")
    assert not (folder / "wrong").exists()


def test_an_op_that_nobody_knows_needs_a_signature(folder):
    text = (
        "schema: opdock.triton/1\nname: a\nversion: '1'\nvendor: a\narchitectures: sm_90\nops:\n  gelo: {kernels: []}\n"
    )
    with pytest.raises(DescriptionError, match=r"tiny.yaml:7:3: 'gelo' is not a standard op; did you mean 'gelu'\?"):
        build(written(folder, text), folder / "wrong")


def test_expressions_mean_what_they_mean_in_tune_files():
    def value(text: str, **names: float) -> float:
        def fail(message: str, at: int):
            raise AssertionError(f"{message} at {at} of {text}")

        return _expression.evaluate(_expression.parse(text, fail), names)

    assert value("-7 % 4") == -3 and value("7 / 2") == 3.5 and value("2 ^ 3 ^ 2") == 512 and value("-2 ^ 2") == -4
    assert (
        value("n % 8 == 0 ? 8 : n > 3 ? 2 : 1", n=5) == 2 and value("1 || 2 && 0") == 1 and value("(3 && 4) + 1") == 2
    )
    assert value("min(3, 1, 2) + max(1, 2)") == 3 and value("cdiv(7, 2) + round_up(5, 4)") == 12
    assert value("next_pow2(0) + next_pow2(5) + prev_pow2(1) + prev_pow2(9)") == 18


FLAGGEMS = """scale:
- gen: true
  param_map:
    META:
      BLOCK: block
    num_warps: warps
  block: [64, 256]
  warps: [1, 2]
"""


def test_configs_come_from_tune_files_and_those_of_flaggems_as_they_are(folder, monkeypatch):
    monkeypatch.setenv("PATH", f"{TOOLS / 'plugin-tune'}:{os.environ['PATH']}")
    (folder / "tune_configs.yaml").write_text(FLAGGEMS)
    (folder / "ours.tune.yaml").write_text(
        "schema: opdock.tune/1\nops: {tiny.scale: [{dtypes: f32, product: {BLOCK: [32, 64]}}, {configs: [{BLOCK: 96}]}]}\n"
    )

    def configs(given: str) -> list[dict[str, int]]:
        text = DESCRIPTION.replace("product: {BLOCK: [64, 128], num_warps: 1}", f"configs: {given}")
        return _description.load(written(folder, text)).implementations[0].configs

    found = configs("{file: tune_configs.yaml, op: scale}")
    assert sorted((one["BLOCK"], one["num_warps"]) for one in found) == [(64, 1), (64, 2), (256, 1), (256, 2)]
    assert configs("{file: ours.tune.yaml}") == [{"BLOCK": 32}, {"BLOCK": 64}, {"BLOCK": 96}]
    with pytest.raises(DescriptionError, match=r"tiny.yaml:12:4\d: '.*ours.tune.yaml' has no configs of 'softmax'"):
        configs("{file: ours.tune.yaml, op: softmax}")


def test_the_example_has_ten_ops_and_few_kernels():
    description = _description.load(SOURCE / "examples" / "triton-plugin" / "acme.yaml")
    assert len(description.implementations) == 10
    jobs = {
        job for one in description.implementations for table in _compile.tables(one, ["sm_90"]) for job in table.jobs
    }
    assert len(jobs) < 420


def test_a_module_that_asks_for_a_device_is_imported_without_one(folder, monkeypatch):
    torch = pytest.importorskip("torch")

    def is_available() -> bool:
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    (folder / "asks.py").write_text(
        "import torch\n"
        "assert torch.cuda.is_available() and torch.cuda.device_count() == 1\n"
        "NAME = torch.cuda.get_device_name(torch.cuda.current_device())\n"
        "CAPABILITY = torch.cuda.get_device_capability()\n"
        "MAJOR = torch.cuda.get_device_properties(0).major\n" + KERNELS
    )
    text = DESCRIPTION.replace("tiny_kernels", "asks").replace("[sm_90]", "[gfx942, sm_90]")
    assert len(_description.load(written(folder, text)).implementations) == 2
    asks = sys.modules.pop("asks")
    assert (asks.NAME, asks.CAPABILITY, asks.MAJOR) == ("gfx942", (9, 4), 9)
    assert torch.cuda.is_available is is_available
    with _device.stand_in("sm_103"):
        assert torch.cuda.get_device_capability(0) == (10, 3)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # a GPU is queried if there is one
    name = torch.cuda.get_device_name
    with _device.stand_in("sm_80"):
        assert torch.cuda.get_device_name is name


# Constants, conditions, variants.

TILED = """  tiny.tiled:
    signature: 'tiny.tiled(x: T[..., n]) -> (y: T[..., n])'
    kernels:
      function: tiny_kernels:tiled
      grid: cdiv(n, BLOCK)
      arguments: {bias: null, n: n, m: rows, kept: 1, IS_WHOLE: n % BLOCK == 0}
      when: [BLOCK > 32, rows > 0]
    product: {BLOCK: [32, 64, 128]}
    where: BLOCK > 32
    heuristics: {BLOCK: 'n > 100 ? 128 : 64'}
"""


def jobs_of(folder: pathlib.Path, ops: str) -> tuple[list[list[str]], list[_compile.Job]]:
    """For the only kernel: the assumptions of each variant, and the compiled jobs."""
    text = DESCRIPTION.partition("  tiny.scale:")[0] + ops
    (made,) = _description.load(written(folder, text)).implementations
    (table,) = _compile.tables(made, ["sm_90"])
    variants = [one.aligned + one.divisible + one.ones for one in made.launches[0].variants]
    return variants, table.jobs


def test_a_condition_that_the_call_decides_is_compiled_for_both(folder, tmp_path):
    _, jobs = jobs_of(folder, TILED)
    # Kernels that `when` excludes are not compiled: a list of conditions is checked one by one.
    constants = {tuple(value for name, value in job.constants if name in ("BLOCK", "IS_WHOLE")) for job in jobs}
    assert constants == {(64, 0), (64, 1), (128, 0), (128, 1)}
    assert all(dict(job.constants)["bias"] is None for job in jobs)
    _, jobs = jobs_of(folder, TILED.replace("where: BLOCK > 32", "where: [BLOCK > 64, n > 0]"))
    assert {dict(job.constants)["BLOCK"] for job in jobs} == {128}
    driver = Driver(build(written(folder, DESCRIPTION.partition("  tiny.scale:")[0] + TILED), tmp_path), tmp_path)
    for size, blocks in ((128, 1), (200, 2), (64, 1)):
        driver.run("plugin-run", "tiny.tiled", "--device", "cuda", "--in", f"x=random:f32[3,{size}]")
        ((name, x, *_, arguments),) = driver.launches()
        # x, y, n and m: bias is None, and kept is 1.
        assert (name, int(x)) == ("tiled", blocks) and struct.unpack_from("<ii", bytes.fromhex(arguments), 16) == (
            size,
            3,
        )


def test_a_constexpr_that_a_call_decides_has_to_be_true_or_false(folder):
    for value in ("n % BLOCK", "n > 4 ? 2 : 0", "n + (n > 4)"):
        with pytest.raises(DescriptionError, match="a constexpr must be known when the plugin is built"):
            jobs_of(folder, TILED.replace("n % BLOCK == 0", f"'{value}'"))
    for value in ("n > 4 && n < 9", "n > 4 || n < 2", "(n > 4) == 1", "n > 4 ? n < 9 : n < 2"):
        jobs_of(folder, TILED.replace("n % BLOCK == 0", f"'{value}'"))
    with pytest.raises(DescriptionError, match="a constexpr must be known"):
        jobs_of(
            folder,
            TILED.replace("product: {", "product: {num_warps: 4, ").replace("when:", "num_warps: n\n      when:"),
        )


def test_variants_let_the_number_of_rows_be_any(folder):
    variants, _ = jobs_of(folder, TILED)
    assert variants == [["x", "y", "n", "m", "kept"], ["x", "y", "n", "kept"], ["kept"]]
    other = "      specialize: [{aligned: x, divisible: m}, {}]\n    product"
    assert jobs_of(folder, TILED.replace("    product", other))[0] == [["x", "m", "kept"], ["kept"]]
    vectors = TILED.replace("T[..., n]", "T[n]").replace("m: rows", "m: 32").replace(", rows > 0", "")
    assert jobs_of(folder, vectors)[0] == [["x", "y", "m", "n", "kept"], ["m", "kept"]]


# Behavior of the plugin.


def run(tool: str, *arguments: object, code: int = 0, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if k not in ("PLUGIN_MODULES", "PLUGIN_DEFAULT_PLUGINS")}
    done = subprocess.run(
        [TOOLS / tool / tool, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env=environment | variables,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return re.sub(r"\s+", " ", done.stdout + done.stderr)  # lines are folded


class Driver:
    """Runs tools with the driver of OPDOCK_TEST_DRIVER and a device of its type."""

    def __init__(self, plugin: pathlib.Path, folder: pathlib.Path) -> None:
        self.log = folder / "launches"
        self.variables = {
            "LD_LIBRARY_PATH": os.environ["OPDOCK_TEST_DRIVER"],
            "OPDOCK_FAKE_DRIVER_LOG": str(self.log),
            "PLUGIN_MODULES": f"{plugin},{os.environ['OPDOCK_TEST_DEVICE_PLUGIN']}",
            "PLUGIN_SCAN_CACHE": "off",
            "XDG_CACHE_HOME": str(folder),
        }

    def run(self, tool: str, *arguments: object, code: int = 0, **variables: str) -> str:
        return run(tool, *arguments, code=code, **self.variables | variables)

    def launches(self) -> list[list[str]]:
        """Launches since the last call: the words of fake_driver.c's lines."""
        lines = [line.split(" ") for line in self.log.read_text().splitlines()] if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def driver(plugin: pathlib.Path, tmp_path: pathlib.Path) -> Driver:
    return Driver(plugin, tmp_path)


def test_a_host_takes_the_file_also_stripped(plugin, tmp_path):
    assert re.search(r"status +ok", run("plugin-ls", "--check", plugin))
    stripped = tmp_path / "libtiny.so"
    subprocess.run(["strip", "-o", stripped, plugin], check=True)
    assert stripped.stat().st_size < plugin.stat().st_size
    for file in (plugin, stripped):
        shown = run("plugin-ls", "--modules", file, PLUGIN_SCAN_CACHE="off")
        assert "tiny.scale" in shown and "tiny.sum" in shown and "vendor.tiny" in shown
    needed = subprocess.run(["readelf", "-d", plugin], check=True, capture_output=True, text=True).stdout
    assert "libcuda" not in needed and "libz" not in needed


def test_it_is_signed_and_denied_as_any_plugin(driver, plugin, tmp_path):
    signed = pathlib.Path(shutil.copy(plugin, tmp_path))
    key = tmp_path / "tiny"
    run("plugin-sign", "keygen", key, "--no-passphrase")
    run("plugin-sign", "sign", signed, "--key", f"{key}.key")
    run("plugin-sign", "verify", signed, "--pub", f"{key}.pub")
    why = driver.run("plugin-ls", "--why", "tiny.sum", "--device", "cuda", code=1, PLUGIN_DENY_VENDORS="tiny")
    assert "vendor.tiny" in why and "denied" in why


def test_it_is_packed_and_installed_as_any_plugin(driver, plugin, tmp_path):
    key, package, folder = tmp_path / "tiny", tmp_path / "tiny.opdock", tmp_path / "installed"
    run("plugin-pack", "keygen", key, "--no-passphrase")
    files = ("--plugin", plugin, "--tune", plugin.parent / "tiny.tune.yaml", "--key", f"{key}.key")
    run("plugin-pack", "patch", "--device-type", "Tiny_A1", "--task", "inference", *files, "--out", package)
    assert "libtiny.so" in run("plugin-pack", "inspect", package, "--pub", f"{key}.pub")
    run("plugin-pack", "install", package, "--folder", folder, "--pub", f"{key}.pub")
    (installed,) = folder.rglob("libtiny.so")
    assert installed.read_bytes() == plugin.read_bytes()
    driver.variables["PLUGIN_MODULES"] = f"{folder},{os.environ['OPDOCK_TEST_DEVICE_PLUGIN']}"
    driver.run("plugin-run", "tiny.scale", "--device", "cuda", "--in", "x=random:f32[250]")
    ((name, x, *_),) = driver.launches()
    assert (name, x) == ("scale", "2")


def test_equal_descriptions_make_equal_files_and_others_another_build(plugin, folder, tmp_path):
    again = build(written(folder, DESCRIPTION), tmp_path)
    assert again.read_bytes() == plugin.read_bytes()
    other = build(written(folder, DESCRIPTION.replace("1.0.0", "1.0.1")), tmp_path / "other")
    ids = {
        subprocess.run(["readelf", "-n", one], check=True, capture_output=True, text=True).stdout.partition(
            "Build ID: "
        )[2][:40]
        for one in (plugin, other)
    }
    assert len(ids) == 2


def test_a_variant_is_chosen_by_what_the_call_is(driver):
    driver.run("plugin-run", "tiny.scale", "--device", "cuda", "--in", "x=random:f32[64]", "--attr", "alpha=3")
    (first,) = driver.launches()
    assert first[0] == "scale" and first[1:6] == ["1", "1", "1", "32", first[5]]
    # x, y, n, alpha, and Triton's two pointers; the stride is 1 and not an argument.
    bytes_of = bytes.fromhex(first[6])
    assert len(bytes_of) == 8 + 8 + 4 + 4 + 8 + 8 and struct.unpack_from("<if", bytes_of, 16) == (64, 3.0)
    driver.run("plugin-run", "tiny.scale", "--device", "cuda", "--in", "x=random:f32[250]")
    (second,) = driver.launches()
    assert second[1] == "2" and struct.unpack_from("<if", bytes.fromhex(second[6]), 16) == (250, 2.0)
    driver.run("plugin-run", "tiny.scale", "--device", "cuda", "--in", "x=random:f32[0]")
    assert driver.launches() == []


def test_two_kernels_share_a_workspace_and_a_config_of_autotune(driver):
    driver.run("plugin-run", "tiny.sum", "--device", "cuda", "--in", "x=random:f32[1000]")
    first, second = driver.launches()
    assert (first[0], first[1], first[4]) == ("sums", "16", "32") and (second[0], second[1]) == ("total", "1")
    partial = struct.unpack_from("<QQi", bytes.fromhex(first[6]))[1]
    assert struct.unpack_from("<QQi", bytes.fromhex(second[6]))[::2] == (partial, 16)
    assert partial % 256 == 0


def test_a_workspace_serves_where_an_optional_tensor_is_absent(folder, tmp_path):
    text = DESCRIPTION.partition("  tiny.scale:")[0] + (
        "  tiny.count:\n"
        "    signature: 'tiny.count(x: T[n]) -> (y: T[], kept: f32[]?)'\n"
        "    workspace: {unused: {dtype: f32, size: 'has_kept ? 0 : 1'}}\n"
        "    kernels:\n"
        "      function: tiny_kernels:count\n"
        "      grid: 1\n"
        "      arguments: {kept: [kept, unused], factor: 2.0, BLOCK: 64}\n"
    )
    driver = Driver(build(written(folder, text), tmp_path), tmp_path)
    driver.run("plugin-run", "tiny.count", "--device", "cuda", "--in", "x=random:f32[50]")
    ((name, *_, arguments),) = driver.launches()
    _, _, kept, n, factor = struct.unpack_from("<QQQif", bytes.fromhex(arguments))
    assert (name, n, factor) == ("count", 50, 2.0) and kept != 0 and kept % 256 == 0


def test_what_cannot_be_served_is_declined_with_the_reason(driver, plugin):
    why = driver.run("plugin-ls", "--why", "tiny.sum", "--device", "cuda", "--shape", "x=f32[100000]")
    assert "'n <= 256 * BLOCK' does not hold" in why
    why = driver.run("plugin-ls", "--why", "tiny.sum", "--device", "cuda", code=1, OPDOCK_FAKE_DRIVER_CUDA="11080")
    assert "the driver is for CUDA 11; a newer driver is needed" in why
    why = driver.run("plugin-ls", "--why", "tiny.sum", "--device", "cuda", code=1, LD_LIBRARY_PATH="/nowhere")
    assert "CUDA's driver cannot be opened: libcuda.so.1" in why


def test_code_for_other_devices_and_too_much_shared_memory_are_reasons(folder, tmp_path):
    text = DESCRIPTION.partition("  tiny.scale:")[0].replace("sm_90", "sm_80, sm_90").replace("f32", "f16") + (
        "  tiny.hungry:\n"
        "    signature: 'tiny.hungry(x: T[n, n]) -> (y: T[n, n])'\n"
        "    kernels: {function: 'tiny_kernels:hungry', grid: 1}\n"
        "    product: {BLOCK: [256], num_warps: 8}\n"
    )
    file = written(folder, text)
    driver = Driver(build(file, tmp_path / "both"), tmp_path)
    why = driver.run("plugin-ls", "--why", "tiny.hungry", "--device", "cuda", "--shape", "x=f16[256,256]")
    assert "bytes of shared memory, but the device has 65536" in why
    driver = Driver(build(file, tmp_path / "old", architectures=["sm_80"]), tmp_path)
    why = driver.run("plugin-ls", "--why", "tiny.hungry", "--device", "cuda", code=1)
    assert "it runs on sm_80, sm_86, sm_87 or sm_89, not on sm_90" in why


def test_knobs_are_tuned_and_the_tune_file_says_by_what(driver, plugin):
    tune = (plugin.parent / "tiny.tune.yaml").read_text()
    assert "tiny.scale:" in tune and '"BLOCK": [64, 128]' in tune and '"where": ["n <= 256 * BLOCK"]' in tune
    shown = driver.run("plugin-ls", "--why", "tiny.scale", "--device", "cuda", "--shape", "x=f32[250]")
    assert "BLOCK=128" in shown


def test_packed_code_is_unpacked_as_zlib_packs_it(tmp_path):
    """Uses a program built from inflate.cpp alone."""
    seed = int(os.environ.get("OPDOCK_TEST_SEED", "20261125"))
    program = os.environ["OPDOCK_TEST_INFLATE"]
    random = __import__("random").Random(seed)
    for size in (0, 1, 100, 70000):
        for data in (
            random.randbytes(size),
            bytes(size),
            bytes(random.choices(b"abcd", k=size)),
            random.randbytes(64) * (size // 64),
        ):
            for level in (0, 1, 9):
                made = zlib.compressobj(level, zlib.DEFLATED, -15)
                packed = made.compress(data) + made.flush()
                done = subprocess.run([program, str(len(data))], input=packed, check=False, capture_output=True)
                assert (done.returncode, done.stdout) == (0, data), (seed, size, level)
                cut = subprocess.run([program, str(len(data))], input=packed[:-1], check=False, capture_output=True)
                wrong = subprocess.run([program, str(len(data) + 1)], input=packed, check=False, capture_output=True)
                assert (cut.returncode == 1 or cut.stdout == data) and wrong.returncode == 1


def test_the_command_says_what_is_wrong(folder):
    file = written(folder, DESCRIPTION.replace("ops:", "opps:"))
    command = [sys.executable, "-P", "-c", "from opdock._command import main; raise SystemExit(main())"]
    done = subprocess.run([*command, "triton", "build", file], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"opdock: {file}:7:1: unknown field 'opps'; did you mean 'ops'? Known fields are schema, name, "
        "version, vendor, priority, tune_version, architectures, python, dtypes, deterministic, ops.\n"
    )
