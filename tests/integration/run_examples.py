"""Runs the examples that the tools print and their manuals show, as they stand there.

    run_examples.py PLUGIN_BENCH PLUGIN_CHECK PLUGIN_LS PLUGIN_PACK PLUGIN_RUN PLUGIN_SIGN PLUGIN_TUNE MANUALS
                    CPU_PLUGIN REFERENCE_PLUGIN ACME_PLUGIN

In a folder with the files that they name: x.npy, w.npy, passphrase.txt, shapes.yaml, tune files, and
libacme.so, which is ACME_PLUGIN. What is tuned is a copy of CPU_PLUGIN with a small tune file; Megatron-LM is a
repository of two files. Each must exit with 0.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*plugin-(?:bench|check|ls|pack|run|sign|tune)(?: |$)")


def of_help(text):
    """The commands after "Examples:". What follows two blanks explains one; a backslash continues one."""
    text = re.sub(r" *\\\n +", " ", text.partition("\nExamples:\n")[2])
    for line in text.splitlines():
        command = re.split(r" {2,}", line.strip())[0]
        if line.startswith("  ") and COMMAND.match(command):
            yield command


def of_manual(text):
    """The commands of the section EXAMPLES, each on a line of its own."""
    for line in text.partition(".SH EXAMPLES\n")[2].partition(".SH ")[0].splitlines():
        if COMMAND.match(line):
            yield line.replace("\\-", "-").replace("\\e", "\\")


TUNE_FILE = """schema: opdock.tune/1
ops:
  rmsnorm_fwd:
    configs: [{grain_kib: 64}, {grain_kib: 1024}]
  gelu:
    configs: [{grain_kib: 64}, {grain_kib: 1024}]
"""
SHAPES = """- op: rmsnorm_fwd
  inputs: {input: "f32[512,1024]", weight: "f32[1024]"}
"""
FLAGGEMS = """gelu_and_mul:
- META:
    BLOCK: 64
  num_warps: 4
"""


def make_repository(folder, environment):
    folder.mkdir()

    def git(*arguments):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *who, *arguments], cwd=folder, env=environment, check=True, capture_output=True)

    git("init", "--quiet")
    (folder / "train.py").write_text("one\ntwo\n", encoding="utf-8")
    git("add", "train.py")
    git("commit", "--quiet", "--message=first")
    git("tag", "core_r0.9")
    (folder / "train.py").write_text("one\nadapted\n", encoding="utf-8")
    (folder / "acme.py").write_text("new\n", encoding="utf-8")


def prepare(folder, environment, acme):
    make_repository(folder / "Megatron-LM", environment)
    (folder / "shapes.yaml").write_text(SHAPES, encoding="utf-8")
    (folder / "libacme.tune.yaml").write_text(TUNE_FILE, encoding="utf-8")
    (folder / "tune_configs.yaml").write_text(FLAGGEMS, encoding="utf-8")
    shutil.copy(acme, folder / "libacme.so")
    (folder / "passphrase.txt").write_text("correct horse\n", encoding="utf-8")
    (folder / "passphrase.txt").chmod(0o600)
    for file, dims in {"x.npy": "3,4", "w.npy": "4"}.items():
        subprocess.run(["plugin-run", "relu", "--in", f"input=random:f32[{dims}]", "--out", f"output={file}"],
                       cwd=folder, env=environment, check=True, capture_output=True)
    if shutil.which("jq") is None:  # at least what it is given has to be JSON
        stand_in = folder / "jq"
        stand_in.write_text("#!/bin/sh\nexec python3 -m json.tool >/dev/null\n", encoding="utf-8")
        stand_in.chmod(0o755)


def main():
    *tools, manuals, cpu, reference, acme = map(pathlib.Path, sys.argv[1:])
    examples = []
    for tool in tools:
        text = subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
        manual = (manuals / tool.name / f"{tool.name}.1").read_text(encoding="utf-8")
        for found in (list(of_help(text)), list(of_manual(manual))):
            if len(found) < 3:
                print(f"found only {len(found)} examples of {tool.name}: {found}", file=sys.stderr)
                return 1
            examples += found
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PLUGIN_")}
        environment["PATH"] = ":".join([*(str(tool.parent) for tool in tools), environment["PATH"], name])
        tuned = folder / "tuned"
        tuned.mkdir()
        shutil.copy(cpu, tuned / "libcpu.so")
        (tuned / "cpu.tune.yaml").write_text(TUNE_FILE, encoding="utf-8")
        environment["PLUGIN_TUNE_DB"] = str(folder / "tune.sqlite")
        environment["PLUGIN_MODULES"] = f"{tuned}/libcpu.so:{reference}:{folder}/libacme.so"
        environment["PLUGIN_MODULES_ONLY"] = "1"
        prepare(folder, environment, acme)
        for example in examples:
            # A pipe must not hide that its beginning fails.
            done = subprocess.run(["bash", "-o", "pipefail", "-c", example], cwd=folder, env=environment,
                                  capture_output=True, text=True, check=False)
            if done.returncode != 0:
                wrong += 1
                print(f"'{example}' exits with {done.returncode}:\n{done.stdout}{done.stderr}", file=sys.stderr)
    print(f"{len(examples)} examples, {wrong} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
