"""Runs the examples that a tool and its manual print, or those of a document, exactly as they are written.

    run_examples.py TOOL|DOCUMENT MANUALS CPU_PLUGIN REFERENCE_PLUGIN ACME_PLUGIN PATH_OF_A_TOOL...

They run in a folder with the files that they name: x.npy, w.npy, call.safetensors, passphrase.txt, shapes.yaml, tune
files, a trace, scripts that fail because of one implementation, and libacme.so, which is ACME_PLUGIN. $PID is a process
with an open host. Tuning works on a copy of CPU_PLUGIN with a small tune file. Megatron-LM is a repository with two
files. The examples of a document run one after the other, on a terminal where every passphrase is the same and every
other question is answered with an empty line. Each must exit with 0.
"""

import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile

COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*plugin-(?:bench|bisect|check|ls|pack|run|sign|tune)(?: |$)")


def of_help(text):
    """The commands after "Examples:". Text after two blanks is an explanation; a backslash continues a line."""
    text = re.sub(r" *\\\n +", " ", text.partition("\nExamples:\n")[2])
    for line in text.splitlines():
        command = re.split(r" {2,}", line.strip())[0]
        if line.startswith("  ") and COMMAND.match(command):
            yield command


def of_manual(text):
    """The commands of the section EXAMPLES, one per line."""
    for line in text.partition(".SH EXAMPLES\n")[2].partition(".SH ")[0].splitlines():
        if COMMAND.match(line):
            yield line.replace("\\-", "-").replace("\\e", "\\")


def of_document(text):
    """The commands in the document's code blocks; a backslash continues a line."""
    for line in re.sub(r" *\\\n +", " ", text).splitlines():
        if line.startswith("    ") and COMMAND.match(line.strip()):
            yield line.strip()


def on_terminal(command, folder, environment):
    """The exit code, and the text on the terminal."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe("bash", ["bash", "-c", command], environment)
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        shown += piece
        if shown.endswith(b": "):
            line = shown.splitlines()[-1].lower()
            os.write(terminal, b"correct horse\n" if b"passphrase" in line else b"\n")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode(errors="replace")


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
# An evaluation whose scores are bad if default.cpu serves gelu.
EVALUATE = """#!/bin/sh
for op in relu gelu silu; do
    PLUGIN_LOG_LEVEL=INFO plugin-run $op --in input=random:f32[8] >/dev/null 2>log.$$ || exit 2
    cat log.$$ >&2
    grep -q "'gelu' using 'default.cpu'" log.$$ && wrong=1
done
if [ "$wrong" ]; then
    printf 'accuracy: 0.6\\nright: 30\\nloss 3.5\\n'
else
    printf 'accuracy: 0.96\\nright: 48\\nloss 1.5\\n'
fi
"""
TEST = """#!/bin/sh
./evaluate.sh | grep -q 'right: 48'
"""
FLAGSCALE = """backends_commit:
  {backend}: {commit}
backends_version:
  {backend}: core_r0.9
contact: ops@acme.example
device_type: Acme_A1
models: [llama]
task: {task}
"""
FLAGGEMS = """silu_and_mul_out:
- META:
    block: 64
- META:
    block: 256
"""


# The trace of a process that was killed before its first call: the header of host/src/observe/trace_format.hpp, and
# room for one call.
TRACE = struct.pack("=8sIIQQQQqd", b"opdockT1", 64, 0, 1, 0, 1, 0, 0, 1.0).ljust(4096 + 64, b"\0")


def call_file():
    """A call file of gelu as a host writes it (host/src/observe/call_files.hpp): four zeros in and out."""
    names = ["input", "program.output", "shadow.output"]
    header = {name: {"dtype": "F32", "shape": [4], "data_offsets": [16 * i, 16 * i + 16]} for i, name in enumerate(names)}
    header["__metadata__"] = {
        "format": "opdock.call/1", "opdock": "1.0.0", "op": "gelu", "device": "cpu:0", "implementation": "default.cpu",
        "shadow": "reference.cpp", "difference": "in 'output', element 0 is 1, expected 0",
        "attributes": "{}", "outputs": "[]", "strides": "{}"}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(16 * len(names))


def make_repository(folder, environment):
    """Makes a repository with two tags: core_r0.9 at the first commit, and core_r0.10 after a change."""
    folder.mkdir()
    dates = {f"GIT_{who}_DATE": "@1 +0000" for who in ("AUTHOR", "COMMITTER")}  # for the same ids everywhere

    def git(*arguments):
        who = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
        done = subprocess.run(["git", *who, *arguments], cwd=folder, env=environment | dates, check=True,
                              capture_output=True)
        return done.stdout.decode()

    git("init", "--quiet")
    (folder / "train.py").write_text("one\ntwo\n", encoding="utf-8")
    for tag, file in {"core_r0.9": "train.py", "core_r0.10": "later.py"}.items():
        (folder / file).touch()
        git("add", file)
        git("commit", "--quiet", "--message=first")
        git("tag", tag)
    git("checkout", "--quiet", "core_r0.9")
    (folder / "train.py").write_text("one\nadapted\n", encoding="utf-8")
    difference, commit = git("diff"), git("rev-parse", "HEAD").strip()
    (folder / "acme.py").write_text("new\n", encoding="utf-8")
    return difference, commit


def make_flagscale(folder, environment):
    """FlagScale with a vendor's changes to vllm and Megatron-LM."""
    difference, commit = make_repository(folder / "vllm", environment)
    make_repository(folder / "FlagScale", environment)
    hardware = folder / "FlagScale" / "hardware" / "Acme_A1"
    for backend, task in {"vllm": "inference", "Megatron-LM": "train"}.items():
        (hardware / backend).mkdir(parents=True)
        (hardware / backend / "diff.patch").write_text(difference, encoding="utf-8")
        (hardware / backend / "diff.yaml").write_text(FLAGSCALE.format(backend=backend, task=task, commit=commit), encoding="utf-8")


def prepare(folder, environment, acme):
    make_repository(folder / "Megatron-LM", environment)
    (folder / "shapes.yaml").write_text(SHAPES, encoding="utf-8")
    (folder / "t.json.ring").write_bytes(TRACE)
    (folder / "call.safetensors").write_bytes(call_file())
    (folder / "libacme.tune.yaml").write_text(TUNE_FILE, encoding="utf-8")
    (folder / "tune_configs.yaml").write_text(FLAGGEMS, encoding="utf-8")
    shutil.copy(acme, folder / "libacme.so")
    for name, script in {"evaluate.sh": EVALUATE, "test.sh": TEST}.items():
        (folder / name).write_text(script, encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "passphrase.txt").write_text("correct horse\n", encoding="utf-8")
    (folder / "passphrase.txt").chmod(0o600)
    for file, dims in {"x.npy": "3,4", "w.npy": "4"}.items():
        subprocess.run(["plugin-run", "relu", "--in", f"input=random:f32[{dims}]", "--output", f"output={file}"],
                       cwd=folder, env=environment, check=True, capture_output=True)
    if shutil.which("jq") is None:  # the stand-in only checks that its input is JSON
        stand_in = folder / "jq"
        stand_in.write_text("#!/bin/sh\nexec python3 -m json.tool >/dev/null\n", encoding="utf-8")
        stand_in.chmod(0o755)


def prepare_walk(folder, environment, acme):
    folder.mkdir()
    make_repository(folder / "Megatron-LM", environment)
    make_flagscale(folder, environment)
    (folder / "build").mkdir()
    for place in (folder, folder / "build"):
        shutil.copy(acme, place / "libacme.so")
    (folder / "shapes.yaml").write_text(SHAPES, encoding="utf-8")
    (folder / "acme.tune.yaml").write_text(TUNE_FILE, encoding="utf-8")
    (folder / "tune_configs.yaml").write_text(FLAGGEMS, encoding="utf-8")
    (folder / "fast.yaml").write_text("prefer: vendor\n", encoding="utf-8")
    (folder / "LICENSE").write_text("ours\n", encoding="utf-8")


def examples_of(tool, manuals):
    text = subprocess.run([tool, "--help"], check=True, capture_output=True, text=True).stdout
    manual = (manuals / tool.name / f"{tool.name}.1").read_text(encoding="utf-8")
    for place, found in {"--help": list(of_help(text)), "the manual": list(of_manual(manual))}.items():
        if len(found) < 3:
            raise SystemExit(f"found only {len(found)} examples in {place} of {tool.name}: {found}")
        yield from found


def without_terminal(command, folder, environment):
    """The exit code and the output. With pipefail, so that a pipe does not hide a failure of its first command."""
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=folder, env=environment, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def make_environment(folder, tools, plugins):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PLUGIN_")}
    environment["PATH"] = ":".join([*(str(tool.parent) for tool in tools), environment["PATH"], str(folder)])
    for variable in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        environment[variable] = str(folder / "home")
    environment["TMPDIR"] = str(folder)
    environment["XDG_RUNTIME_DIR"] = str(folder / "run")
    environment["PLUGIN_TUNE_DB"] = str(folder / "tune.sqlite")
    environment["PLUGIN_MODULES"] = ":".join(map(str, plugins))
    environment["PLUGIN_MODULES_ONLY"] = "1"
    environment["PLUGIN_DEFAULT_PLUGINS"] = "opdock"  # as built, not installed beside the library
    return environment


def start_live_process(folder, environment):
    """A process that answers which implementations serve in it, until it is killed; $PID in the examples."""
    command = ["plugin-run", "relu", "--in", "input=random:f32[4096,4096]", "--impl", "reference.cpp", "--repeat", "1000000"]
    process = subprocess.Popen(command, cwd=folder, env=environment | {"PLUGIN_LIVE": "1"}, stdout=subprocess.DEVNULL)
    environment["PID"] = str(process.pid)
    ask = ["plugin-ls", "--pid", environment["PID"], "--paths"]
    while subprocess.run(ask, cwd=folder, env=environment, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None:
            raise SystemExit(f"{command} exits with {process.returncode}")
    return process


def main():
    subject, manuals, cpu, reference, acme, *tools = map(pathlib.Path, sys.argv[1:])
    is_document = subject.suffix == ".md"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tuned = folder / "tuned"
        tuned.mkdir()
        shutil.copy(cpu, tuned / "libcpu.so")
        (tuned / "cpu.tune.yaml").write_text(TUNE_FILE, encoding="utf-8")
        environment = make_environment(folder, tools, [tuned / "libcpu.so", reference, folder / "libacme.so"])
        prepare(folder, environment, acme)
        if subject.name == "plugin-pack":  # which does not read its contents
            (folder / "acme.tune.yaml").write_text(TUNE_FILE, encoding="utf-8")
        if is_document:
            prepare_walk(folder / "walk", environment, acme)
            examples, run, place = list(of_document(subject.read_text(encoding="utf-8"))), on_terminal, folder / "walk"
        else:
            examples, run, place = list(examples_of(subject, manuals)), without_terminal, folder
        live = start_live_process(folder, environment) if subject.name == "plugin-ls" else None
        wrong = 0
        for example in examples:
            code, shown = run(example, place, environment)
            if code != 0:
                wrong += 1
                print(f"'{example}' exits with {code}:\n{shown}", file=sys.stderr)
        if live is not None:
            live.kill()
            live.wait()
    print(f"{len(examples)} examples of {subject.name}, {wrong} faults")
    return 1 if wrong or not examples else 0


if __name__ == "__main__":
    sys.exit(main())
