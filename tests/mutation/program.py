"""The unit tests as a mutation test needs them: built from a copy of the tree, with the lines that each case reaches."""
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE_C = r"""#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern char __executable_start[] __attribute__((weak)), etext[] __attribute__((weak));
static unsigned char *seen;

/* Each address of the program that was reached marks a byte: 1 + its last two bits. Shared with children. */
__attribute__((constructor)) static void open_trace(void) {
    const char *name = getenv("MUTATION_TRACE");
    const size_t size = (size_t)(etext - __executable_start) / 4 + 1;
    const int file = name != NULL ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
    if (file >= 0 && ftruncate(file, (off_t)size) == 0) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        seen = memory != MAP_FAILED ? memory : NULL;
        close(file);
        unsetenv("MUTATION_TRACE");
    }
}

void __sanitizer_cov_trace_pc(void) {
    if (seen != NULL) {
        const size_t at = (size_t)((char *)__builtin_return_address(0) - __executable_start);
        seen[at / 4] = (unsigned char)(1 + at % 4);
    }
}
"""
TRACED = ["-fsanitize-coverage=trace-pc", "-g1"]

def say(text):
    print(text, flush=True)


def fail(text):
    sys.exit(f"tests/mutation/run: {text}")


def write_if_other(path, content):
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def copy_tree(to):
    """Copies files that git tracks or does not ignore, keeps the times of unchanged ones, and returns a digest."""
    digest = hashlib.sha256()
    listed = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True
    ).stdout.decode()
    names = sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})
    for name in names:
        content = (ROOT / name).read_bytes()
        write_if_other(to / name, content)
        shutil.copymode(ROOT / name, to / name)
        if not name.startswith(("docs/", "tests/mutation/")):
            digest.update(f"{name} {len(content)} ".encode() + content)
    known = {to / name for name in names}
    for path in to.rglob("*"):
        if path.is_file() and path not in known and to / "build" not in path.parents:
            path.unlink()
    return digest.hexdigest()


class Program:
    """The unmodified unit tests: their build commands, their cases, and the lines that each case reaches."""

    def __init__(self, work, jobs):
        self.work, self.source, self.build = work, work / "source", work / "source" / "build"
        self.jobs = jobs
        self.tree = copy_tree(self.source)
        self.compile_all()
        self.read_commands()
        self.isolated = self.can_isolate()
        self.read_cases()

    def compile_all(self):
        write_if_other(self.work / "trace.c", TRACE_C.encode())
        linker = "-fuse-ld=lld" if shutil.which("ld.lld") else ""
        flags = ";".join(TRACED)
        write_if_other(
            self.work / "trace.cmake",
            f'cmake_language(DEFER CALL target_compile_options opdock_core PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:{flags}>")\n'
            f"cmake_language(DEFER CALL target_sources opdock_core PRIVATE {self.work}/trace.c)\n"
            f"cmake_language(DEFER CALL target_link_options unit-tests PRIVATE {linker})\n".encode(),
        )
        settings = {
            "CMAKE_BUILD_TYPE": "Debug",
            "CMAKE_C_FLAGS_DEBUG": "",
            "CMAKE_CXX_FLAGS_DEBUG": "",
            "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
            "CMAKE_UNITY_BUILD": "OFF",  # each mutant is one source
            "CMAKE_PROJECT_opdock_INCLUDE": self.work / "trace.cmake",
            "OPDOCK_BUILD_PLUGINS": "OFF",
            "OPDOCK_SKIP_CUDA": "ON",
            "OPDOCK_SKIP_HIP": "ON",
        }
        say(f"building the unit tests in {self.build}; {self.work}/build.log says how far it is")
        with open(self.work / "build.log", "w", encoding="utf-8") as log:
            given = [f"-D{name}={value}" for name, value in settings.items()]
            for command in (
                ["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", *given],
                ["ninja", "-C", self.build, f"-j{self.jobs}", "unit-tests"],
            ):
                if subprocess.run(command, stdout=log, stderr=log, check=False).returncode != 0:
                    fail(f"the unit tests do not build, see {self.work}/build.log")

    def ninja(self, *words):
        return subprocess.run(["ninja", "-C", self.build, *words], capture_output=True, text=True, check=True).stdout

    def read_commands(self):
        self.commands = {}  # object -> words of its compile command, without the object
        for entry in json.loads((self.build / "compile_commands.json").read_text()):
            words = shlex.split(entry["command"])
            words = words[max([i + 1 for i, word in enumerate(words) if word.endswith("/ccache")], default=0) :]
            output = words[words.index("-o") + 1]
            for option in ("-MF", "-MT", "-o"):
                if option in words:
                    del words[words.index(option) : words.index(option) + 2]
            self.commands[output] = [word for word in words if word not in ("-MD", *TRACED)] + ["-w"]
        self.compile_quickly()
        line = self.ninja("-t", "commands", "unit-tests").splitlines()[-1]
        self.link = shlex.split(next(part for part in line.split(" && ") if " -o tests/unit-tests " in part))
        self.users = {}  # file -> objects that depend on it
        made = None
        for line in self.ninja("-t", "deps").splitlines():
            if line.startswith(" "):
                if made in self.link:
                    path = os.path.relpath(self.build / line.strip(), self.source)
                    self.users.setdefault(path, []).append(made)
            else:
                made = line.split(":")[0]

    def compile_quickly(self):
        """Compiles mutants with clang and a precompiled header, if clang is installed: two to three times as fast."""
        clang = shutil.which("clang++")
        core = [words for made, words in self.commands.items() if "/opdock_core.dir/src/" in made]
        if clang is None:
            return
        used = collections.Counter()
        for words in core:
            used.update(re.findall(r"^#include <[^>]+>", pathlib.Path(words[-2]).read_text(), re.MULTILINE))
        often = sorted(line for line, times in used.items() if times >= 5)
        header = self.work / "often.hpp"
        write_if_other(header, "\n".join(often).encode())
        flags = [word for word in core[0][1:] if word not in ("-c", core[0][-2])]
        made = subprocess.run(
            [clang, *flags, "-x", "c++-header", header, "-o", f"{header}.pch"], cwd=self.build, capture_output=True, check=False
        )
        if made.returncode == 0:
            for words in core:
                words[:1] = [clang, "-include-pch", f"{header}.pch"]

    def link_tests(self, job, instead):
        """Links the unit tests with some objects replaced; None if linking fails."""
        program = self.build / "tests" / f"unit-tests-{job.name}"  # they find files relative to it
        words = [instead.get(word, word) for word in self.link]
        words[words.index("-o") + 1] = program
        done = subprocess.run(words, cwd=self.build, capture_output=True, check=False)
        return program if done.returncode == 0 else None

    def can_isolate(self):
        """A mutant may kill any process or leave some behind; a namespace confines this to its own processes."""
        wrapper = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if shutil.which("unshare") and subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode == 0:
            return [*wrapper, "sh", "-c", '"$@"; exit $?', "sh"]
        say("no PID namespace can be made here: changed code that kills processes may kill others of this user")
        return []

    def test(self, program, job, limit, *options, trace=None):
        """Returns the exit status (None if it ran out of time) and the output."""
        # In /tmp, because a plugin that is being tried can write nowhere else.
        with tempfile.TemporaryDirectory(prefix="mutation-", dir="/tmp", ignore_cleanup_errors=True) as folder:
            return self.test_in(folder, program, job, limit, options, trace)

    def test_in(self, folder, program, job, limit, options, trace):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLUGIN_", "XDG_"))}
        environment |= {"TMPDIR": folder, "HOME": folder}
        if trace:
            environment["MUTATION_TRACE"] = str(trace)
        timed_out = threading.Event()
        with subprocess.Popen(
            [*self.isolated, program, "--no-colors=true", "--no-version=true", *options],
            cwd=job,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:

            def stop():
                timed_out.set()
                os.killpg(process.pid, signal.SIGKILL)

            timer = threading.Timer(limit, stop)
            timer.start()
            printed = process.stdout.read(1 << 20)
            while process.stdout.read(1 << 20):
                pass
            process.wait()
            timer.cancel()
        return (None if timed_out.is_set() else process.returncode), printed.decode(errors="replace")

    def read_cases(self):
        """Runs each case by itself, once per state of the tree, and stores the lines that it reaches and its time."""
        kept = self.work / "cases.json"
        if kept.exists():
            known = json.loads(kept.read_text())
            if known["tree"] == self.tree:
                self.cases, self.reached = known["cases"], known["reached"]
                return
        program = self.link_tests(self.work / "job-0", {})
        listed = subprocess.run([program, "--list-test-cases", "--reporters=xml"], capture_output=True, check=True).stdout
        found = [
            {"name": case.get("name"), "file": pathlib.Path(case.get("filename")).name}
            for case in xml.etree.ElementTree.fromstring(listed).iter("TestCase")
        ]
        say(f"running {len(found)} cases one by one, to know what each reaches")
        free = [self.work / f"job-{i}" for i in range(self.jobs)]
        addresses = {}

        def look_at(index, case):
            job = free.pop()
            job.mkdir(exist_ok=True)
            trace = job / "trace"
            trace.unlink(missing_ok=True)
            began = time.monotonic()
            status, case["printed"] = self.test(program, job, 300, f"--test-case={as_filter(case['name'])}", trace=trace)
            case["seconds"], case["passes"] = time.monotonic() - began, status == 0
            if trace.exists():
                content = trace.read_bytes()
                for mark in re.finditer(rb"[\x01-\x04]", content):
                    addresses.setdefault(mark.start() * 4 + content[mark.start()] - 1, []).append(index)
            free.append(job)

        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(look_at, range(len(found)), found))
        for case in found:
            if not case["passes"]:
                say(f"not used, it fails without any change: {case['name']}\n{case['printed'][-800:]}")
            del case["printed"]
        lines = subprocess.run(
            ["addr2line", "-e", program],
            input="".join(f"{address - 1:#x}\n" for address in addresses),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        self.cases, self.reached = found, {}  # file -> line -> indices of cases
        for at, indices in zip(lines, addresses.values()):
            path, _, line = at.split(" ")[0].rpartition(":")
            if line.isdigit() and path.startswith("/"):
                of_file = self.reached.setdefault(self.path_in_tree(path), {})
                of_file[line] = sorted({*of_file.get(line, ()), *indices})
        kept.write_text(json.dumps({"tree": self.tree, "cases": self.cases, "reached": self.reached}))

    def path_in_tree(self, path):
        """The tree's path for a path in debug information. An object from ccache names the clone that compiled it."""
        _, behind, name = path.rpartition("/build/../")
        return name if behind else os.path.relpath(path, self.source)

    def objects_of(self, path, line):
        """The objects to compile again; for code in a header the host's, which the linker takes before the tests'."""
        users = self.users.get(path, [])
        if "constexpr" in (self.source / path).read_text().splitlines()[line - 1]:
            return users  # arrays may have that size
        return [made for made in users if "/opdock_core.dir/" in made] or users

    def cases_of(self, path, line):
        """The cases that reach a line: at one of its addresses or, within a block, at one of the line before."""
        lines = self.reached.get(path, {})
        before = max((int(each) for each in lines if int(each) < line), default=0)
        return {i for each in (line, before) for i in lines.get(str(each), ()) if self.cases[i]["passes"]}


def as_filter(*names):
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in names)
