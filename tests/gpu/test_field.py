"""Tests of field.py and its tables without a GPU: shapes by a seed, ratios, and rows that are slow in two runs."""

import copy
import pathlib
import subprocess
import sys
import unittest

import field_shapes
import field_table
from field_shapes import CLASSES, KINDS, shapes


def row(op="gelu", dtype="bf16", dims=(4, 768), of_class="small", **times):
    return {"op": op, "dtype": dtype, "dims": list(dims), "class": of_class, "times": times}


def document(*rows, seed=1):
    return {
        "device": "a GPU",
        "peers": {"torch": "2"},
        "seed": seed,
        "mode": "none",
        "planned": 9,
        "compiled": 0,
        "rows": list(rows),
    }


class Shapes(unittest.TestCase):
    def test_the_seed_alone_decides(self):
        for op in KINDS:
            self.assertEqual(shapes(op, 7), shapes(op, 7))
            self.assertEqual(shapes(op, 7, 6), shapes(op, 7)[:6], "fewer shapes are the first ones")
            self.assertNotEqual(shapes(op, 7), shapes(op, 8), op)
        self.assertNotEqual(shapes("gelu", 7), shapes("silu", 7), "ops of one kind have their own")

    def test_they_are_the_same_on_every_machine(self):
        program = "import field_shapes; print(*field_shapes.shapes('attention_fwd', 7))"
        here = pathlib.Path(__file__).parent
        others = [
            subprocess.run(
                [sys.executable, "-c", program],
                cwd=here,
                env={"PYTHONHASHSEED": hash_seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split()
            for hash_seed in ("1", "2")
        ]
        self.assertEqual(others, [[str(shape) for shape in shapes("attention_fwd", 7)]] * 2)

    def test_a_third_is_of_each_class_and_has_its_rows(self):
        for seed in range(20):
            for op, kind in KINDS.items():
                found = shapes(op, seed)
                self.assertEqual([shape.of_class for shape in found], list(CLASSES) * 8)
                for shape in found if kind in ("hidden", "gated", "logits", "heads", "lookup", "decode") else ():
                    low, high = CLASSES[shape.of_class]
                    self.assertTrue(low <= shape.dims[0] <= high, f"seed {seed}: {op} {shape}")

    def test_tensors_and_products_have_bounds(self):
        for seed in range(20):
            for op, kind in KINDS.items():
                for shape in shapes(op, seed):
                    dims = shape.dims
                    told = f"seed {seed}: {op} {shape}"
                    self.assertTrue(all(one >= 1 for one in dims), told)
                    if kind in ("hidden", "gated"):
                        self.assertLessEqual(dims[0] * dims[1], field_shapes.MOST_ELEMENTS, told)
                    if kind == "decode":
                        self.assertLessEqual(dims[0] * dims[1] * dims[3] * dims[4], field_shapes.MOST_CACHE, told)
                    if kind == "attention":
                        self.assertEqual(dims[2] % dims[3], 0, told)
                    if kind == "product":
                        self.assertFalse(dims[1] % 16 or dims[2] % 16, told)


class Tables(unittest.TestCase):
    def test_the_fastest_peer_counts(self):
        self.assertAlmostEqual(field_table.ratio(row(opdock=3.0, torch=4.0, liger=2.0)), 1.5)
        wrong = row(opdock=3.0, torch=4.0, liger=2.0) | {"wrong": {"liger": "differs by 3"}}
        self.assertAlmostEqual(field_table.ratio(wrong), 0.75, msg="what computes something else does not count")
        self.assertTrue(field_table.failed(wrong))
        self.assertIsNone(field_table.ratio(row(opdock=3.0)), "no peer")
        self.assertIsNone(field_table.ratio(row(torch=3.0)), "opdock failed")

    def test_a_line_for_each_op_has_means_by_dtype_and_class(self):
        rows = [row(opdock=1.0, torch=2.0), row(dtype="f32", of_class="large", opdock=2.0, torch=1.0)]
        head, line, total = field_table.by_op(rows)
        self.assertEqual(head.split(), ["op", "rows", "bf16", "f32", "all", "small", "middle", "large", ">1.03"])
        self.assertEqual(line.split(), ["gelu", "2", "0.50", "2.00", "1.00", "0.50", "-", "2.00", "1"])
        self.assertEqual(total.split()[1:], line.split()[1:])

    def test_rows_of_one_seed_are_joined_by_shape(self):
        slow, once = row(opdock=1.1, torch=1.0), row(dims=(8, 768), opdock=1.2, torch=1.0)
        again = copy.deepcopy(once)
        again["times"]["opdock"] = 1.0
        documents = [document(slow, once), document(again, slow)]
        self.assertEqual([found["dims"] for _, found in field_table.slow_rows(documents)], [[4, 768]])
        text = "\n".join(field_table.report(documents))
        self.assertIn("1 rows above 1.03 in both runs", text)
        self.assertNotIn("op, dtype and class", text)

    def test_two_seeds_are_joined_by_op_dtype_and_class(self):
        first = document(row(opdock=1.2, torch=1.0), row("silu", opdock=1.2, torch=1.0))
        second = document(row(dims=(9, 896), opdock=1.1, torch=1.0), row("silu", opdock=0.9, torch=1.0), seed=2)
        groups = field_table.slow_groups([first, second])
        self.assertEqual([key for key, _ in groups], [("gelu", "bf16", "small")])
        self.assertIn(
            "1 of op, dtype and class above 1.03 in both runs", "\n".join(field_table.report([first, second]))
        )

    def test_what_is_not_there_or_wrong_is_said(self):
        bad = row(opdock=1.0, torch=2.0) | {"wrong": {"torch": "differs by 3"}, "errors": {"liger": "not captured"}}
        text = "\n".join(field_table.report([document(bad)]))
        for part in (
            "flag_gems is not there",
            "WRONG: gelu",
            "differs by 3",
            "could not: liger, gelu bf16: not captured",
        ):
            self.assertIn(part, text)
        self.assertTrue(field_table.failed(bad))
        self.assertFalse(field_table.failed(row(opdock=1.0) | {"errors": {"liger": "none"}}), "a peer may fail")


if __name__ == "__main__":
    unittest.main()
