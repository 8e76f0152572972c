"""Calls the ops of opdock's plugins from Python, on tensors of any library that supports DLPack.

import opdock

host = opdock.Host()
y = host.rmsnorm_fwd(x, weight, eps=1e-6)
"""

from ._error import Error
from ._native import Host, Op, Policy, Prepared, version

__version__ = version()

__all__ = ["Error", "Host", "Op", "Policy", "Prepared", "__version__"]
