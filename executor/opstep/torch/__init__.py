"""`torch.compile(model, backend="opstep")`: models of PyTorch, run and debugged by opstep.

It is imported only when it is used. `coverage` says which ops of a model run natively.
"""

import os as _os

import torch as _torch

from opstep import _core
from opstep.torch.backend import backend, compiler
from opstep.torch.coverage import Coverage, coverage

__all__ = ["Coverage", "backend", "compiler", "coverage"]

# Stacks show the user's frames: torch puts dozens of its own between a model's call and its run.
_core.hide_frames_below(_os.path.dirname(_os.path.abspath(_torch.__file__)) + _os.sep)
