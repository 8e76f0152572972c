"""Compares libopdock's C API to its kept description, as abidw tells it.

    describe.py SOURCE_DIR LIBRARY KEPT [--update]

What opdock.h declares is what LIBRARY exports, under the versions that exports.map gives. A library of these functions
without bodies is compiled, so that the description has the public types and nothing else, and compared by abidiff. After
a change that only adds, --update writes KEPT.
"""

import pathlib
import re
import subprocess
import sys
import tempfile


def run(*command, cwd=None):
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def exported(library):
    """name@@version of each function."""
    return set(re.findall(r" T (opdock_\S+)", run("nm", "-D", "--defined-only", library)))


def main():
    source, library, kept = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    includes = [str(source / "host" / "include"), str(source / "plugin-sdk" / "include")]
    text = (source / "host/include/opdock/opdock.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    functions = [re.sub(r"\s+", " ", one) for one in re.findall(r"^OPDOCK_API ([^;]*);", text, flags=re.M)]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "api.c").write_text("#include <opdock/opdock.h>\n" + "".join(
            f"{one} {{ __builtin_trap(); }}\n" for one in functions), encoding="utf-8")
        run("cc", "-g", "-O0", "-shared", "-fPIC", "-w", *(f"-I{one}" for one in includes), "api.c",
            f"-Wl,--version-script={source / 'host' / 'exports.map'}", "-Wl,-soname,libopdock.so.1",
            "-o", "api.so", cwd=work)
        differences = exported(library) ^ exported(str(work / "api.so"))
        if differences:
            print("exported and not declared, or declared and not exported: " + ", ".join(sorted(differences)))
            return 1
        now = run("abidw", "--no-comp-dir-path", "--no-corpus-path", "--no-show-locs", "--no-architecture",
                  str(work / "api.so"))
        if "--update" in sys.argv:
            kept.write_text(now, encoding="utf-8")
        (work / "now.abi").write_text(now, encoding="utf-8")
        print(run("abidiff", str(kept), str(work / "now.abi")), end="")
    print(f"{len(functions)} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
