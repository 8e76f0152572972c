"""The configs of an op's kernels, from the description, a tune file, FlagGems or @triton.autotune."""

import importlib.util
import itertools
import pathlib
import shutil
import subprocess
from dataclasses import dataclass, field
from typing import Any

from ._yaml import Node, parse, read

# Fields of an op that define its configs. They mean the same in a tune file, except for the last.
FIELDS = ("configs", "product", "key", "pinned", "heuristics")

_TUNE_SCHEMA = "opdock.tune/1"
_MOST = 4096


@dataclass
class Space:
    configs: list[dict[str, int]] = field(default_factory=list)  # each with all knobs; the first is the default
    sections: list[dict[str, Any]] = field(default_factory=list)  # for the tune file


def read_configs(section: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the configs of a section of a tune file."""
    assume = section.get("assume", {})
    product = {
        name: values if isinstance(values, list) else [values] for name, values in section.get("product", {}).items()
    }
    made = list(section.get("configs", []))
    if product:
        made += [dict(zip(product, values, strict=True)) for values in itertools.product(*product.values())]
    made += [one["config"] for one in section.get("pinned", [])]
    return [{**assume, **one} for one in made]


def read_space(op: str, place: Node, fields: dict[str, Node], kernels: list[Any]) -> Space:
    """Reads an op's fields. Without any of them there is one config without knobs. `kernels` are as decorated."""
    section: dict[str, Any] = {name: fields[name].plain() for name in ("product", "key", "pinned") if name in fields}
    space = Space()
    given = fields.get("configs")
    if given is not None and given.value == "autotune":
        section["configs"] = _autotuned(given, kernels)
    elif given is not None and isinstance(given.value, dict):
        space.sections += _of_file(op, given)
    elif given is not None:
        section["configs"] = [{name: value.plain() for name, (_, value) in one.map().items()} for one in given.list()]
    if section:
        space.sections.append(section)
    found: list[dict[str, Any]] = []
    for one in itertools.chain.from_iterable(map(read_configs, space.sections)):
        if one not in found:
            found.append(one)
    knobs = list(dict.fromkeys(itertools.chain.from_iterable(found)))
    defaults = {knob: next(one[knob] for one in found if knob in one) for knob in knobs}
    for one in found:
        config = {**defaults, **one}
        for knob, value in config.items():
            if not isinstance(value, int):
                place.fail(f"the knob {knob} of {op} is '{value}' in a config; expected an integer, true or false")
            config[knob] = int(value)
        if config.get("num_ctas", 1) != 1:
            place.fail(f"a config of {op} has num_ctas {config['num_ctas']}: clusters are not supported, leave it out")
        config.pop("num_ctas", None)
        if config not in space.configs:
            space.configs.append(config)
    for part in space.sections:
        for one in part.get("configs", []):
            one.pop("num_ctas", None)
    if len(space.configs) > _MOST:
        place.fail(f"{op} has {len(space.configs)} configs, more than {_MOST}")
    if not space.configs:
        space.configs.append({})
    if not knobs:
        space.sections = []
    return space


def _autotuned(place: Node, kernels: list[Any]) -> list[dict[str, Any]]:
    """Returns the configs of the first kernel with @triton.autotune."""
    for kernel in kernels:
        decorated = kernel
        while decorated is not None and not hasattr(decorated, "configs"):
            decorated = getattr(decorated, "fn", None)
        if decorated is None:
            continue
        if getattr(decorated, "reset_to_zero", None) or getattr(decorated, "restore_value", None):
            place.fail(
                "@triton.autotune of the kernel has reset_to_zero or restore_value: such kernels cannot be tuned here"
            )
        found = []
        for one in decorated.configs:
            if one.pre_hook is not None:
                place.fail("a config of @triton.autotune has a pre_hook, but plugins run no Python")
            options = {name: getattr(one, name) for name in ("num_warps", "num_stages", "maxnreg", "num_ctas")}
            found.append({**one.kwargs, **{name: value for name, value in options.items() if value is not None}})
        return found
    place.fail("none of the op's kernels has @triton.autotune")


def _of_file(op: str, place: Node) -> list[dict[str, Any]]:
    """Returns the sections of a tune file, or of FlagGems' equivalent."""
    fields = place.fields(("file", "op"), ("file",))
    file = place.file.parent / fields["file"].text()
    if not file.is_file() and ":" in fields["file"].text():  # "flag_gems:runtime/...": in an installed package
        package, _, inside = fields["file"].text().partition(":")
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            file = pathlib.Path(found.origin).parent / inside
    name = fields["op"].text() if "op" in fields else op
    root = read_tune_file(fields["file"], file)
    ops = root.fields(("schema", "ops"), ("ops",))["ops"].map()
    if name not in ops and "*" not in ops:
        fields.get("op", fields["file"]).fail(f"'{file}' has no configs of '{name}'")
    sections: list[dict[str, Any]] = []
    for key in (name, "*"):
        if key in ops:
            sections += [one.plain() for one in ops[key][1].list()]
    return sections


def read_tune_file(place: Node, file: pathlib.Path) -> Node:
    root = read(file)
    if isinstance(root.value, dict) and "schema" in root.value and root.value["schema"][1].value == _TUNE_SCHEMA:
        return root
    inside = pathlib.Path(__file__).parents[1] / "bin" / "plugin-tune"
    tool = str(inside) if inside.exists() else shutil.which("plugin-tune")
    if tool is None:
        place.fail("FlagGems' files are read by plugin-tune, which is neither in this package nor on the PATH")
    done = subprocess.run([tool, "convert", str(file)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        place.fail(f"'{file}' is neither a tune file nor a file of FlagGems: {done.stderr.strip()}")
    return parse(done.stdout, file)
