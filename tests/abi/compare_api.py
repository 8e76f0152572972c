"""Compares libopdock's C API with that of the kept headers, using abidiff.

    compare_api.py SOURCE_DIR LIBRARY KEPT_HEADERS

LIBRARY must export exactly the functions that opdock.h declares, under the versions in exports.map. For the current and
for the kept headers, a library of their functions without bodies is compiled: it has the public types and nothing else,
and abidiff compares the two. Functions may have been added. A struct that grew is reported too: after a change
that only adds, the headers are kept again in a folder for the new version.
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
    """Names of the functions as name@@version."""
    return set(re.findall(r" T (opdock_\S+)", run("nm", "-D", "--defined-only", library)))


def compile_api(header, includes, exports, made):
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(encoding="utf-8"), flags=re.S)
    functions = [re.sub(r"\s+", " ", one) for one in re.findall(r"^OPDOCK_API ([^;]*);", text, flags=re.M)]
    source = made.with_suffix(".c")
    source.write_text("#include <opdock/opdock.h>\n" + "".join(
        f"{one} {{ __builtin_trap(); }}\n" for one in functions), encoding="utf-8")
    run("cc", "-g", "-O0", "-shared", "-fPIC", "-w", *(f"-I{one}" for one in includes), source.name,
        f"-Wl,--version-script={exports}", "-Wl,-soname,libopdock.so.1", "-o", made.name, cwd=made.parent)
    return len(functions)


def main():
    source, library, kept = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
    exports = source / "host" / "exports.map"
    with tempfile.TemporaryDirectory() as folder:
        before, now = pathlib.Path(folder) / "kept.so", pathlib.Path(folder) / "now.so"
        compile_api(kept / "opdock" / "opdock.h", [kept], exports, before)
        includes = [source / "host" / "include", source / "plugin-sdk" / "include"]
        count = compile_api(includes[0] / "opdock" / "opdock.h", includes, exports, now)
        differences = exported(library) ^ exported(str(now))
        if differences:
            print("exported and not declared, or declared and not exported: " + ", ".join(sorted(differences)))
            return 1
        print(run("abidiff", "--no-added-syms", str(before), str(now)), end="")
    print(f"{count} functions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
