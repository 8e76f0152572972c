"""Every op in float64, from its definition, sharing nothing with the C++ it is compared to.

Functions are named as the op and take its inputs and attributes by name; they return the outputs by name. An output is
an array or, where it is a sum whose terms may cancel, a Sum: errors are then measured against the size of the terms
when that is larger than the result, since a result that is nearly zero by cancellation has no correct digits to lose.

One module for each header of opdock/ops.
"""

from .activation import *
from .elementwise import *
from .gated import *
from .linear import *
from .loss import *
from .normalization import *
from .optimizer import *
from .rope import *
from .softmax import *
from .sums import *
