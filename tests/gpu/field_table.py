"""Tables of the results of one or two runs of field.py: the ratio of opdock's time to that of the fastest peer."""

import math
from collections import defaultdict

SLOW = 1.03  # a ratio above this is listed
CLASSES = ("small", "middle", "large")


def shape_of(row):
    return "x".join(map(str, row["dims"]))


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def fastest(row):
    """The fastest peer of a row and its time, or None. Peers that compute something else do not count."""
    others = {"opdock", *row.get("wrong", {})}
    peers = {name: time for name, time in row.get("times", {}).items() if name not in others}
    return min(peers.items(), key=lambda one: one[1]) if peers else None


def ratio(row):
    """None if opdock or every peer is missing."""
    best = fastest(row)
    return row["times"]["opdock"] / best[1] if best and "opdock" in row["times"] else None


def failed(row):
    """True if opdock cannot compute the row, or a peer disagrees."""
    return bool(row.get("wrong")) or not {"opdock", "row"}.isdisjoint(row.get("errors", {}))


def line_of(row):
    times = row.get("times", {})
    mark = {name: "*" for name in row.get("notes", {})}
    cells = " ".join("{}{} {:.2f}".format(name, mark.get(name, ""), time) for name, time in times.items())
    found = ratio(row)
    text = (
        f"{row['op']:<38} {row['dtype']:<4} {shape_of(row):<22} {'-' if found is None else f'{found:.2f}':>5}  {cells}"
    )
    problems = row.get("wrong", {}) | row.get("errors", {})
    return text + "".join("; {}: {}".format(*one) for one in problems.items())


def number(values):
    return f"{geomean(values):.2f}" if values else "-"


def ratios(rows):
    return [found for found in map(ratio, rows) if found is not None]


def heading(document):
    absent = [name for name in ("liger", "flag_gems", "flashinfer") if name not in document["peers"]]
    peers = ", ".join("{} {}".format(*one) for one in document["peers"].items())
    compiled = sum("torch.compile" in row.get("times", {}) for row in document["rows"])
    return [
        f"{document['device']}, seed {document['seed']}, {len(document['rows'])} of {document['planned']} rows",
        "peers: {}{}".format(peers, "".join(f"; {name} is not there" for name in absent)),
        f"torch.compile ({document['mode']}, dynamic=False): {compiled} rows, the first {document['compiled']} shapes at most",
    ]


def by_op(rows):
    """A line for each op, dtype and class."""
    dtypes = [dtype for dtype in ("bf16", "f16", "f32") if any(row["dtype"] == dtype for row in rows)]
    line = "%-38s %5s" + " %6s" * (len(dtypes) + 4) + " %6s"
    found = [line % ("op", "rows", *dtypes, "all", *CLASSES, f">{SLOW:.2f}")]
    groups = defaultdict(list)
    for row in rows:
        groups[row["op"]].append(row)
    for op, those in [*groups.items(), ("all", rows)]:
        of_dtypes = [number(ratios(row for row in those if row["dtype"] == dtype)) for dtype in dtypes]
        of_classes = [number(ratios(row for row in those if row["class"] == one)) for one in CLASSES]
        slow = sum(one > SLOW for one in ratios(those))
        found.append(line % (op, len(ratios(those)), *of_dtypes, number(ratios(those)), *of_classes, slow))
    return found


def peers_of(rows):
    """The number of rows in which each peer is the fastest, and its geomean over the rows that it has."""
    found = [f"{'peer':<28} {'rows':>6} {'fastest':>8} {'ours/its':>10}"]
    for name in sorted({name for row in rows for name in row.get("times", {})} - {"opdock"}):
        those = [row for row in rows if name in row["times"] and "opdock" in row["times"]]
        times = [row["times"]["opdock"] / row["times"][name] for row in those]
        best = sum((fastest(row) or (None,))[0] == name for row in those)
        found.append(f"{name:<28} {len(those):6} {best:8} {number(times):>10}")
    compiled = [row for row in rows if "torch.compile" in row.get("times", {})]
    others = [row for row in rows if "torch.compile" not in row.get("times", {})]
    found.append(f"rows with torch.compile: {number(ratios(compiled))}; without: {number(ratios(others))}")
    return found


def key_of(row):
    return row["op"], row["dtype"], tuple(row["dims"])


def slow_rows(documents):
    """Rows that are slow in every run, with the ratios of all runs, slowest first."""
    tables = [{key_of(row): row for row in document["rows"]} for document in documents]
    found = []
    for key, row in tables[0].items():
        both = [ratio(table[key]) if key in table else None for table in tables]
        if all(one is not None and one > SLOW for one in both):
            found.append((min(both), both, row))
    return [one[1:] for one in sorted(found, key=lambda one: -one[0])]


def slow_groups(documents):
    """(op, dtype, class) whose geomean is slow in every run, for comparison of runs with different seeds."""
    tables = []
    for document in documents:
        groups = defaultdict(list)
        for row in document["rows"]:
            if ratio(row) is not None:
                groups[row["op"], row["dtype"], row["class"]].append(ratio(row))
        tables.append({key: geomean(values) for key, values in groups.items()})
    both = {key: [table.get(key, 0.0) for table in tables] for key in tables[0]}
    return sorted(((key, means) for key, means in both.items() if min(means) > SLOW), key=lambda one: -min(one[1]))


def report(documents):
    lines = []
    for document in documents:
        rows = document["rows"]
        lines += [*heading(document), "", *by_op(rows), "", *peers_of(rows), ""]
        notes = {
            "* {}, {}: {}".format(name, row["op"], note) for row in rows for name, note in row.get("notes", {}).items()
        }
        lines += [*sorted(notes), ""] if notes else []
        missing = defaultdict(int)
        for row in rows:
            for name, error in row.get("errors", {}).items():
                missing["{}, {} {}: {}".format(name, row["op"], row["dtype"], error)] += 1
        lines += [f"could not: {what} ({count} rows)" for what, count in sorted(missing.items())]
        lines += ["WRONG: " + line_of(row) for row in rows if row.get("wrong")]
    where = "" if len(documents) == 1 else " in both runs"
    slow = slow_rows(documents)
    lines.append(f"{len(slow)} rows above {SLOW:.2f}{where}")
    lines += ["  {}  {}".format(" ".join(f"{one:.2f}" for one in both), line_of(row)) for both, row in slow]
    if len(documents) > 1 and len({document["seed"] for document in documents}) > 1:
        groups = slow_groups(documents)
        lines.append(f"{len(groups)} of op, dtype and class above {SLOW:.2f}{where}, geomeans")
        lines += ["  {}  {}".format(" ".join(f"{one:.2f}" for one in both), " ".join(key)) for key, both in groups]
    return lines
