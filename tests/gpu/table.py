#!/usr/bin/env python3
"""Makes one table of the results of plugin-bench --json and peers.py --json: table.py BENCH.json PEERS.json

Or of one or two runs of field.py, with what is slow in both: table.py --field FIELD.json [FIELD.json]

A row for each op, with the requested optional outputs, and shape: the fraction of the copy rate that vendor.cuda (or a
library that it opens, if that is faster) and each peer reach, relative to the copy rate of their own process; and the
ratio of the fastest peer's time to opdock's. It is based on times, since the rates of two processes differ by some per
cent. A peer marked with * does something slightly different; the lines below the table describe it.
"""

import json
import re
import sys

import field_table


def shape_of(entry):
    """The shape of the first input, "16384x8192"; for a list, preceded by its number of tensors."""
    first = entry["inputs"][0]
    dims = re.search(r"\[([0-9,]*)\]", first["source"]).group(1).replace(",", "x")
    tensors = sum(one["name"] == first["name"] for one in entry["inputs"])
    return dims if tensors == 1 else f"{tensors}x{dims}"


def call_of(entry):
    """The op with its requested optional outputs, "rmsnorm_bwd +grad_weight"."""
    return " +".join((entry["op"], *entry["outputs"]))


def read_ours(document, impl_id="vendor.cuda"):
    found = {}
    for entry in document["shapes"]:
        for one in entry.get("implementations", []):
            is_ours = one["impl_id"] == impl_id or one["impl_id"].startswith(impl_id + "-")
            if is_ours and one["outcome"] == "timed":
                key, mine = (call_of(entry), shape_of(entry)), (one["of_copy"], one["microseconds"], entry["bytes"])
                found[key] = min(found.get(key, mine), mine, key=lambda timed: timed[1])
    return found


def add_pairs(ours):
    """Adds queries and keys together, for peers that rotate both in one call; opdock makes two."""
    parts = [ours.get(("fused_rope_fwd", f"4096x4x{heads}x128")) for heads in (32, 8)]
    if all(parts):
        microseconds = sum(part[1] for part in parts)
        rate = parts[0][0] * parts[0][1] / parts[0][2]  # the same for both: the rate per byte at a fraction of 1
        total = sum(part[2] for part in parts)
        ours["fused_rope_fwd", "4096x4x32+8x128"] = (rate * total / microseconds, microseconds, total)


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__)
        return
    if sys.argv[1:2] == ["--field"] and len(sys.argv) in (3, 4):
        documents = []
        for path in sys.argv[2:]:
            with open(path) as file:
                documents.append(json.load(file))
        print("\n".join(field_table.report(documents)))
        return
    if len(sys.argv) != 3:
        sys.exit("usage: table.py BENCH.json PEERS.json, or table.py --field FIELD.json [FIELD.json]")
    with open(sys.argv[1]) as file:
        ours = read_ours(json.load(file))
    with open(sys.argv[2]) as file:
        rows = json.load(file)["rows"]
    add_pairs(ours)
    peers = sorted({row["peer"] for row in rows}, key=lambda name: (not name.startswith("torch"), name))
    by_call, notes = {}, set()
    for row in rows:
        by_call.setdefault((call_of(row), row["shape"]), {})[row["peer"]] = row
    keys = list(by_call) + [key for key in ours if key not in by_call]

    line = "%-" + str(max(len(key[0]) for key in keys)) + "s %-16s %7s" + " %14s" * len(peers) + "  %s"
    print(line % ("op", "shape", "ours", *peers, "to the fastest"))
    for key in keys:
        cells, times = [], []
        for peer in peers:
            row = by_call.get(key, {}).get(peer)
            if row is None or "of_copy" not in row:
                cells.append("-" if row is None else "failed")
                continue
            mark = ""
            if "note" in row:
                mark = "*"
                notes.add("* {} {}: {}".format(peer, key[0], row["note"]))
            cells.append("{:.1f} %{}".format(100 * row["of_copy"], mark))
            times.append(row["microseconds"])
        mine = ours.get(key)
        ratio = "%.2f" % (min(times) / mine[1]) if mine and times else "-"
        print(line % (*key, "%.1f %%" % (100 * mine[0]) if mine else "-", *cells, ratio))
    for note in sorted(notes):
        print(note)


try:
    main()
except OSError as error:
    sys.exit(f"table.py: {error.filename}: {error.strerror}")
