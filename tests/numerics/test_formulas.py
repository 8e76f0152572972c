"""The float64 formulas against finite differences of their forward ops, and against facts known otherwise.

Run as `python3 test_formulas.py`. The inputs are fixed: these are checks of formulas, not of rounding.
"""

import unittest

import numpy as np

import formulas


def value(output):
    return output.value if isinstance(output, formulas.Sum) else output


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

    def test_rmsnorm(self):
        for attributes in ({}, {"zero_centered_gamma": True}):
            x, w, g = self.draw(2, 3, 5), self.draw(5), self.draw(2, 3, 5)
            forward = lambda x, w: formulas.rmsnorm_fwd(x, w, **attributes)
            backward = formulas.rmsnorm_bwd(g, x, forward(x, w)["rsigma"], w, **attributes)
            self.check(backward["grad_input"], lambda v: (g * forward(v, w)["output"]).sum(), x)
            self.check(backward["grad_weight"], lambda v: (g * forward(x, v)["output"]).sum(), w)

    def test_rmsnorm_with_a_residual_branch(self):
        x, w, g, r = self.draw(2, 3, 5), self.draw(5), self.draw(2, 3, 5), self.draw(2, 3, 5)
        rsigma = formulas.rmsnorm_fwd(x, w)["rsigma"]
        backward = formulas.rmsnorm_bwd_add(g, x, r, rsigma, w)
        self.check(backward["grad_input"], lambda v: (g * formulas.rmsnorm_fwd(v, w)["output"] + r * v).sum(), x)

    def test_layernorm(self):
        for attributes in ({}, {"zero_centered_gamma": True}):
            x, w, b, g = self.draw(2, 3, 5), self.draw(5), self.draw(5), self.draw(2, 3, 5)
            forward = lambda x, w, b: formulas.layernorm_fwd(x, w, b, **attributes)
            loss = lambda x, w, b: (g * value(forward(x, w, b)["output"])).sum()
            saved = forward(x, w, b)
            backward = formulas.layernorm_bwd(g, x, value(saved["mu"]), saved["rsigma"], w, **attributes)
            self.check(backward["grad_input"], lambda v: loss(v, w, b), x)
            self.check(backward["grad_weight"], lambda v: loss(x, v, b), w)
            self.check(backward["grad_bias"], lambda v: loss(x, w, v), b)

    def test_activations(self):
        x, g = 2 * self.draw(8, 8), self.draw(8, 8)
        for name in ("gelu", "qgelu", "silu", "relu", "srelu"):
            with self.subTest(name):
                forward, backward = getattr(formulas, name), getattr(formulas, "d" + name)
                loss = lambda v: (g * value(forward(v)["output"])).sum()
                self.check(backward(g, x)["grad_input"], loss, x)
                with_bias = getattr(formulas, "dbias_d" + name)(g, x)
                self.check(with_bias["grad_input"], loss, x)
                shifted = lambda bias: loss(x + bias)
                self.check(with_bias["grad_bias"], shifted, np.zeros(8))

    def test_gated(self):
        x, g = 2 * self.draw(3, 8), self.draw(3, 4)
        for forward, backward in (
            ("geglu", "dgeglu"),
            ("qgeglu", "dqgeglu"),
            ("reglu", "dreglu"),
            ("sreglu", "dsreglu"),
            ("swiglu", "dswiglu"),
            ("clamped_swiglu", "clamped_dswiglu"),
        ):
            for attributes in ({}, {"limit": 1.5, "alpha": 0.7}) if "clamped" in forward else ({},):
                with self.subTest(forward, **attributes):
                    loss = lambda v: (g * value(getattr(formulas, forward)(v, **attributes)["output"])).sum()
                    self.check(getattr(formulas, backward)(g, x, **attributes)["grad_input"], loss, x)

    def test_gated_tensors(self):
        gate, up, g = self.draw(3, 4), self.draw(3, 4), self.draw(3, 4)
        for name in ("silu_and_mul", "gelu_and_mul"):
            with self.subTest(name):
                loss = lambda gate, up: (g * value(getattr(formulas, name)(gate, up)["output"])).sum()
                backward = getattr(formulas, name + "_bwd")(g, gate, up)
                self.check(backward["grad_gate"], lambda v: loss(v, up), gate)
                self.check(backward["grad_up"], lambda v: loss(gate, v), up)

    def test_softmax(self):
        x, g = self.draw(3, 7), self.draw(3, 7)
        for scale in (1.0, -0.7):
            y = formulas.scaled_softmax_forward(x, scale=scale)["output"]
            loss = lambda v: (g * formulas.scaled_softmax_forward(v, scale=scale)["output"]).sum()
            self.check(formulas.scaled_softmax_backward(g, y, scale=scale)["grad_input"], loss, x)

    def test_masked_softmax(self):
        x, g = self.draw(2, 2, 3, 4), self.draw(2, 2, 3, 4)
        mask = self.rng.random((2, 1, 3, 4)) < 0.4
        mask[0, 0, 1] = True
        for name, inputs in (("masked", (mask,)), ("aligned_causal_masked", ())):
            with self.subTest(name):
                forward = lambda v: getattr(formulas, f"scaled_{name}_softmax_forward")(v, *inputs, scale=0.7)["output"]
                backward = getattr(formulas, f"scaled_{name}_softmax_backward")(g, forward(x), scale=0.7)
                self.check(backward["grad_input"], lambda v: (g * forward(v)).sum(), x)

    def test_rope(self):
        # The halves of freqs differ here, unlike in models: the formula must be the true transpose.
        x, g, freqs = self.draw(3, 2, 2, 8), self.draw(3, 2, 2, 8), self.draw(4, 1, 1, 6)
        for interleaved in (False, True):
            loss = lambda v: (g * formulas.fused_rope_forward(v, freqs, interleaved=interleaved)["output"].value).sum()
            self.check(formulas.fused_rope_backward(g, freqs, interleaved=interleaved)["grad_input"], loss, x)

    def test_linear(self):
        x, w, b, g = self.draw(2, 3, 4), self.draw(5, 4), self.draw(5), self.draw(2, 3, 5)
        loss = lambda x, w, b: (g * formulas.linear_fwd(x, w, b)["output"].value).sum()
        by_weight = formulas.linear_wgrad(g, x)
        self.check(formulas.linear_dgrad(g, w)["grad_input"], lambda v: loss(v, w, b), x)
        self.check(by_weight["grad_weight"], lambda v: loss(x, v, b), w)
        self.check(by_weight["grad_bias"], lambda v: loss(x, w, v), b)

    def test_cross_entropy(self):
        x, g, target = self.draw(4, 6), self.draw(4), np.array([0, 5, -100, 3])
        for smoothing in (0.0, 0.2):
            forward = lambda v: formulas.cross_entropy_fwd(v, target, label_smoothing=smoothing)
            lse = forward(x)["lse"].value
            backward = formulas.cross_entropy_bwd(g, x, target, lse, label_smoothing=smoothing)
            self.check(backward["grad_logits"], lambda v: (g * forward(v)["loss"].value).sum(), x)
            fused = formulas.fused_cross_entropy(x, target, label_smoothing=smoothing, scale=-0.3)
            self.check(fused["logits"], lambda v: -0.3 * forward(v)["loss"].value.sum(), x)
            np.testing.assert_array_equal(fused["loss"].value, forward(x)["loss"].value)


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
        np.testing.assert_allclose(value(formulas.swiglu(np.array([1.0, 3.0]))["output"]), [3 * 0.7310585786], rtol=1e-9)

    def test_clamped_swiglu_clamps_its_halves_and_shifts_the_second(self):
        far = value(formulas.clamped_swiglu(np.array([100.0, -100.0]), limit=2.0, alpha=1.0)["output"])
        np.testing.assert_allclose(far, [-2 / (1 + np.exp(-2))])  # 2 sigmoid(2) (1 - 2)

    def test_softmax_sums_to_1(self):
        y = formulas.scaled_softmax_forward(100 * self.rng.standard_normal((5, 9)), scale=3.0)["output"]
        np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-12)

    def test_a_row_sees_the_keys_that_are_not_hidden(self):
        x = np.log(np.array([[1.0, 2.0, 5.0], [1.0, 2.0, 5.0]])).reshape(1, 1, 2, 3)
        mask = np.array([[0, 0, 1], [1, 1, 1]]).reshape(1, 1, 2, 3)
        masked = formulas.scaled_masked_softmax_forward(x, mask)["output"][0, 0]
        np.testing.assert_allclose(masked, [[1 / 3, 2 / 3, 0], [0, 0, 0]], rtol=1e-12)
        causal = formulas.scaled_aligned_causal_masked_softmax_forward(x)["output"][0, 0]
        np.testing.assert_allclose(causal, [[1 / 3, 2 / 3, 0], [1 / 8, 2 / 8, 5 / 8]], rtol=1e-12)
        triangle = formulas.scaled_upper_triang_masked_softmax_forward(x[0, :, :, :2])["output"][0]
        np.testing.assert_allclose(triangle, [[1, 0], [1 / 3, 2 / 3]], rtol=1e-12)
        longer = formulas.scaled_aligned_causal_masked_softmax_forward(np.ones((1, 1, 3, 2)))["output"][0, 0]
        np.testing.assert_allclose(longer, [[0, 0], [1, 0], [1 / 2, 1 / 2]], rtol=1e-12)

    def test_rope_is_a_complex_rotation(self):
        x, angles = self.rng.standard_normal((1, 1, 1, 6)), self.rng.standard_normal(3)
        turned = (x[0, 0, 0, :3] + 1j * x[0, 0, 0, 3:]) * np.exp(1j * angles)
        y = formulas.fused_rope_forward(x, np.tile(angles, 2).reshape(1, 1, 1, 6))["output"].value[0, 0, 0]
        np.testing.assert_allclose(y[:3] + 1j * y[3:], turned, rtol=1e-12)
        turned = (x[0, 0, 0, ::2] + 1j * x[0, 0, 0, 1::2]) * np.exp(1j * angles)
        freqs = np.repeat(angles, 2).reshape(1, 1, 1, 6)
        y = formulas.fused_rope_forward(x, freqs, interleaved=True)["output"].value[0, 0, 0]
        np.testing.assert_allclose(y[::2] + 1j * y[1::2], turned, rtol=1e-12)

    def test_matmul_multiplies_the_last_two_dims(self):
        a, b = np.arange(12.0).reshape(2, 2, 3), np.ones((2, 3, 1))
        np.testing.assert_array_equal(formulas.matmul(a, b)["output"].value, [[[3], [12]], [[21], [30]]])

    def test_cross_entropy_is_minus_the_log_of_the_smoothed_probability(self):
        x, target = self.rng.standard_normal((3, 5)), np.array([4, 0, 2])
        log_p = np.log(formulas.scaled_softmax_forward(x)["output"])
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
