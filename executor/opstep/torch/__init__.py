"""`torch.compile(model, backend="opstep")`: models of PyTorch, run and debugged by opstep.

It is imported only when it is used. `coverage` says which ops of a model run natively.
"""

from opstep.torch.backend import backend, compiler
from opstep.torch.coverage import Coverage, coverage

__all__ = ["Coverage", "backend", "compiler", "coverage"]
