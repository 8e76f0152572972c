"""plugin-bisect on a Python program in which a vendor's plugin computes some calls wrong."""

import json
import os
import pathlib
import subprocess
import sys

TOOL = pathlib.Path(os.environ["OPDOCK_BUILD"]) / "tools" / "plugin-bisect" / "plugin-bisect"

PROGRAM = """
import sys
import numpy, opdock
host = opdock.Host()
x = numpy.ones(4, "f4")
right = sum(bool((host.op(f"many.op{i}")(x) == 2).all()) for i in range(64))
print("right:", right)
sys.exit(right != 64 and "score" not in sys.argv)
"""


def bisect(*options: str, wrong: str, words: tuple[str, ...] = ()) -> dict:
    environment = {**os.environ, "PLUGIN_MODULES": os.environ["OPDOCK_TEST_MANY"], "MANY_WRONG": wrong}
    done = subprocess.run(
        [TOOL, "--json", *options, "--", sys.executable, "-c", PROGRAM, *words],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_op_that_makes_a_program_in_python_wrong_is_found(tmp_path):
    document = bisect("--state", str(tmp_path / "state"), wrong="37")
    assert document["ops_from"] == "log"
    assert document["culprits"][0]["members"] == [{"op": "many.op37", "impl_id": "vendor.many"}]
    assert document["culprits"][0]["named_after"] <= 8
    assert document["remedy_tested"]


def test_a_score_that_it_prints_will_do(tmp_path):
    state = str(tmp_path / "state")
    score = ["--score", "right: (.*)", "--at-least", "64"]
    document = bisect("--first", "--state", state, *score, wrong="5", words=("score",))
    assert document["as_it_is"]["mean"] == 63
    assert document["culprits"][0]["members"][0]["op"] == "many.op5"
