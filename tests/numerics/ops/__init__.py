"""Every op in float64, from its definition, sharing nothing with the C++ that it is compared to; and its cases.

One module for each header of opdock/ops. Each entry of its OPS says how the inputs of an op are drawn, on which shapes,
with which attributes; shapes are tuples whose meaning only the op's own `draw` knows. The function of the op's name is
its formula.
"""

import importlib
import pkgutil

OPS, FORMULAS = {}, {}
for found in pkgutil.iter_modules(__path__):
    module = importlib.import_module(f"{__name__}.{found.name}")
    for name, op in getattr(module, "OPS", {}).items():
        OPS[name], FORMULAS[name] = op, getattr(module, name)
