"""Checks that the headers of the tree still declare everything that the kept headers declare.

    check_headers.py KEPT TREE...

KEPT holds the headers of one version as they were released; TREE are today's include directories. A struct must begin
with its former fields, and a list (`X` macro) with its former entries. Numbers and strings must have the same values,
and functions and types the same declarations. Differences are printed.
"""

import pathlib
import re
import sys

# Macros whose values may differ between versions of the headers.
OF_VERSION = {"OPDOCK_TARGET_ABI", "OPDOCK_ABI_MINOR"}


def tokens(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S).replace("\\\n", " ")
    return re.sub(r"\s+", " ", text)


def read(folder):
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.h"))}


def statements(text):
    """Structs with their bodies, other declarations, and macros with their values."""
    macros = dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+(?:\([^)]*\))?)[ \t]*((?:.*\\\n)*.*)$", text, flags=re.M))
    macros = {name: tokens(value).strip() for name, value in macros.items()}
    code = re.sub(r"^[ \t]*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    code = tokens(code)
    structs = {name: body.strip() for body, name in
               re.findall(r"typedef struct \w* ?\{((?:[^{}]|\{[^{}]*\})*)\} (\w+);", code)}
    structs.update({name: body.strip() for name, body in re.findall(r"\bstruct (\w+) \{((?:[^{}]|\{[^{}]*\})*)\};", code)})
    declarations = set(re.findall(r"OPDOCK_API [^;{]*;", code)) | set(re.findall(r"typedef (?!struct \w* ?\{)[^;{]*;", code))
    return macros, structs, {one.strip() for one in declarations}


def keeps(macro, value, now):
    """True if `now` preserves `value`. New entries of a list must stand at its end."""
    return now == value or (macro.endswith("(X)") and now is not None and now.startswith(value + " "))


def main():
    kept = read(pathlib.Path(sys.argv[1]))
    tree = {}
    for folder in sys.argv[2:]:
        tree.update(read(pathlib.Path(folder)))
    problems, compared = [], 0
    for name, text in kept.items():
        if name not in tree:
            problems.append(f"{name}: is gone")
            continue
        macros, structs, declarations = statements(text)
        now_macros, now_structs, now_declarations = statements(tree[name])
        for macro, value in macros.items():
            if macro not in OF_VERSION and not keeps(macro, value, now_macros.get(macro)):
                problems.append(f"{name}: {macro} was '{value}' and is '{now_macros.get(macro)}'")
        for struct, body in structs.items():
            if not now_structs.get(struct, "").startswith(body):
                problems.append(f"{name}: struct {struct} does not begin as it did")
        for declaration in declarations - now_declarations:
            problems.append(f"{name}: no longer has '{declaration}'")
        compared += len(macros) + len(structs) + len(declarations)
    print("\n".join(problems + [f"{compared} macros, structs and declarations of {len(kept)} headers compared, "
                                f"{len(problems)} differences"]))
    return 1 if problems or compared < 250 else 0


if __name__ == "__main__":
    sys.exit(main())
