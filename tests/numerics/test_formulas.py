"""Checks the float64 formulas against finite differences of their forward ops, and against facts known otherwise.

Run as `python3 test_formulas.py`. The inputs are fixed, because this checks formulas, not rounding.
"""

import inspect
import types
import unittest

import numpy as np

import tensors
from ops import FORMULAS, OPS
from ops.cases import Source
from ops.elementwise import philox
from ops.sampling import weights_of
from ops.sums import Sum

formulas = types.SimpleNamespace(**FORMULAS)


def value(output):
    return output.value if isinstance(output, Sum) else output


def numeric_gradient(loss, x, step=1e-5):
    """Central differences of a scalar function of x."""
    gradient = np.empty_like(x)
    for i in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[i] += step
        below[i] -= step
        gradient[i] = (loss(above) - loss(below)) / (2 * step)
    return gradient


class Gradients(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(1)

    def draw(self, *shape):
        return self.rng.standard_normal(shape)

    def check(self, gradient, loss, x):
        np.testing.assert_allclose(value(gradient), numeric_gradient(loss, x), rtol=1e-6, atol=1e-8)

    def test_each_backward_op_is_the_gradient_of_its_forward(self):
        """NAME_bwd is the gradient of NAME_fwd or NAME. Arguments are matched by name, as in python/opdock."""
        draw = Source(self.rng, {"T": "f64", "U": "f64", "P": "i64"})
        checked = 0
        for name in [one.removesuffix("_bwd") for one in OPS if one.endswith("_bwd")]:
            forward = name + "_fwd" if name + "_fwd" in OPS else name
            for attributes in OPS[forward].attributes:
                with self.subTest(name, **attributes):
                    inputs = OPS[forward].draw(draw, OPS[forward].shapes[0], attributes)
                    inputs = {name: tensor and tensor.values for name, tensor in inputs.items()}
                    checked += self.check_backward(name + "_bwd", forward, inputs, attributes)
        self.assertGreater(checked, 50)

    def check_backward(self, backward, forward, inputs, attributes):
        run = lambda values: {n: value(o) for n, o in FORMULAS[forward](**values, **attributes).items()}
        outputs = run(inputs)
        first = next(iter(outputs))
        known, grads = {**outputs, **inputs}, {}
        taken = inspect.signature(FORMULAS[backward]).parameters.values()
        for one in [one.name for one in taken if one.kind is one.POSITIONAL_OR_KEYWORD and one.name not in known]:
            output = first if one == "grad" else one.removeprefix("grad_")
            known[one] = grads[output] = self.draw(*outputs[output].shape)
        loss = lambda values: sum((grad * run(values)[output]).sum() for output, grad in grads.items())
        of_both = {one.name for one in taken if one.kind is one.KEYWORD_ONLY} & attributes.keys()
        takes = [one.name for one in taken if one.name in known] + sorted(of_both)
        results = FORMULAS[backward](**{one: {**known, **attributes}[one] for one in takes})
        for name, gradient in results.items():
            of = name.removeprefix("grad_")
            self.check(gradient, lambda v: loss({**inputs, of: v}), inputs[of])
        return len(results)

    def test_rmsnorm_with_a_residual_branch(self):
        x, w, g, r = self.draw(2, 3, 5), self.draw(5), self.draw(2, 3, 5), self.draw(2, 3, 5)
        rsigma = formulas.rmsnorm_fwd(x, w)["rsigma"]
        backward = formulas.rmsnorm_bwd_add(g, x, r, rsigma, w)
        self.check(backward["grad_input"], lambda v: (g * formulas.rmsnorm_fwd(v, w)["output"] + r * v).sum(), x)

    def test_the_gradient_of_a_bias_before_an_activation(self):
        x, g = 2 * self.draw(8, 8), self.draw(8, 8)
        for name in ("gelu", "qgelu", "silu", "relu", "srelu"):
            with self.subTest(name):
                loss = lambda v: (g * value(FORMULAS[name](v)["output"])).sum()
                backward = FORMULAS[name + "_bwd_bias"](g, x)
                self.check(backward["grad_input"], loss, x)
                self.check(backward["grad_bias"], lambda bias: loss(x + bias), np.zeros(8))

    def test_linear(self):
        x, w, b, g = self.draw(2, 3, 4), self.draw(5, 4), self.draw(5), self.draw(2, 3, 5)
        loss = lambda x, w, b: (g * formulas.linear_fwd(x, w, b)["output"].value).sum()
        by_weight = formulas.linear_wgrad(g, x)
        self.check(formulas.linear_dgrad(g, w)["grad_input"], lambda v: loss(v, w, b), x)
        self.check(by_weight["grad_weight"], lambda v: loss(x, v, b), w)
        self.check(by_weight["grad_bias"], lambda v: loss(x, w, v), b)

    def test_grouped_linear(self):
        x, w, g, starts = self.draw(7, 3), self.draw(3, 2, 3), self.draw(7, 2), np.array([0, 2, 2, 6])
        loss = lambda x, w: (g * formulas.grouped_linear_fwd(x, w, starts)["output"].value).sum()
        self.check(formulas.grouped_linear_dgrad(g, w, starts)["grad_input"], lambda v: loss(v, w), x)
        self.check(formulas.grouped_linear_wgrad(g, x, starts)["grad_weight"], lambda v: loss(x, v), w)

    def test_attention_of_packed_sequences(self):
        starts = {"query_starts": np.array([0, 3, 3]), "key_starts": np.array([0, 4, 5])}
        inputs = {"query": self.draw(1, 4, 2, 3), "key": self.draw(1, 6, 1, 3), "value": self.draw(1, 6, 1, 2)}
        g = self.draw(1, 4, 2, 2)
        forward = lambda changed: formulas.attention_fwd(**{**inputs, **changed}, **starts, causal=True)
        backward = formulas.attention_bwd(g, **inputs, **forward({}), **starts, causal=True)
        for name, tensor in inputs.items():
            self.check(backward[f"grad_{name}"], lambda v: (g * forward({name: v})["output"]).sum(), tensor)

    def test_fused_cross_entropy(self):
        x, target = self.draw(4, 6), np.array([0, 5, -100, 3])
        for smoothing in (0.0, 0.2):
            forward = lambda v: formulas.cross_entropy_fwd(v, target, label_smoothing=smoothing)["loss"].value
            fused = formulas.fused_cross_entropy(x, target, label_smoothing=smoothing, scale=-0.3)
            self.check(fused["logits"], lambda v: -0.3 * forward(v).sum(), x)
            np.testing.assert_array_equal(fused["loss"].value, forward(x))


class Optimizers(unittest.TestCase):
    """Steps as common training libraries take them, worked out by hand for one element."""

    one = staticmethod(lambda value: [np.array([value])])

    def adam(self, steps, **attributes):
        p, m, v, step = self.one(2.0), self.one(0.0), self.one(0.0), np.zeros(1)
        for _ in range(steps):
            after = formulas.multi_tensor_adam(self.one(0.5), p, m, v, np.array([0.1]), step, None, **attributes)
            p, m = [value(after["params"][0])], [value(after["exp_avg"][0])]
            v, step = after["exp_avg_sq"], after["step"]
        return float(p[0][0])

    def test_adam_moves_by_lr_whatever_a_steady_gradient_is(self):
        self.assertAlmostEqual(self.adam(3, eps=0.0), 2 - 3 * 0.1)

    def test_adam_decays_beside_the_gradient_or_in_it(self):
        self.assertAlmostEqual(self.adam(1, eps=0.0, weight_decay=0.5), 2 * (1 - 0.05) - 0.1)
        self.assertAlmostEqual(self.adam(1, eps=0.0, weight_decay=-0.5, decoupled=False), 2 + 0.1)  # 0.5 - 1 < 0

    def test_sgd(self):
        def step(buffer, **attributes):
            lr = np.array([0.1])
            after = formulas.multi_tensor_sgd(self.one(1.0), self.one(2.0), self.one(buffer), lr, None, **attributes)
            return float(value(after["params"][0])[0]), float(value(after["momentum_buffers"][0])[0])

        self.assertEqual(step(7.0), (2 - 0.1, 7.0))
        self.assertEqual(step(7.0, weight_decay=0.5), (2 - 0.2, 7.0))
        self.assertEqual(step(7.0, momentum=0.5), (2 - 0.45, 4.5))
        self.assertEqual(step(7.0, momentum=0.5, dampening=0.5), (2 - 0.4, 4.0))
        self.assertEqual(step(7.0, momentum=0.5, nesterov=True), (2 - 0.1 * (1 + 0.5 * 4.5), 4.5))
        self.assertEqual(step(7.0, momentum=0.5, dampening=0.5, first_run=True), (2 - 0.1, 1.0))

    def test_noop_leaves_everything(self):
        zero = self.one(0.0)
        after = formulas.multi_tensor_adam(self.one(1.0), zero, zero, zero, np.ones(1), np.ones(1), np.ones(1))
        self.assertEqual([float(x[0]) for x in (after["params"][0], after["step"])], [0, 1])

    def test_norm_and_scale(self):
        norm = formulas.multi_tensor_l2norm([np.array([3.0]), np.array([]), np.array([0.0, 4.0])])["norm"]
        np.testing.assert_array_equal(norm, [5])
        for found, values in ((0, [1.0, 2.0]), (1, [1.0, np.inf]), (1, [np.nan])):
            scaled = formulas.multi_tensor_scale([np.array(values)], np.array([0.5]), np.zeros(1))
            np.testing.assert_array_equal(scaled["found_inf"], [found])


class Facts(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(2)

    def test_a_normalized_row_has_mean_0_and_variance_1(self):
        x = 5 + 3 * self.rng.standard_normal((4, 100))
        y = value(formulas.layernorm_fwd(x, np.ones(100), np.zeros(100), eps=0)["output"])
        np.testing.assert_allclose(y.mean(-1), 0, atol=1e-12)
        np.testing.assert_allclose(y.var(-1), 1, rtol=1e-12)

    def test_rms_of_a_normalized_row_is_1(self):
        y = formulas.rmsnorm_fwd(self.rng.standard_normal((4, 100)), np.ones(100), eps=0)["output"]
        np.testing.assert_allclose((y**2).mean(-1), 1, rtol=1e-12)

    def test_activations_at_1(self):
        one = np.ones(1)
        np.testing.assert_allclose(value(formulas.gelu(one)["output"]), 0.8411919906, rtol=1e-9)
        np.testing.assert_allclose(formulas.silu(one)["output"], 0.7310585786, rtol=1e-9)
        np.testing.assert_allclose(formulas.qgelu(one)["output"], 0.8457957659, rtol=1e-9)
        np.testing.assert_allclose(formulas.relu(-one)["output"], 0)
        np.testing.assert_allclose(formulas.srelu(3 * one)["output"], 9)

    def test_the_first_half_of_swiglu_is_the_gate(self):
        gated = value(formulas.swiglu(np.array([1.0, 3.0]))["output"])
        np.testing.assert_allclose(gated, [3 * 0.7310585786], rtol=1e-9)

    def test_clamped_swiglu_clamps_its_halves_and_shifts_the_second(self):
        far = value(formulas.clamped_swiglu(np.array([100.0, -100.0]), limit=2.0, alpha=1.0)["output"])
        np.testing.assert_allclose(far, [-2 / (1 + np.exp(-2))])  # 2 sigmoid(2) (1 - 2)

    def test_softmax_sums_to_1(self):
        y = formulas.scaled_softmax_fwd(100 * self.rng.standard_normal((5, 9)), scale=3.0)["output"]
        np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-12)

    def test_attention_with_equal_scores_is_a_mean(self):
        value = self.rng.standard_normal((1, 4, 1, 2))
        inputs = (np.zeros((1, 2, 2, 3)), np.zeros((1, 4, 1, 3)), value)
        result = formulas.attention_fwd(*inputs, causal=True, window_left=2)
        for i, seen in enumerate((slice(0, 3), slice(1, 4))):
            np.testing.assert_allclose(result["output"][0, i, 1], value[0, seen, 0].mean(0), rtol=1e-12)
        np.testing.assert_allclose(result["lse"], np.log(3), rtol=1e-12)

    def test_attention_over_pages_is_that_over_the_sequence(self):
        draw = self.rng.standard_normal
        query, pages = draw((1, 2, 3)), draw((4, 2, 1, 3))
        order = np.array([[2, 0, 3]])
        decoded = formulas.attention_decode(query, pages, 2 * pages, order, np.array([5]))
        keys = pages[order[0]].reshape(1, 6, 1, 3)[:, :5]
        whole = formulas.attention_fwd(query[:, None], keys, 2 * keys)
        np.testing.assert_allclose(decoded["output"], whole["output"][:, 0], rtol=1e-12)
        np.testing.assert_allclose(decoded["lse"], whole["lse"][:, :, 0], rtol=1e-12)

    def test_a_row_sees_the_keys_that_are_not_hidden(self):
        x = np.log(np.array([[1.0, 2.0, 5.0], [1.0, 2.0, 5.0]])).reshape(1, 1, 2, 3)
        mask = np.array([[0, 0, 1], [1, 1, 1]]).reshape(1, 1, 2, 3)
        masked = formulas.scaled_masked_softmax_fwd(x, mask)["output"][0, 0]
        np.testing.assert_allclose(masked, [[1 / 3, 2 / 3, 0], [0, 0, 0]], rtol=1e-12)
        causal = formulas.scaled_aligned_causal_masked_softmax_fwd(x)["output"][0, 0]
        np.testing.assert_allclose(causal, [[1 / 3, 2 / 3, 0], [1 / 8, 2 / 8, 5 / 8]], rtol=1e-12)
        triangle = formulas.scaled_upper_triang_masked_softmax_fwd(x[0, :, :, :2])["output"][0]
        np.testing.assert_allclose(triangle, [[1, 0], [1 / 3, 2 / 3]], rtol=1e-12)
        longer = formulas.scaled_aligned_causal_masked_softmax_fwd(np.ones((1, 1, 3, 2)))["output"][0, 0]
        np.testing.assert_allclose(longer, [[0, 0], [1, 0], [1 / 2, 1 / 2]], rtol=1e-12)

    def test_rope_is_a_complex_rotation(self):
        x, angles = self.rng.standard_normal((1, 1, 1, 6)), self.rng.standard_normal(3)
        turned = (x[0, 0, 0, :3] + 1j * x[0, 0, 0, 3:]) * np.exp(1j * angles)
        y = formulas.fused_rope_fwd(x, np.tile(angles, 2).reshape(1, 1, 1, 6))["output"].value[0, 0, 0]
        np.testing.assert_allclose(y[:3] + 1j * y[3:], turned, rtol=1e-12)
        turned = (x[0, 0, 0, ::2] + 1j * x[0, 0, 0, 1::2]) * np.exp(1j * angles)
        freqs = np.repeat(angles, 2).reshape(1, 1, 1, 6)
        y = formulas.fused_rope_fwd(x, freqs, interleaved=True)["output"].value[0, 0, 0]
        np.testing.assert_allclose(y[::2] + 1j * y[1::2], turned, rtol=1e-12)

    def test_rope_at_positions_is_rope_by_the_angles_of_these(self):
        x, angles, positions = self.rng.standard_normal((4, 3, 8)), self.rng.standard_normal((5, 3)), [4, 0, 4, 2]
        for interleaved in (False, True):
            twice = np.repeat(angles, 2, -1) if interleaved else np.tile(angles, 2)
            freqs = twice[positions].reshape(4, 1, 1, 6)
            expected = formulas.fused_rope_fwd(x[:, None], freqs, interleaved=interleaved)["output"].value[:, 0]
            tables = (np.cos(angles), np.sin(angles))
            found = formulas.rope_positions(x, positions, *tables, interleaved=interleaved)["output"].value
            np.testing.assert_allclose(found, expected, rtol=1e-12)

    def test_samples_are_as_frequent_as_their_probabilities(self):
        logits, draws = np.array([1.0, -1.0, 3.0, 0.5, 2.0, 2.5]), 4000
        for k, p, left in ((0, 1.0, [0, 1, 2, 3, 4, 5]), (4, 1.0, [0, 2, 4, 5]), (4, 0.85, [2, 4, 5]), (0, 0.1, [2])):
            rows = np.tile(logits, (draws, 1))
            filters = (np.full(draws, k), np.full(draws, p))
            found = formulas.sample_top_k_top_p(rows, np.array([5, 3]), *filters)["indices"]
            weights = np.zeros(6)
            weights[left] = np.exp(logits[left])
            expected = weights / weights.sum()
            shares = np.bincount(found, minlength=6) / draws
            self.assertTrue((np.abs(shares - expected) <= 5 * np.sqrt(expected / draws)).all(), (shares, expected))

    def test_the_weight_of_a_sample_is_an_exponential(self):
        below = np.concatenate([[0.0], self.rng.uniform(0, 20, 1000)]).astype(np.float32)
        np.testing.assert_allclose(weights_of(-below.astype(np.float64)), 2.0**40 * np.exp(-below), rtol=2e-6, atol=1)

    def test_matmul_multiplies_the_last_two_dims(self):
        a, b = np.arange(12.0).reshape(2, 2, 3), np.ones((2, 3, 1))
        np.testing.assert_array_equal(formulas.matmul(a, b)["output"].value, [[[3], [12]], [[21], [30]]])

    def test_philox_gives_the_words_its_authors_publish(self):
        words = lambda counter, key: " ".join(f"{word:08x}" for word in philox(counter, key))
        self.assertEqual(words([0] * 4, [0] * 2), "6627e8d5 e169c58d bc57ac4c 9b00dbd8")
        ones = 0xFFFFFFFF
        self.assertEqual(words([ones] * 4, [ones] * 2), "408f276d 41c83b0e a20bc7c6 6d5451fd")
        pi = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
        self.assertEqual(words(*pi), "d16cfe09 94fdcceb 5001e420 24126ea1")

    def test_dropout_keeps_its_share_and_the_mean(self):
        dropped = formulas.dropout_fwd(np.ones(100000), np.array([1, 2]), p=0.3)
        self.assertAlmostEqual(dropped["mask"].mean(), 0.7, delta=0.01)
        self.assertAlmostEqual(dropped["output"].mean(), 1, delta=0.015)

    def test_fp8_has_its_values_and_limits(self):
        for dtype, largest, smallest in (("e4m3", 448, 2**-9), ("e5m2", 57344, 2**-16)):
            codes = np.arange(256)
            values = tensors.fp8_values(codes, dtype)
            finite = np.isfinite(values)
            self.assertEqual(values[finite].max(), largest)
            self.assertEqual(values[values > 0].min(), smallest)
            np.testing.assert_array_equal(tensors.fp8_codes(values[finite], dtype), codes[finite])
            far = tensors.fp8_values(tensors.fp8_codes(np.array([np.inf, -1e9, np.nan]), dtype), dtype)
            np.testing.assert_array_equal(far, [largest, -largest, np.nan])

    def test_quantize_rounds_to_even(self):
        quantized = formulas.quantize(np.array([17.0, 19.0, -500.0]), np.ones(1), np.array([3.0]), dtype="e4m3")
        np.testing.assert_array_equal(quantized["output"], [16, 20, -448])
        np.testing.assert_array_equal(quantized["amax"], [500])

    def test_cross_entropy_is_minus_the_log_of_the_smoothed_probability(self):
        x, target = self.rng.standard_normal((3, 5)), np.array([4, 0, 2])
        log_p = np.log(formulas.scaled_softmax_fwd(x)["output"])
        smoothed = 0.9 * np.eye(5)[target] + 0.1 / 5
        loss = formulas.cross_entropy_fwd(x, target, label_smoothing=0.1)["loss"].value
        np.testing.assert_allclose(loss, -(smoothed * log_p).sum(-1), rtol=1e-12)

    def test_an_ignored_row_has_neither_loss_nor_gradient(self):
        x, target = self.rng.standard_normal((2, 5)), np.array([1, 7])
        forward = formulas.cross_entropy_fwd(x, target, ignore_index=7, label_smoothing=0.1)
        self.assertEqual(forward["loss"].value[1], 0)
        backward = formulas.cross_entropy_bwd(np.ones(2), x, target, forward["lse"].value, ignore_index=7)
        self.assertFalse(backward["grad_logits"].value[1].any())


if __name__ == "__main__":
    unittest.main()
