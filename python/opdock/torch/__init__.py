"""opdock's ops as torch's own, with gradients, for torch.compile and CUDA graphs.

import opdock.torch
y = torch.ops.opdock.rmsnorm_fwd(x, weight, eps=1e-6)
with opdock.torch.use(model):
    model(tokens)
"""

from ._aten import Enabled, enable
from ._kernels import kernel_mapping
from ._loss import cross_entropy, linear_cross_entropy
from ._models import Place, Use, use
from ._ops import host, register
from ._report import report

register()

__all__ = [
    "Enabled",
    "Place",
    "Use",
    "cross_entropy",
    "enable",
    "host",
    "kernel_mapping",
    "linear_cross_entropy",
    "register",
    "report",
    "use",
]
