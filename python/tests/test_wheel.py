"""A vendor's wheel: built against an installed package, found by it, and removed with its files.

OPDOCK_BUILD is a build tree. Nothing is downloaded: the build tools come from this Python's environment.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["OPDOCK_BUILD"])


def run(*command: object, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PLUGIN_")} | variables
    done = subprocess.run(list(map(str, command)), check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the package, as its wheel installs it."""
    site = tmp_path_factory.mktemp("site")
    package = site / "opdock"
    shutil.copytree(BUILD / "python" / "opdock", package, ignore=shutil.ignore_patterns("__pycache__"))
    run("cmake", "--install", BUILD, "--prefix", package)
    run("patchelf", "--set-rpath", "$ORIGIN/lib", next(package.glob("_native*.so")))
    return site


@pytest.fixture(scope="module")
def wheel(site: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(SOURCE / "examples" / "acme-plugin", folder / "acme")
    arguments = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--wheel-dir", folder]
    run(sys.executable, "-m", "pip", "wheel", *arguments, folder / "acme", CMAKE_PREFIX_PATH=str(site / "opdock"))
    return next(folder.glob("*.whl"))


SCRIPT = """
import numpy, opdock
host = opdock.Host()
x = numpy.ones((2, 4), "f4")
host.rmsnorm_fwd(x, x[0])
print(host.explain("rmsnorm_fwd")["chain"])
"""


def test_a_vendors_wheel_is_found_where_it_is_installed(site, wheel):
    assert wheel.name == f"opdock_acme-1.0.0-py3-none-{wheel.stem.split('-')[-1]}.whl"
    names = zipfile.ZipFile(wheel).namelist()
    own = ("opdock/lib/opdock/plugins/libacme", "opdock/lib/opdock/plugins/acme.", "opdock_acme-1.0.0.dist-info/")
    assert [name for name in names if not name.startswith(own)] == []

    def chain() -> str:
        return run(
            sys.executable, "-P", "-c", SCRIPT, PYTHONPATH=str(site), PLUGIN_PREFER="vendor", PLUGIN_SCAN_CACHE="off"
        )

    def tool() -> str:
        return run(site / "opdock" / "bin" / "plugin-ls", "--json")

    zipfile.ZipFile(wheel).extractall(site)  # the same as an installation
    assert chain() == "['vendor.acme', 'default.cpu', 'reference.cpp']\n"
    assert '"vendor.acme"' in tool()
    for name in names:
        (site / name).unlink()
    assert chain() == "['default.cpu', 'reference.cpp']\n"
    assert '"vendor.acme"' not in tool()


def test_a_lock_lets_in_what_was_there_and_nothing_else(site, wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(site)
    try:
        file = tmp_path / "lock.yaml"
        command = (sys.executable, "-P", "-c", "from opdock._command import main; raise SystemExit(main())", "lock")
        assert run(*command, "--out", file, PYTHONPATH=str(site)) == ""
        text = file.read_text()
        assert (
            " # acme 1.0.0 of acme, opdock-acme 1.0.0\n" in text or " # acme 1.0.0 of acme, opdock_acme 1.0.0\n" in text
        )
        assert run(*command, PYTHONPATH=str(site)) == text

        def rejected() -> str:
            return run(site / "opdock" / "bin" / "plugin-ls", "--rejected", PLUGIN_CONFIG=str(file))

        assert "E061" not in rejected()
        plugin = next((site / "opdock" / "lib" / "opdock" / "plugins").glob("libacme*"))
        plugin.write_bytes(plugin.read_bytes() + b"\0")
        assert "acme" in rejected() and "E061" in rejected() and "libopdock_cpu" not in rejected()
    finally:
        for name in zipfile.ZipFile(wheel).namelist():
            (site / name).unlink()
