"""Models and torch's own ops through opdock, and the behavior when a vendor's plugin fails."""

import copy
import functools
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import opdock.torch

F = torch.nn.functional
ops = torch.ops.opdock

_small = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
_few_keys = dict(_small, num_key_value_heads=2)
_image = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}

# For each model: its class, its config, and the ops that its layers are routed to.
_llama_ops = {"rmsnorm_fwd", "fused_add_rmsnorm_fwd", "silu_and_mul", "fused_rope_qk_fwd", "cross_entropy_fwd"}
models = {
    "Llama": ("ForCausalLM", _few_keys, _llama_ops),
    "Qwen2": ("ForCausalLM", _few_keys, _llama_ops),
    "Qwen3": ("ForCausalLM", dict(_few_keys, head_dim=8), _llama_ops),
    "Mistral": ("ForCausalLM", _few_keys, _llama_ops),
    "Phi3": ("ForCausalLM", dict(_few_keys, rope_parameters={"rope_type": "default", "rope_theta": 1e4}), None),
    "Gemma": ("ForCausalLM", dict(_few_keys, head_dim=8), (_llama_ops - {"silu_and_mul"}) | {"gelu_and_mul"}),
    "Gemma2": (
        "ForCausalLM",
        dict(_few_keys, head_dim=8),
        _llama_ops - {"silu_and_mul", "fused_add_rmsnorm_fwd"} | {"gelu_and_mul"},
    ),
    "GPTNeoX": ("ForCausalLM", _small, {"layernorm_fwd", "fused_rope_qk_fwd", "cross_entropy_fwd"}),
    "Bert": ("ForMaskedLM", dict(_small, hidden_act="gelu_new"), {"layernorm_fwd", "gelu"}),
    "ViT": ("ForImageClassification", dict(_image, image_size=32, patch_size=8), {"layernorm_fwd"}),
}


def make(name: str, **changes) -> "torch.nn.Module":
    kind, config, _ = models[name]
    config = getattr(transformers, f"{name}Config")(**{**config, **changes})
    return getattr(transformers, name + kind)(config).eval()


def inputs_of(name: str, rows: int = 2) -> dict:
    if name == "ViT":
        return {"pixel_values": torch.randn(rows, 3, 32, 32), "labels": torch.arange(rows) % 2}
    ids = torch.randint(3, 97, (rows, 9))
    return {"input_ids": ids, "labels": ids}


def step(model, inputs) -> "tuple[torch.Tensor, torch.Tensor, dict]":
    model.zero_grad()
    output = model(**inputs)
    output.loss.backward()
    grads = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    return output.loss.detach(), None if output.logits is None else output.logits.detach(), grads


@pytest.fixture(autouse=True)
def random(seed):
    torch.manual_seed(seed)


@pytest.mark.parametrize("name", sorted(models))
def test_a_model_computes_the_same_and_is_itself_again(name):
    torch.compiler.reset()  # it compiles a function for only a few models
    model, inputs = make(name), inputs_of(name)
    forwards = {one: one.forward for one in model.modules()}
    before = step(model, inputs)
    with opdock.torch.use(model) as used:
        torch.testing.assert_close(step(model, inputs), before, rtol=1e-4, atol=1e-5)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(**inputs).logits, before[1], rtol=1e-4, atol=1e-5)
    expected = models[name][2]
    if expected is not None:
        assert {op for place in used.places for op in place.ops} == expected
    assert all(place.calls == 1 for place in used.places if place.ops), str(used)
    assert {one: one.forward for one in model.modules()} == forwards
    after = step(model, inputs)
    assert torch.equal(after[0], before[0]) and torch.equal(after[1], before[1])


def test_a_layer_that_computes_something_else_is_left_alone_and_said():
    model = make("Bert", hidden_act="gelu")
    used = opdock.torch.use(model)
    left = [place for place in used.places if not place.ops]
    assert {place.kind for place in left} == {"GELUActivation"}
    assert "its results differ from gelu or qgelu" in str(left[0])
    used.undo()

    class RMSNorm(torch.nn.Module):  # only the name is the same
        def __init__(self):
            super().__init__()
            self.weight, self.eps = torch.nn.Parameter(torch.randn(8)), 1e-6

        def forward(self, x):
            return self.weight * x / x.abs().mean(-1, keepdim=True)

    with opdock.torch.use(RMSNorm()) as used:
        assert not used.places[0].ops


_acts = ["silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "relu2", "quick_gelu", "mish", "tanh", "linear"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_gated_mlp_is_replaced_by_what_its_activation_says(dtype):
    for act in _acts:
        model = make("Llama", hidden_act=act).to(dtype)
        with opdock.torch.use(model) as used:
            (ops_of_mlp,) = {place.ops for place in used.places if place.kind == "LlamaMLP"}
        expected = {"silu": ("silu_and_mul",), "gelu_new": ("gelu_and_mul",), "gelu_pytorch_tanh": ("gelu_and_mul",)}
        assert ops_of_mlp == expected.get(act, ()), act


class Layer(torch.nn.Module):
    def __init__(self, **attributes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))
        self.gate_proj, self.up_proj, self.down_proj = (torch.nn.Linear(8, 8) for _ in range(3))
        for name, value in attributes.items():
            setattr(self, name, value)


class DroppingMLP(Layer):
    def forward(self, x):
        return F.dropout(self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)), 0.5, self.training)


class ClampedMLP(Layer):
    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x).clamp(max=7.0)) * self.up_proj(x))


class GatedRMSNorm(Layer):
    def forward(self, x, gate=None):
        return F.rms_norm(x if gate is None else x * F.silu(gate), [8], self.weight, 1e-6)


class OtherRMSNorm(Layer):
    def forward(self, hidden_states):
        return F.rms_norm(hidden_states, [8], self.weight, self.epsilon)


@pytest.mark.parametrize("kind", [DroppingMLP, ClampedMLP, GatedRMSNorm])
def test_what_an_op_does_not_do_in_every_mode_is_left_alone(kind):
    for mode in (True, False):
        with opdock.torch.use(kind(eps=1e-6).train(mode)) as used:
            assert [place.ops for place in used.places] == [()], str(used)


def test_eps_counts_and_arguments_have_their_names():
    layer, x = OtherRMSNorm(epsilon=1e-2), torch.randn(3, 8) * 0.01
    expected = layer(x)
    with opdock.torch.use(layer) as used:
        assert used.places[0].ops == ("rmsnorm_fwd",)
        torch.testing.assert_close(layer(hidden_states=x), expected)
        torch.testing.assert_close(layer(x.double()), expected.double())  # by itself
    with opdock.torch.use(OtherRMSNorm(epsilon=1e-2, eps=1e-6)) as used:  # which is another one's
        assert not used.places[0].ops


def test_trying_changes_nothing_of_the_program():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(8), torch.nn.SiLU(), make("Llama"))
    calls = []
    model[2].model.layers[0].mlp.gate_proj.register_forward_hook(lambda *_: calls.append(1))
    before, state = torch.random.get_rng_state(), {k: v.clone() for k, v in model.state_dict().items()}
    with opdock.torch.use(model):
        assert torch.equal(torch.random.get_rng_state(), before) and not calls
        assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    replaced = torch.nn.SiLU()
    replaced.forward = lambda x: x
    with opdock.torch.use(torch.nn.Sequential(replaced, torch.nn.ReLU(inplace=True))) as used:
        assert [place.why for place in used.places] == ["its forward is already replaced"]
    with pytest.raises(ValueError, match="no memory yet"):
        opdock.torch.use(torch.nn.Linear(2, 2, device="meta"))
    with pytest.raises(TypeError, match="lists of names"):
        opdock.torch.use(model, only="gelu")


def test_modules_of_torch_itself():
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.SiLU(), torch.nn.RMSNorm(8), torch.nn.GELU("tanh")
    )
    x, target = torch.randn(3, 8), torch.tensor([1, 2, -100])
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    expected, expected_loss = model(x), loss(model(x), target)
    with opdock.torch.use(model) as used, opdock.torch.use(loss):
        torch.testing.assert_close(model(x), expected)
        torch.testing.assert_close(loss(model(x), target), expected_loss)
        assert [place.ops for place in used.places] == [("layernorm_fwd",), ("silu",), ("rmsnorm_fwd",), ("gelu",)]


def test_only_and_unused_choose_ops():
    model, ropes = make("Llama"), ["fused_rope_qk_fwd", "fused_rope_fwd"]
    with opdock.torch.use(model, only=["rmsnorm_fwd"]) as used:
        assert {op for place in used.places for op in place.ops} == {"rmsnorm_fwd"}
    with opdock.torch.use(model, unused=["rmsnorm_fwd", "fused_add_rmsnorm_fwd", *ropes]) as used:
        assert {op for place in used.places for op in place.ops} == {"silu_and_mul", "cross_entropy_fwd"}
    with pytest.raises(ValueError, match="no op 'rmsnorm'"):
        opdock.torch.use(model, only=["rmsnorm"])


def test_one_model_of_two_is_changed_and_uses_nest():
    one, other, inputs = make("Llama"), make("Llama"), inputs_of("Llama")
    source = sys.modules[type(one).__module__]
    function = source.apply_rotary_pos_emb
    with opdock.torch.use(one) as outer:
        expected = step(other, inputs)
        with opdock.torch.use(one) as inner:
            assert {place.why for place in inner.places if not place.ops} == {"its forward is already replaced"}
            step(one, inputs)
        with opdock.torch.use(other):
            torch.testing.assert_close(step(other, inputs), expected, rtol=1e-4, atol=1e-5)
        step(one, inputs)
        step(other, inputs)
        assert {place.calls for place in outer.places if place.kind == "LlamaRMSNorm"} == {2}
    with opdock.torch.use(one, only=["fused_add_rmsnorm_fwd", "rmsnorm_fwd"]), opdock.torch.use(one) as inner:
        assert [place.kind for place in inner.places if place.ops == ("fused_rope_qk_fwd",)] == ["LlamaRotaryEmbedding"]
        step(one, inputs)
    own = source.apply_rotary_pos_emb  # stays, and does what it did
    assert function in (own, own.opdock_original)


def test_who_serves_the_parts_of_a_fused_op_is_not_passed_over(device):
    if device != "cpu":
        pytest.skip("the reference, which is preferred here, computes on the CPU alone")
    model, inputs = make("Llama"), inputs_of("Llama")
    expected = step(model, inputs)
    with opdock.torch.host().policy(per_op="fused_rope_fwd=impl:reference.cpp;rmsnorm_fwd=impl:reference.cpp"):
        with opdock.torch.use(model) as used:
            torch.testing.assert_close(step(model, inputs), expected, rtol=1e-4, atol=1e-5)
            ops = {op for place in used.places for op in place.ops}
            assert ops == _llama_ops - {"fused_add_rmsnorm_fwd", "fused_rope_qk_fwd"} | {"fused_rope_fwd"}
            assert [place.calls for place in used.places if place.ops == ("fused_rope_fwd",)] == [1]
        with opdock.torch.use(model, unused=["fused_rope_fwd", "rmsnorm_fwd"]) as used:
            assert {"fused_rope_qk_fwd", "fused_add_rmsnorm_fwd"} < {op for place in used.places for op in place.ops}


@pytest.mark.parametrize("size", [6, 32, 128])
def test_rope_of_heads_of_other_sizes(size):
    model, inputs = make("Llama", head_dim=size), inputs_of("Llama")
    expected = model(**inputs).logits
    with opdock.torch.use(model, only=["fused_rope_qk_fwd"]) as used:
        torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-4, atol=1e-5)
        assert [place.calls for place in used.places] == [1]


def test_rope_of_batches_with_positions_of_their_own():
    model = make("Llama")
    ids = torch.randint(3, 97, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, :4] = 0  # padded on the left
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}
    expected = model(**inputs).logits[mask.bool()]
    with opdock.torch.use(model):
        torch.testing.assert_close(model(**inputs).logits[mask.bool()], expected, rtol=1e-4, atol=1e-5)


def test_rope_that_the_package_kernels_made_a_module(monkeypatch):
    model, inputs = make("Llama"), inputs_of("Llama")
    source, expected = sys.modules[type(model).__module__], step(model, inputs)
    own = getattr(source.apply_rotary_pos_emb, "opdock_original", source.apply_rotary_pos_emb)

    class Func(torch.nn.Module):  # as kernels makes it of a marked function
        def forward(self, q, k, cos, sin, unsqueeze_dim=1):
            return own(q, k, cos, sin, unsqueeze_dim)

    monkeypatch.setattr(source, "apply_rotary_pos_emb", Func())
    torch.testing.assert_close(step(model, inputs), expected)
    with opdock.torch.use(model, only=["fused_rope_qk_fwd"]) as used:
        assert [place.kind for place in used.places if place.ops] == ["LlamaRotaryEmbedding"]
        torch.testing.assert_close(step(model, inputs), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(step(model, inputs), expected)


def test_positions_are_taken_as_the_model_takes_them():
    model = make("Llama")
    for batch, shape in [
        (1, (1, 9)),
        (2, (1, 1)),
        (2, (2, 1)),
        (2, (2, 9)),
        (1, (2, 9)),
        (2, (9, 1)),
        (1, (1, 12)),
        (2, (9,)),
    ]:
        ids, positions = (
            torch.randint(3, 97, (batch, 9)),
            torch.arange(3, 3 + 18).reshape(-1)[: torch.Size(shape).numel()],
        )
        inputs = {"input_ids": ids, "position_ids": positions.reshape(shape)}
        try:
            expected = model(**inputs).logits
        except (RuntimeError, IndexError):
            with opdock.torch.use(model), pytest.raises((RuntimeError, IndexError, ValueError)):
                model(**inputs)
            continue
        with opdock.torch.use(model):
            torch.testing.assert_close(model(**inputs).logits, expected, rtol=1e-4, atol=1e-5)


def test_rope_that_scales_or_changes_is_left_alone():
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 16}
    with opdock.torch.use(make("Llama", rope_parameters=rope)) as used:
        (place,) = [place for place in used.places if "Rotary" in place.kind]
        assert not place.ops and place.why


def test_a_layer_adds_and_normalizes_at_once_where_nobody_looks_between():
    model, inputs = make("Llama").train(), inputs_of("Llama")
    layer = model.model.layers[0]
    own = type(layer).forward
    expected, calls = step(model, inputs), []
    with opdock.torch.use(model, only=["fused_add_rmsnorm_fwd"]) as used:
        assert [place.module for place in used.places] == ["model.layers.0", "model.layers.1"]
        hook = layer.post_attention_layernorm.register_forward_hook(lambda *_: calls.append(1))
        torch.testing.assert_close(step(model, inputs), expected, rtol=1e-4, atol=1e-5)
        assert calls == [1]
        hook.remove()
        model.gradient_checkpointing_enable()
        torch.testing.assert_close(step(model, inputs), expected, rtol=1e-4, atol=1e-5)
    model.gradient_checkpointing_disable()
    for norm in (torch.nn.LayerNorm(32), torch.nn.Identity()):  # a different module than the one that was tried
        with opdock.torch.use(model, only=["fused_add_rmsnorm_fwd"]):
            before, layer.post_attention_layernorm = layer.post_attention_layernorm, norm
            found = model(**inputs).logits
        torch.testing.assert_close(found, model(**inputs).logits)
        layer.post_attention_layernorm = before
    layer.more = torch.nn.Dropout(0.5)
    with opdock.torch.use(model, only=["fused_add_rmsnorm_fwd"]) as used:
        assert [place.module for place in used.places] == ["model.layers.1"]
    del layer.more

    def scaled(self, hidden_states, *args, **named):
        return own(self, hidden_states, *args, **named) * 2.0

    type(layer).forward = scaled
    try:
        with opdock.torch.use(model, only=["fused_add_rmsnorm_fwd"]) as used:
            assert not used.places
    finally:
        type(layer).forward = own


def served(name: str) -> int:
    host = opdock.torch.host()
    (op,) = (one for one in host.describe()["ops"] if one["op"] == name)
    return sum(host.served(name, one["impl_id"]) for one in op["implementations"])


def test_a_layer_normalizes_its_result_for_the_norm_after_it_where_nobody_can_tell():
    model, with_labels = make("Llama"), inputs_of("Llama")
    inputs = {"input_ids": with_labels["input_ids"]}
    layers, norm = model.model.layers, model.model.norm
    with_gradients = step(model, with_labels)

    def logits() -> "torch.Tensor":
        with torch.no_grad():
            return model(**inputs).logits

    def check(fused: int, apart: int) -> None:
        before = served("fused_add_rmsnorm_fwd"), served("rmsnorm_fwd")
        torch.testing.assert_close(logits(), expected, rtol=1e-4, atol=1e-5)
        assert (served("fused_add_rmsnorm_fwd") - before[0], served("rmsnorm_fwd") - before[1]) == (fused, apart)

    def add_to_first(module, given, *output) -> None:
        (output or given)[0].add_(0.5)

    def in_checkpoint(own, hidden_states, **named):
        return torch.utils.checkpoint.checkpoint(lambda x: own(x, **named), hidden_states, use_reentrant=True)

    def step_in_checkpoints() -> tuple:
        before = [one.forward for one in layers]
        for one in layers:
            one.forward = functools.partial(in_checkpoint, one.forward)
        result = step(model, with_labels)
        for one, forward in zip(layers, before, strict=True):
            one.forward = forward
        return result

    expected, changed, checkpointed = logits(), [], step_in_checkpoints()
    for one in layers:
        del one.forward
    x = torch.randn(1, 3, 32)
    angles = model.model.rotary_emb(x, torch.arange(3)[None])
    with opdock.torch.use(model, unused=["fused_rope_qk_fwd", "fused_rope_fwd"]):
        check(4, 1)
        before = served("fused_add_rmsnorm_fwd")
        torch.testing.assert_close(step(model, with_labels), with_gradients, rtol=1e-4, atol=1e-5)
        assert served("fused_add_rmsnorm_fwd") - before == 2  # gradients of a layer's result are requested
        # Reentrant checkpoints compute without gradients; the norm after all layers has gradients.
        torch.testing.assert_close(step_in_checkpoints(), checkpointed, rtol=1e-4, atol=1e-5)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        with torch.no_grad():
            torch.testing.assert_close(compiled(**inputs).logits, expected, rtol=1e-4, atol=1e-5)
        copied = copy.deepcopy(model)
        with torch.inference_mode():
            torch.testing.assert_close(copied(**inputs).logits, expected, rtol=1e-4, atol=1e-5)
            layers[0](x, position_embeddings=angles)  # by itself
        kept = [getattr(one.input_layernorm, "_opdock_ready", None) for one in layers]
        assert kept == [None, None] and norm._opdock_ready is None
        assert vars(copied.model.layers[0])["_opdock_after"].norm is copied.model.layers[1].input_layernorm
        hook = norm.register_forward_pre_hook(lambda *_: None)
        check(3, 2)
        hook.remove()
        for register in (layers[0].register_forward_hook, layers[1].register_forward_pre_hook):
            hook = register(add_to_first)  # which changes the sum in place
            found = logits()
            hook.remove()
            check(4, 1)
            assert not torch.allclose(found, expected)
            changed.append(found)
        torch.testing.assert_close(*changed, rtol=1e-4, atol=1e-5)
    assert not any(name.startswith("_opdock") for one in model.modules() for name in vars(one))
    hook = layers[0].register_forward_hook(add_to_first)
    torch.testing.assert_close(logits(), changed[0], rtol=1e-4, atol=1e-5)
    hook.remove()


_marked = {
    "SiLU": "silu",
    "GeluTanh": "gelu_pytorch_tanh",
    "NewGELU": "gelu_new",
    "FastGELU": "gelu_fast",
    "QuickGELU": "quick_gelu",
}


def test_the_mapping_for_the_package_kernels():
    kernels = pytest.importorskip("kernels")

    def mark(layer: "torch.nn.Module", name: str) -> "torch.nn.Module":  # as transformers marks it
        layer.__class__ = type(type(layer).__name__, (type(layer),), {})
        kernels.use_kernel_forward_from_hub(name)(type(layer))
        return layer

    norm = mark(make("Llama").model.norm, "RMSNorm")
    acts = [mark(transformers.activations.ACT2CLS[act](), name) for name, act in _marked.items()]
    model, x = torch.nn.Sequential(norm, *acts, torch.nn.Linear(32, 5)), torch.randn(3, 32)
    expected = model(x)
    before = served("rmsnorm_fwd"), served("silu"), served("gelu"), served("qgelu")
    for mode in (kernels.Mode.INFERENCE, kernels.Mode.TRAINING | kernels.Mode.TORCH_COMPILE):
        with kernels.use_kernel_mapping(opdock.torch.kernel_mapping()):
            kernels.kernelize(model, mode=mode)
        torch.testing.assert_close(model(x), expected)
    after = served("rmsnorm_fwd"), served("silu"), served("gelu"), served("qgelu")
    assert [b - a for a, b in zip(before, after, strict=True)] == [2, 2, 6, 2]
    model(x).sum().backward()
    assert norm.weight.grad is not None
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), expected)
    assert model.double()(x.double()).dtype is torch.float64  # which the ops leave to the layers


def test_generation_gives_the_same_tokens():
    model, ids = make("Llama"), torch.randint(3, 97, (2, 5))
    options = {"max_new_tokens": 6, "do_sample": False}
    expected = model.generate(ids, **options)
    with opdock.torch.use(model):
        assert torch.equal(model.generate(ids, **options), expected)


def test_a_model_in_low_precision_and_under_autocast(device):
    model, inputs = make("Llama"), inputs_of("Llama")
    with torch.autocast(device, torch.bfloat16):
        expected = model(**inputs).logits
    with opdock.torch.use(model), torch.autocast(device, torch.bfloat16):
        torch.testing.assert_close(model(**inputs).logits.float(), expected.float(), rtol=0.1, atol=0.02)
    model = model.to(torch.bfloat16)
    expected = model(**inputs).logits
    with opdock.torch.use(model) as used:
        assert {op for place in used.places for op in place.ops} == models["Llama"][2]
        torch.testing.assert_close(model(**inputs).logits, expected, rtol=0.1, atol=0.02)


def test_the_loss_without_logits(monkeypatch):
    monkeypatch.setattr(opdock.torch._loss, "_MOST_LOGITS", 97 * 4 * 5)  # five rows at a time
    model, inputs = make("Llama").train(), inputs_of("Llama")
    inputs["labels"] = inputs["labels"].clone()
    inputs["labels"][0, :3] = -100
    before = step(model, inputs)
    with opdock.torch.use(model, linear_cross_entropy=True):
        loss, logits, grads = step(model, inputs)
        assert logits is None
        torch.testing.assert_close((loss, grads), (before[0], before[2]), rtol=1e-4, atol=1e-5)
        items = torch.tensor(7)
        assert model(**inputs, num_items_in_batch=items).loss.isfinite()
        assert model.eval()(**inputs).logits is not None
        model.train()
        assert model(inputs["input_ids"], labels=inputs["labels"]).logits is None
        assert model(**inputs, return_dict=False)[1] is not None
    for name, why in {"Gemma2": "it caps its logits", "Bert": "not a causal language model"}.items():
        with pytest.raises(ValueError, match=why):
            opdock.torch.use(make(name), linear_cross_entropy=True)
    mixtral = {**_few_keys, "num_local_experts": 2, "output_router_logits": True}
    with pytest.raises(ValueError, match="a part for its routers"):
        model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**mixtral))
        opdock.torch.use(model, linear_cross_entropy=True)
    model = make("Llama")
    plain = type(model).forward
    other = type("Scaled", (type(model),), {"forward": lambda self, **named: _scaled(plain(self, **named))})
    model.__class__ = other
    with pytest.raises(ValueError, match="its loss is a different one"):
        opdock.torch.use(model, linear_cross_entropy=True)


def _scaled(output):
    output.loss = output.loss * 2
    return output


def test_linear_cross_entropy_is_the_product_and_then_the_loss():
    hidden, weight = torch.randn(7, 8, requires_grad=True), torch.randn(11, 8, requires_grad=True)
    target = torch.randint(0, 11, (7,))
    target[2] = -100
    for reduction in ("mean", "sum"):
        losses = (
            opdock.torch.linear_cross_entropy(hidden, weight, target, reduction=reduction),
            F.cross_entropy(hidden @ weight.t(), target, reduction=reduction),
        )
        torch.testing.assert_close(*losses)
        torch.testing.assert_close(*(torch.autograd.grad(one * 3, (hidden, weight)) for one in losses))
    halves = torch.full((8192, 32), 20.0).half(), (torch.randn(50, 32) * 0.01).half().requires_grad_()
    mean = opdock.torch.linear_cross_entropy(*halves, torch.zeros(8192, dtype=torch.long))
    assert torch.autograd.grad(mean, halves[1])[0].isfinite().all()
    with pytest.raises(ValueError, match="reduction must be one of sum, mean"):
        opdock.torch.linear_cross_entropy(hidden, weight, target, reduction="none")
    with torch.no_grad():
        assert opdock.torch.linear_cross_entropy(hidden, weight, target).isfinite()


def test_a_copy_of_a_model_computes_with_parameters_of_its_own():
    model, inputs = make("Llama"), inputs_of("Llama")
    with opdock.torch.use(model):
        twin = copy.deepcopy(model)
        with torch.no_grad():
            twin.model.norm.weight.zero_()
            assert twin(**inputs).logits.abs().max() == 0
            assert model(**inputs).logits.abs().max() > 0
    assert twin(**inputs).logits.abs().max() == 0  # also when the other model is restored
    first, second = opdock.torch.use(model), opdock.torch.use(model)
    first.undo()
    second.undo()
    assert model(**inputs).logits.abs().max() > 0


def test_torchs_own_ops_are_computed_by_the_host_and_torchs_again(device):
    x = torch.randn(3, 8, requires_grad=True)
    w, b = torch.randn(8), torch.randn(8)

    def program():
        y = F.layer_norm(F.gelu(F.silu(x), approximate="tanh") * x + x, [8], w, b)
        return torch.autograd.grad((F.softmax(y @ torch.ones(8, 8), -1) * y).sum(), x)[0]

    expected = program()
    with opdock.torch.enable(device=device) as enabled:
        torch.testing.assert_close(program(), expected)
        assert enabled.calls["silu"] == enabled.calls["silu_backward"] == enabled.calls["native_layer_norm"] == 1
        torch.testing.assert_close(F.gelu(x.double()), F.gelu(x).double(), rtol=1e-5, atol=1e-6)
        assert enabled.others["gelu"] == 2  # neither has the form that an op computes
        before = dict(enabled.calls)
    assert torch.equal(program(), expected) and enabled.calls == before
    with opdock.torch.enable(unused=["mm"], device=device) as enabled:
        assert "mm" not in enabled.calls
    with opdock.torch.enable(["silu", "silu"], device=device):
        with pytest.raises(ValueError, match=f"'silu' is already enabled for {device}"):
            opdock.torch.enable(device=device)
        F.silu(x)
    with pytest.raises(ValueError, match="no counterpart of torch's op 'conv2d'; it has counterparts of silu"):
        opdock.torch.enable(["conv2d"])
    with pytest.raises(ValueError, match="devices of type 'meta'"):
        opdock.torch.enable(["silu"], device="meta")
    with pytest.raises(RuntimeError, match="nonsense"):
        opdock.torch.enable(["silu"], device="nonsense")
    with pytest.raises(TypeError, match="lists of names"):
        opdock.torch.enable("silu")


def test_what_the_host_refuses_is_computed_by_torch(device):
    with opdock.torch.enable(["mm"], device=device) as enabled:
        with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
            torch.mm(torch.randn(2, 3), torch.randn(4, 5))
        assert enabled.others["mm"] == 1 and "matmul" in enabled.why["mm"]
        own = opdock.torch.host()
        with own.policy(strict=True), pytest.raises(RuntimeError, match="op 'matmul'"):
            torch.mm(torch.randn(2, 3), torch.randn(4, 5))


def test_the_report_says_who_served_and_what_was_never_asked(device):
    model = make("Llama")
    with opdock.torch.use(model), opdock.torch.enable(["relu"], device=device):
        model(**inputs_of("Llama"))
        torch.relu(torch.ones(3))
        text = opdock.torch.report()
    assert "  model.norm (LlamaRMSNorm): fused_add_rmsnorm_fwd, rmsnorm_fwd: 1 call\n" in text
    assert "  aten::relu (relu): 1 by opdock, 0 by torch\n" in text
    server = {"cpu": "default.cpu", "cuda": "vendor.cuda"}[device]
    assert f"\n  rmsnorm_fwd: {server} " in text and "never asked: " in text
    assert "LlamaForCausalLM" not in opdock.torch.report()


# Tests below run in their own programs: a process remembers the behavior of a vendor's plugin.


def run(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    modules = os.environ["OPDOCK_TEST_VENDOR"] + "," + os.environ["PLUGIN_MODULES"]
    return subprocess.run(
        [sys.executable, "-c", "import torch, opdock.torch\nops = torch.ops.opdock\n" + program],
        env={**os.environ, "PLUGIN_MODULES": modules, "PLUGIN_PREFER": "vendor", **environment},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_vendors_own_op_has_gradients_by_its_name():
    done = run("""
x = torch.ones(3, 4, requires_grad=True)
y = ops.acme_scale(x, by=3.0)
y.sum().backward()
assert y.sum() == 36 and x.grad.sum() == 36
compiled = torch.compile(lambda x: ops.acme_scale(x * 2), fullgraph=True, backend="aot_eager")
assert compiled(x).sum() == 48
""")
    assert done.returncode == 0, done.stderr


def test_a_vendors_attributes_of_all_kinds_and_ops_that_torch_cannot_have():
    done = run("""
import numpy
x = torch.ones(2, 3)
assert (ops.acme_lists(x, texts=["ab", "c"]) == 3 + 0.5 + 3 + 3).all()
assert (ops.acme_lists(x, ints=[7], floats=[], texts=[], extra=2.5, mode="") == 9.5).all()
host = opdock.torch.host()
assert (host.op("acme.lists")(numpy.ones((2, 3), "f4"), ints=[7], floats=[1.5], texts=["xyz"]) == 11.5 + 3).all()
print(opdock.torch.report().splitlines()[-1])
for _ in range(3):
    try:
        ops.acme_lists(x, texts=["a"] * 100000, mode="\\0")
    except RuntimeError:
        pass
""")
    assert done.returncode == 0, done.stderr
    assert "not given to torch: acme.strange: attribute 'names' is [] by default" in done.stdout


def test_a_vendors_plugin_that_declines_fails_or_throws_is_passed_over():
    done = run("""
for rows in (3, 7, 9, 11):
    x = torch.randn(rows, 4, requires_grad=True)
    y = ops.gelu(x)
    torch.testing.assert_close(y, torch.nn.functional.gelu(x, approximate="tanh"))
    y.sum().backward()
host = opdock.torch.host()
print(host.served("gelu", "vendor.acme"), host.served("gelu", "default.cpu"))
print(opdock.torch.report())
""")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 3\n") and "gelu: default.cpu 3, vendor.acme 1" in done.stdout


@pytest.mark.parametrize("rows", [7, 9, 11])
def test_in_strict_mode_the_reason_ends_the_program(rows):
    done = run(f"ops.gelu(torch.ones({rows}, 4))", PLUGIN_STRICT="1")
    assert done.returncode == 1
    assert "RuntimeError: op 'gelu'" in done.stderr and f"it has {rows} rows" in done.stderr
    done = run(
        f"""
with opdock.torch.enable(["gelu"], device="cpu"):
    torch.nn.functional.gelu(torch.ones({rows}, 4), approximate="tanh")
""",
        PLUGIN_STRICT="1",
    )
    assert done.returncode == 1 and f"it has {rows} rows" in done.stderr and "TypeError" not in done.stderr


def test_processes_of_a_loader_compute_too():
    done = run("""
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return ops.gelu(torch.full((2, 4), float(i)))
ops.gelu(torch.ones(2, 4))
loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2, multiprocessing_context="fork")
total = sum(batch.sum().item() for batch in loader)
assert 200 < total < 230, total
""")
    assert done.returncode == 0, done.stderr
