#!/usr/bin/env python3
"""Checks the options and commands of all tools: each has help, a place in the man page and a completion, and all tools
use the same word for the same thing and for the same kind of value.

usage: check_options.py TOOLS_SOURCE COMPLETIONS.bash TOOL...
"""

import pathlib
import re
import subprocess
import sys

# Words that a tool might use for something, each with the one word that these tools use for it.
ONE_WORD = {
    "--input": "--in", "--inputs": "--in", "--implementation": "--impl", "--plugins": "--modules",
    "--module": "--modules", "--dtypes": "--dtype", "--iterations": "--rounds", "--overwrite": "--force",
    "--yes": "--force", "--public-key": "--pub", "--private-key": "--key", "--secret-key": "--key",
    "--from": "--shapes", "--time": "--budget", "--seconds": "--budget",
    "--pretend": "--dry-run", "--quiet": "", "--debug": "", "--xml": "--junit",
}
EVERYWHERE = {"--help", "--version", "--format", "--json"}
# Options whose value depends on the tool.
SEVERAL_VALUES = {"--shape", "--output", "--out", "--model", "--plugin"}


def text_of(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        sys.exit(f"{command} exits with {done.returncode}: {done.stderr}")
    return done.stdout


def options_of_help(text: str) -> set[str]:
    return set(re.findall(r"^  (?:-[a-z] \[ )?(--[a-z0-9][a-z0-9-]*)", text, re.MULTILINE))


def values_of_help(text: str) -> dict[str, str]:
    return dict(re.findall(r"^  (--[a-z0-9][a-z0-9-]*) ([A-Z\[]\S*)(?:  |$)", text, re.MULTILINE))


def untold_of_help(text: str) -> list[str]:
    """Options without a description. Help leaves out clauses for other commands, so none may remain."""
    return re.findall(r"^  (--[a-z0-9][a-z0-9-]*)(?: [A-Z\[]\S*)? *\n(?! {10})", text, re.MULTILINE)


def options_of_man(text: str) -> tuple[set[str], set[str]]:
    """All options in the page, and those with an entry of their own."""
    text = text.replace("\\-", "-")
    entries = " ".join(re.findall(r"^\.TP.*\n(.+)$", text, re.MULTILINE))
    return tuple(set(re.findall(r"--[a-z0-9][a-z0-9-]*", part)) for part in (text, entries))


def commands_of_man(name: str, text: str) -> tuple[set[str], set[str]]:
    """Commands in the synopsis, and those with an entry among the commands."""
    text = text.replace("\\-", "-")
    part = re.search(r"^\.SH COMMANDS\n(.*?)^\.SH ", text, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^\.TP.*\n\.BI? ([a-z][a-z-]*)(?: |$)", part[1] if part else "", re.MULTILINE)
    return set(re.findall(rf"^\.B {name} ([a-z][a-z-]*)(?: |$)", text, re.MULTILINE)), set(entries)


def refusal_of(tool: str, option: str) -> str:
    done = subprocess.run([tool, option, "x"], capture_output=True, text=True, timeout=60)
    return done.stderr if done.returncode == 2 else ""


def hidden_of(sources: pathlib.Path) -> set[str]:
    """Names of positional values."""
    return {"--" + name for file in sources.glob("*.cpp")
            for name in re.findall(r"line\.words\(\"([a-z-]+)\"", file.read_text())}


def faults_of_hidden(hidden: set[str], tool: str, options: set[str]) -> list[str]:
    """Positional values must not work as options, and no message may suggest them."""
    faults = []
    for name in sorted(hidden):
        for word in (name, name[:-1], name + "s"):
            if word in options:
                continue
            refusal = refusal_of(tool, word)
            suggested = set(re.findall(r"'(--[a-z-]+)'", refusal)) - {word}
            if f"unknown option '{word}'" not in refusal or suggested - options:
                faults.append(f"{tool} {word}: expected an unknown option, and no other that is none: {refusal!r}")
    return faults


def completed(completions: str, tool: str, words: list[str]) -> set[str]:
    script = f"""source {completions}
COMP_WORDS=({' '.join([tool] + words)}{"''" if words[-1:] == [''] else ''})
COMP_CWORD={len(words)}
_opdock
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    return set(text_of(["bash", "-c", script]).split())


def main() -> int:
    sources, completions, *tools = sys.argv[1:]
    faults = []
    all_hidden = set()
    values: dict[str, tuple[str, str]] = {}  # option: its value, and the first tool that has it
    for tool in tools:
        name = pathlib.Path(tool).name
        text = text_of([tool, "--help"])
        options = options_of_help(text)
        page = (pathlib.Path(sources) / name / f"{name}.1").read_text()
        man, entries = options_of_man(page)
        faults += [f"{name} {option} is not in the man page" for option in sorted(options - man)]
        faults += [f"{name}.1 has {option}, which --help has not" for option in sorted(entries - options)]
        faults += [f"{name} has no {option}" for option in sorted(EVERYWHERE - options)]
        faults += [f"{name} {option}: the word is {ONE_WORD[option] or 'another'}"
                   for option in sorted(options & ONE_WORD.keys())]
        for option, value in values_of_help(text).items():
            known, first = values.setdefault(option, (value, name))
            if value != known and option not in SEVERAL_VALUES:
                faults.append(f"{name} {option} {value}: {first} calls it {known}")
            if len(value) == 1 and value != "N":
                faults.append(f"{name} {option} {value}: expected a word")
        if (offered := completed(completions, tool, ["--"])) != options:
            faults.append(f"{name} --<TAB> offers other options than --help has: {sorted(offered ^ options)}")
        hidden = hidden_of(pathlib.Path(sources) / name)
        all_hidden |= hidden
        faults += faults_of_hidden(hidden, tool, options)
        commands = set(re.findall(rf"^(?:Usage:| {{6}}) {name} ([a-z][a-z-]*)(?: |$)", text, re.MULTILINE))
        for where, found in zip(("synopsis", "commands"), commands_of_man(name, page)):
            if found != commands:
                faults.append(f"{name}.1 has in its {where} other commands than --help: {sorted(found ^ commands)}")
        for command in sorted(commands):
            faults += [f"{name} {command} {option}: the help of the command does not say what it does"
                       for option in untold_of_help(text_of([tool, command, "--help"]))]
        if (offered := completed(completions, tool, [""])) != commands:
            faults.append(f"{name} <TAB> offers {sorted(offered)}, and the commands are {sorted(commands)}")
    if not all_hidden:
        faults.append("no tool takes a word: expected the op of plugin-run among others")
    print("\n".join(faults + [f"{len(tools)} tools, {len(faults)} faults"]))
    return 1 if faults or not tools else 0


if __name__ == "__main__":
    sys.exit(main())
