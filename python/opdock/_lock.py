"""Locks the plugins of this environment: writes a policy with which no others are loaded."""

import hashlib
import importlib.metadata
import pathlib

from . import Host, __version__


def _distributions() -> dict[pathlib.Path, str]:
    """Maps each file below a folder `plugins` to the wheel that installed it."""
    found = {}
    for one in importlib.metadata.distributions():
        for file in one.files or []:
            if "plugins" in file.parts and file.suffix == ".so":
                found[pathlib.Path(str(one.locate_file(file))).resolve()] = f"{one.name} {one.version}"
    return found


def lock() -> str:
    """Returns a policy file that trusts the plugins that a host loads here, and no others."""
    wheels = _distributions()
    lines = [
        f"# Made by `opdock lock` of opdock {__version__}: the plugins that were loaded, by their SHA-256. With",
        "# PLUGIN_CONFIG naming this file, a host rejects all others, and each of these if its file differs.",
        "trust: require",
        "trusted_sha256:",
    ]
    for plugin in Host().describe()["plugins"]:
        if plugin["status"] == "loaded":
            path = pathlib.Path(plugin["path"]).resolve()
            wheel = f", {wheels[path]}" if path in wheels else ""
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            lines.append(f"  - {digest}   # {plugin['id']} {plugin['version']} of {plugin['vendor']}{wheel}")
    return "\n".join(lines) + "\n"
