"""Routes a model's layers through opdock's ops, if an op computes what the layer does."""

import functools
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from . import _layers, _rope
from ._loss import cross_entropy, linear_cross_entropy
from ._ops import keeps_choice, overload, tell_inductor
from ._schema import FLOATS
from ._trial import Tried, eps_of, random

Forward = Callable[..., Any]


@dataclass
class Place:
    """A module of a model to which a rule applies."""

    module: str  # its name in the model, "" for the model itself
    kind: str  # its class
    ops: tuple[str, ...]  # that compute it; empty if it was not replaced
    why: str  # reason if it was not replaced
    calls: int = 0  # number of calls outside of compiled code

    def __str__(self) -> str:
        name = f"{self.module or '(model)'} ({self.kind})"
        if not self.ops:
            return f"{name}: left alone: {self.why}"
        return f"{name}: {', '.join(self.ops)}: {self.calls or 'no'} call{'' if self.calls == 1 else 's'}"


@dataclass
class _Offer:
    """A rule's replacement for a module."""

    op: str
    forward: Forward  # takes the module and its only argument
    # `trial` calls the module's own forward with `argument`. In it, `seen` replaces the module's projections and
    # parameters. `result` computes the same with the op.
    seen: dict[str, Any]
    argument: torch.Tensor
    result: Callable[[], torch.Tensor]


class Use:
    """The changes made by use(). A context manager: leaving it undoes them."""

    def __init__(self, model: nn.Module) -> None:
        self.name = type(model).__name__
        self.places: list[Place] = []
        # Each entry is an owner, the attribute that was set, and its previous value. An owner may be freed before this
        # object.
        self._before: list[tuple[weakref.ref[Any], str, Any]] = []

    def undo(self) -> None:
        """Restores the model."""
        live.discard(self)
        while self._before:
            reference, name, before = self._before.pop()
            owner = reference()
            if owner is None:
                continue
            if before is _nothing:
                vars(owner).pop(name, None)
            else:
                setattr(owner, name, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.undo()

    def __str__(self) -> str:
        return "\n".join(str(place) for place in self.places)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._before.append((weakref.ref(owner), name, vars(owner).get(name, _nothing)))
        setattr(owner, name, value)

    def _leave(self, module: nn.Module, name: str, why: str) -> None:
        self.places.append(Place(name, type(module).__name__, (), why))

    def _replace(self, module: nn.Module, name: str, ops: tuple[str, ...], forward: Forward) -> None:
        counted = self._counted(Place(name, type(module).__name__, ops, ""), forward, type(module).forward)
        self._set(module, "forward", types.MethodType(counted, module))

    def _counted(self, place: Place, function: Forward, original: Forward) -> Forward:
        self.places.append(place)

        @functools.wraps(original)  # callers inspect its parameters
        def counted(*args: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling():
                tell_inductor()
            else:
                place.calls += 1
            return function(*args, **named)

        return counted


_nothing = object()
live: "weakref.WeakSet[Use]" = weakref.WeakSet()  # uses in force
_uses: "weakref.WeakKeyDictionary[nn.Module, list[Use]]" = weakref.WeakKeyDictionary()  # kept as long as their models


def _argument_of(module: nn.Module) -> str | None:
    """Returns the name of the only argument of its forward; None if there are several."""
    parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    if len(parameters) != 1 or parameters[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
        return None
    return parameters[0].name


def _of_one_argument(module: nn.Module, op: Callable[[Any, torch.Tensor], Any], fits: Callable[..., bool]) -> Forward:
    """Returns a forward that calls `op` if it accepts the argument, else the module's own forward."""
    original, name = type(module).forward, _argument_of(module) or ""

    def forward(self: Any, *args: Any, **named: Any) -> Any:
        x = args[0] if args else named[name]
        return op(self, x) if x.dtype in FLOATS and fits(self, x) else original(self, x)

    return forward


def _wide(device: torch.device) -> torch.Tensor:
    """Inputs at which activations differ: near 0 and far from it."""
    return torch.cat([random(device, 4, 64) * 3, torch.linspace(-50, 50, 64, device=device).expand(1, 64)])


def _norm_fits(self: Any, x: torch.Tensor) -> bool:
    return bool(x.dtype == self.weight.dtype and (getattr(self, "bias", None) is None or self.bias.dtype == x.dtype))


def _norm(module: nn.Module, device: torch.device) -> Iterable[_Offer]:
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    if not isinstance(weight, torch.Tensor) or weight.dim() != 1:
        return
    is_layer_norm = isinstance(module, nn.LayerNorm)
    if not is_layer_norm and ("RMSNorm" not in type(module).__name__ or bias is not None):
        return
    if is_layer_norm and bias is None:
        return
    eps = eps_of(module)
    if eps is None and not isinstance(module, nn.RMSNorm):
        return
    name = "layernorm_fwd" if is_layer_norm else "rmsnorm_fwd"
    op, n = overload(name, False), weight.numel()
    seen = {"weight": random(device, n)} | ({"bias": random(device, 2, n)[1]} if is_layer_norm else {})
    # Rows whose norm eps affects little, much, and entirely.
    x = random(device, 3, n) * torch.tensor([[1.0], [3e-3], [1e-5]], device=device)
    for zero_centered in (False, True):

        def call(self: Any, x: torch.Tensor, zero_centered: bool) -> Any:
            if (normed := _layers.ready(self, x)) is not None:
                return normed
            parameters = (self.weight, self.bias) if is_layer_norm else (self.weight,)
            own = torch.finfo(x.dtype).eps if eps is None else eps
            return op(x, *parameters, eps=own, zero_centered_gamma=zero_centered)

        bound = functools.partial(call, zero_centered=zero_centered)
        yield _Offer(
            name,
            _of_one_argument(module, bound, _norm_fits),
            seen,
            x,
            functools.partial(bound, types.SimpleNamespace(**seen), x),
        )


_ACTIVATIONS = {"silu": ("silu",), "gelu": ("gelu", "qgelu"), "relu": ("relu", "srelu")}  # by class name


def _activation(module: nn.Module, device: torch.device) -> Iterable[_Offer]:
    name = type(module).__name__.lower()
    if any(True for _ in module.parameters()) or getattr(module, "inplace", False):
        return
    for op_name in (op for word, ops in _ACTIVATIONS.items() if word in name for op in ops):
        op, x = overload(op_name, False), _wide(device)

        def call(self: Any, x: torch.Tensor, op: Any) -> Any:
            return op(x)

        forward = _of_one_argument(module, functools.partial(call, op=op), lambda self, x: True)
        yield _Offer(op_name, forward, {}, x, functools.partial(op, x))


def _has_children(module: nn.Module, *names: str) -> bool:
    return all(isinstance(getattr(module, name, None), nn.Module) for name in names)


def _gated_mlp(module: nn.Module, device: torch.device) -> Iterable[_Offer]:
    gate, up = _wide(device), random(device, 5, 64)
    apart = {"gate_proj": lambda x: gate, "up_proj": lambda x: up, "down_proj": lambda x: x}
    together = {"gate_up_proj": lambda x: torch.cat([gate, up], -1), "down_proj": lambda x: x}
    if _has_children(module, *apart):
        for name in ("silu_and_mul", "gelu_and_mul"):
            op = overload(name, False)

            def call(self: Any, x: torch.Tensor, op: Any) -> Any:
                return self.down_proj(op(self.gate_proj(x), self.up_proj(x)))

            forward = _of_one_argument(module, functools.partial(call, op=op), lambda self, x: True)
            yield _Offer(name, forward, apart, gate, functools.partial(op, gate, up))
    elif _has_children(module, *together):
        for name in ("swiglu", "geglu"):
            op = overload(name, False)

            def fused(self: Any, x: torch.Tensor, op: Any) -> Any:
                return self.down_proj(op(self.gate_up_proj(x)))

            forward = _of_one_argument(module, functools.partial(fused, op=op), lambda self, x: True)
            yield _Offer(name, forward, together, gate, functools.partial(op, torch.cat([gate, up], -1)))


_RULES = [_gated_mlp, _norm, _activation]


def _why_not(module: nn.Module, offer: _Offer) -> str | None:
    """Returns None if the op computes what the module's own forward does; else the error, or "" if results differ."""
    found = offer.result()
    for training in (False, True, True):
        try:
            with torch.random.fork_rng(devices=[found.device] if found.is_cuda else []):
                expected = type(module).forward(Tried(module, offer.seen, training), offer.argument)
            if expected.dtype != found.dtype or not torch.allclose(found, expected, rtol=1e-4, atol=1e-5):
                return ""
        except Exception as error:  # noqa: BLE001 - the module's, of any kind
            return str(error).partition("\n")[0] or type(error).__name__
    return None


def _use_ops(done: Use, module: nn.Module, name: str, is_wanted: Callable[[str], bool], device: torch.device) -> bool:
    """Returns True if the module was replaced."""
    offers = [offer for rule in _RULES for offer in rule(module, device) if is_wanted(offer.op)]
    if not offers:
        return False
    if any(isinstance(child, nn.Dropout) and child.p > 0 for child in module.modules()):
        done._leave(module, name, "it has dropout")
        return False
    if _argument_of(module) is None:
        done._leave(module, name, "its forward takes more than one argument")
        return False
    reasons = []
    for offer in offers:
        reason = _why_not(module, offer)
        if reason is None:
            done._replace(module, name, (offer.op,), offer.forward)
            return True
        reasons.append(reason)
    why = next((reason for reason in reasons if reason), "")
    tried = " or ".join(dict.fromkeys(offer.op for offer in offers))
    done._leave(module, name, f"its results differ from {tried}" + (f"; {why}" if why else ""))
    return False


def _use_cross_entropy(done: Use, module: nn.CrossEntropyLoss, name: str) -> None:
    if module.weight is not None or type(module).forward is not nn.CrossEntropyLoss.forward:
        done._leave(module, name, "it has weights, or a forward of its own")
        return

    def forward(self: Any, input: torch.Tensor, target: torch.Tensor) -> Any:
        fits = input.dtype in FLOATS and input.dim() == 2 and target.dtype == torch.int64 and target.dim() == 1
        if not fits:
            return nn.CrossEntropyLoss.forward(self, input, target)
        loss = cross_entropy(input, target, self.ignore_index, self.label_smoothing, self.reduction)
        return loss.to(input.dtype)

    done._replace(module, name, ("cross_entropy_fwd",), forward)


def _labels_of_next(labels: torch.Tensor, ignore_index: int, shift_labels: torch.Tensor | None) -> torch.Tensor:
    if shift_labels is None:
        shift_labels = nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    return shift_labels.reshape(-1)


def _per_item(loss: torch.Tensor, items: Any) -> torch.Tensor:
    return loss if items is None else loss / (items.to(loss.device) if isinstance(items, torch.Tensor) else items)


def _loss_of_causal_lm(
    logits: torch.Tensor,
    labels: torch.Tensor,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **_: Any,
) -> torch.Tensor:
    target = _labels_of_next(labels, ignore_index, shift_labels).to(logits.device)
    reduction = "mean" if num_items_in_batch is None else "sum"
    logits = logits.reshape(-1, vocab_size)
    if logits.dtype not in FLOATS:
        loss = nn.functional.cross_entropy(logits.float(), target, ignore_index=ignore_index, reduction=reduction)
    else:
        loss = cross_entropy(logits, target, ignore_index, reduction=reduction)
    return _per_item(loss, num_items_in_batch)


_LINEAR_OPS = ("linear_fwd", "fused_cross_entropy", "linear_dgrad", "linear_wgrad")


def _training_forward(model: nn.Module) -> Forward:
    """Forward of a causal language model in training: computes the loss without logits."""
    original = type(model).forward
    output = sys.modules["transformers.modeling_outputs"].CausalLMOutputWithPast
    signature = inspect.signature(original)

    def forward(self: Any, *args: Any, **given: Any) -> Any:
        bound = signature.bind(self, *args, **given)
        rest = next((one.name for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD), None)
        named = {name: value for name, value in bound.arguments.items() if name not in ("self", rest)}
        named |= bound.arguments.get(rest, {}) if rest is not None else {}
        labels = named.pop("labels", None)
        as_dict = named.pop("return_dict", None)
        as_dict = getattr(self.config, "return_dict", True) if as_dict is None else as_dict
        if labels is None or not self.training or not as_dict:
            return original(self, *args, **given)
        shift_labels = named.pop("shift_labels", None)
        items = named.pop("num_items_in_batch", None)
        named.pop("logits_to_keep", None)
        outputs = self.base_model(**named)
        target = _labels_of_next(labels, -100, shift_labels)
        hidden = outputs.last_hidden_state.reshape(target.numel(), -1)
        reduction = "mean" if items is None else "sum"
        loss = linear_cross_entropy(hidden, self.lm_head.weight, target.to(hidden.device), reduction=reduction)
        fields = {name: outputs[name] for name in ("hidden_states", "attentions") if outputs.get(name) is not None}
        return output(loss=_per_item(loss, items), **fields)

    return forward


def _why_logits_are_needed(model: nn.Module, forward: Forward) -> str:
    """Returns why the loss cannot be computed from the base model's output; "" if it can."""
    head: Any = getattr(model, "lm_head", None)
    config: Any = model.config
    if not isinstance(head, nn.Linear) or head.bias is not None:
        return "its lm_head is not only a product"
    if getattr(config, "final_logit_softcapping", None) is not None:
        return "it caps its logits"
    if getattr(config, "output_router_logits", False):
        return "its loss includes a part for its routers"
    modes = {module: module.training for module in model.modules()}
    ids = torch.arange(5, device=head.weight.device).reshape(1, 5) % head.weight.shape[0]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[ids.device] if ids.is_cuda else []):
            model.eval()
            expected = type(model).forward(model, input_ids=ids, labels=ids).loss
            model.training = True  # of this module only
            found = forward(model, input_ids=ids, labels=ids).loss
        tolerance = 1e-5 if head.weight.dtype == torch.float32 else 2e-3
        return "" if torch.allclose(found, expected.float(), rtol=tolerance) else "its loss is a different one"
    except Exception as error:  # noqa: BLE001 - the model's, of any kind
        return str(error).partition("\n")[0] or type(error).__name__
    finally:
        for module, mode in modes.items():
            module.training = mode


def _use_loss(done: Use, model: nn.Module, is_wanted: Callable[[str], bool], without_logits: bool) -> None:
    transformers = sys.modules.get("transformers.loss.loss_utils")
    own = getattr(model, "loss_function", None)
    is_causal_lm = transformers is not None and own is transformers.ForCausalLMLoss
    if without_logits:
        forward = _training_forward(model) if is_causal_lm else None
        why = "it is not a causal language model of transformers, or its loss is replaced"
        if forward is not None:
            why = _why_logits_are_needed(model, forward)
        if why or forward is None:
            raise ValueError(f"linear_cross_entropy: {type(model).__name__}: {why}")
        done._replace(model, "", _LINEAR_OPS, forward)
    if is_causal_lm and is_wanted("cross_entropy_fwd"):
        place = Place("", "loss_function", ("cross_entropy_fwd",), "")
        done._set(model, "_loss_function", done._counted(place, _loss_of_causal_lm, own))  # type: ignore[arg-type]


def _use_sums(done: Use, model: nn.Module, device: torch.device) -> None:
    """Lets replaced layers also normalize their results, if the norm after them was replaced."""
    places = {model.get_submodule(place.module): place for place in done.places if place.ops}
    for parent, found in list(_layers.loops(model)):
        loop = _layers.Loop([])
        for layer, norm, behind in found:
            at, of_norm = places.get(layer), places.get(norm)
            if at is None or of_norm is None or at.ops + of_norm.ops != ("fused_add_rmsnorm_fwd", "rmsnorm_fwd"):
                continue
            after = _layers.after(norm, behind, loop, device)
            if after is not None:
                loop.norms.append(norm)
                of_norm.ops = (*at.ops, *of_norm.ops)
                done._set(layer, _layers.AFTER, after)
                done._set(norm, _layers.READY, None)
        if loop.norms:
            done._set(parent, _layers.LOOP, loop)
            done._set(parent, "forward", types.MethodType(_layers.running(type(parent).forward), parent))


def _is_replaced(module: nn.Module) -> bool:
    return "forward" in vars(module)


def use(
    model: nn.Module,
    *,
    only: Iterable[str] | None = None,
    unused: Iterable[str] = (),
    linear_cross_entropy: bool = False,
) -> Use:
    """Routes layers of a model through opdock's ops: norms, activations, gated MLPs, rope and losses.

    A layer is replaced if an op computes the same as the layer's own forward; nothing else changes, and parameters stay
    in place. Move the model to its device first. `only` and `unused` name ops. With `linear_cross_entropy`, a causal
    language model in training computes its loss without memory for all logits, and returns no logits. Returns the
    changes, which can be undone, also by using it as a context manager.
    """
    if isinstance(only, str) or isinstance(unused, str):
        raise TypeError("only and unused must be lists of names of ops")
    chosen = None if only is None else set(only)
    left = set(unused)
    for name in (chosen or set()) | left:
        overload(name, False)  # raises if it does not exist
    parameter = next(model.parameters(), None)
    device = torch.device("cpu") if parameter is None else parameter.device
    if device.type == "meta":
        raise ValueError("the model has no memory yet; move it to its device first")

    def is_wanted(op: str) -> bool:
        return (chosen is None or op in chosen) and op not in left

    rope = _rope.op_for(device, is_wanted)
    adds = is_wanted("fused_add_rmsnorm_fwd")
    if is_wanted("rmsnorm_fwd"):
        adds = adds and keeps_choice("fused_add_rmsnorm_fwd", "rmsnorm_fwd", device)
    done = Use(model)
    inside: set[nn.Module] = set()  # submodules of replaced modules: already covered
    try:
        with torch.no_grad():
            for name, module in list(model.named_modules()):
                if module in inside:
                    continue
                if isinstance(module, nn.CrossEntropyLoss) and is_wanted("cross_entropy_fwd"):
                    if not _is_replaced(module):
                        _use_cross_entropy(done, module, name)
                    continue
                if _is_replaced(module) and module is not model and _layers.LOOP not in vars(module):
                    done._leave(module, name, "its forward is already replaced")
                    inside.update(module.modules())
                elif adds and (layer := _layers.offer(module, device)) is not None:
                    done._replace(module, name, ("fused_add_rmsnorm_fwd",), layer)
                    inside.add(module.post_attention_layernorm)
                elif _use_ops(done, module, name, is_wanted, device):
                    inside.update(one for one in module.children() if next(one.parameters(), None) is None)
                elif rope is not None and (why := _rope.why_not(model, name, module, rope)) is not None:
                    if why:
                        done._leave(module, name, why)
                    else:
                        _rope.patch(sys.modules[type(module).__module__])
                        done._replace(module, name, (rope,), _rope.angles(rope))
            if adds:
                _use_sums(done, model, device)
        _use_loss(done, model, is_wanted, linear_cross_entropy)
    except BaseException:
        done.undo()
        raise
    live.add(done)
    _uses.setdefault(model, []).append(done)
    return done
