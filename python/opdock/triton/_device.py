"""A stand-in for the GPU that torch does not find: kernel libraries query it when they are imported."""

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any


@contextlib.contextmanager
def stand_in(architecture: str) -> Iterator[None]:
    """Makes torch.cuda describe a device of `architecture`. If torch is missing or has a device, nothing changes."""
    cuda = _cuda_without_device()
    answers = _answers(architecture) if cuda is not None else {}
    kept = {name: getattr(cuda, name) for name in answers}
    try:
        for name, answer in answers.items():
            setattr(cuda, name, answer)
        yield
    finally:
        for name, function in kept.items():
            setattr(cuda, name, function)


def _cuda_without_device() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        cuda: Any = importlib.import_module("torch").cuda
        return None if cuda.is_available() else cuda
    except Exception:  # noqa: BLE001 a torch that cannot be imported is the concern of modules that need it
        return None


def _answers(architecture: str) -> dict[str, Any]:
    """sm_90 is 9.0; gfx942 is 9.4, as in HIP."""
    is_cuda = architecture.startswith("sm_")
    digits = architecture[3:]
    major, minor = (int(digits[:-1]), int(digits[-1])) if is_cuda else (int(digits[:-2]), int(digits[-2], 16))
    properties = SimpleNamespace(
        name=architecture,
        major=major,
        minor=minor,
        gcnArchName=architecture,
        multi_processor_count=1,
        warp_size=32 if is_cuda or major > 9 else 64,
        total_memory=0,
    )
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: architecture,
        "get_device_capability": lambda device=None: (major, minor),
        "get_device_properties": lambda device=None: properties,
    }
