"""Every op in float64, computed from its definition and independent of the C++ that it is compared with; and its cases.

There is one module per header of opdock/ops. Each entry of its OPS states how an op's inputs are drawn, for which
shapes and with which attributes. A shape is a tuple whose meaning only the op's own `draw` knows. The function with the
op's name is its formula.
"""

import importlib
import pkgutil

OPS, FORMULAS = {}, {}
for found in pkgutil.iter_modules(__path__):
    module = importlib.import_module(f"{__name__}.{found.name}")
    for name, op in getattr(module, "OPS", {}).items():
        OPS[name], FORMULAS[name] = op, getattr(module, name)
