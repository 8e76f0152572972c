"""Reports which implementations served the ops of a program."""

from . import _aten, _models, _ops


def report() -> str:
    """Returns, by module, what serves it or why nothing does; and by op, the number of calls of each implementation.

    Calls in compiled code count for ops but not for modules; trial calls by use() count for ops too. Replays of a CUDA
    graph count for neither.
    """
    lines: list[str] = []
    for use in _models.live:
        lines += [f"{use.name}:", *(f"  {place}" for place in use.places)]
    for enabled in _aten.live:
        lines += ["torch's ops:", *(f"  {line}" for line in str(enabled).splitlines())]
    served, never = [], []
    for op in _ops.host().describe()["ops"]:
        name = op["op"]
        counts = {one["impl_id"]: _ops.host().served(name, one["impl_id"]) for one in op["implementations"]}
        asked = [f"{impl} {count}" for impl, count in counts.items() if count]
        if asked:
            served.append(f"  {name}: {', '.join(asked)}")
        elif name not in _ops.left_out:
            never.append(name)
    lines += ["ops, and the number of calls of each implementation:", *(served or ["  none was called"])]
    if served:
        lines.append(f"never asked: {', '.join(never) or 'none'}")
    lines += [f"not given to torch: {name}: {why}" for name, why in _ops.left_out.items()]
    return "\n".join(lines)
