"""Foreign ops: targets that torch itself runs, on the executor's memory."""

from __future__ import annotations

import itertools
import os
import uuid
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from opstep import _core
from opstep._core import Error
from opstep.torch.memory import Held, adopt

# Unique among processes: a program that was saved must not find another function.
_process = uuid.uuid4().hex[:8]
_numbers = itertools.count(1)


def _renew_process() -> None:
    global _process
    _process = uuid.uuid4().hex[:8]


os.register_at_fork(after_in_child=_renew_process)


class Slot:
    """The place of a tensor among the arguments of a call."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class ForeignCall:
    """A target with its arguments; `Slot`s are filled with the op's inputs.

    `strides`: of the inputs whose layout the target depends on, else None.
    """

    def __init__(
        self,
        target: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        inputs: Sequence[Held],
        strides: Sequence[tuple[int, ...] | None],
        outputs: Sequence[tuple[int, Held]],
    ) -> None:
        self._target = target
        self._args = args
        self._kwargs = kwargs
        self._inputs = inputs
        self._strides = strides
        self._outputs = outputs

    def __call__(self, inputs: list[object], outputs: list[object]) -> None:
        tensors = [
            self._input(how.to_torch(adopt(capsule)), strides)
            for capsule, how, strides in zip(inputs, self._inputs, self._strides, strict=True)
        ]

        def fill(item: Any) -> Any:
            return tensors[item.index] if isinstance(item, Slot) else item

        args = torch.utils._pytree.tree_map(fill, self._args)
        kwargs = torch.utils._pytree.tree_map(fill, self._kwargs)
        with torch.no_grad():
            given = self._target(*args, **kwargs)
            results = list(given) if isinstance(given, tuple | list) else [given]
            for capsule, (index, how) in zip(outputs, self._outputs, strict=True):
                result = results[index]
                # torch may say float32 and give half floats, as for the moments of batch norm.
                fits = torch.promote_types(result.dtype, how.dtype) == how.dtype
                if result.shape != how.shape or not fits:
                    raise Error(
                        f"{self._target} gave {result.dtype}{list(result.shape)} where "
                        f"{how.dtype}{list(how.shape)} was expected"
                    )
                how.to_torch(adopt(capsule)).copy_(result)

    @staticmethod
    def _input(tensor: torch.Tensor, strides: tuple[int, ...] | None) -> torch.Tensor:
        if strides is None:
            return tensor
        laid_out = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype)
        return laid_out.copy_(tensor)


def lend(call: ForeignCall, owner: object) -> str:
    """Makes the call known to the executor for as long as its owner lives; returns its key."""
    key = f"torch/{_process}/{next(_numbers)}"
    _core.lend_function(key, call)
    weakref.finalize(owner, _core.take_function_back, key)
    return key
