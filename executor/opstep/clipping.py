"""Gradient clipping: ops between the gradients and the optimizer."""

from __future__ import annotations

from opstep import ops
from opstep._core import Error
from opstep.variable import Variable


class GradientClip:
    """Changes gradients before the optimizer sees them."""

    def clip(self, gradients: list[Variable]) -> list[Variable]:
        """Add the ops; gives the changed gradients in the same order."""
        raise NotImplementedError


class ClipByValue(GradientClip):
    """Each element into [min, max]; `min` is -max unless said otherwise."""

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max, self.min = max, -max if min is None else min
        if self.min > self.max:
            raise Error(f"ClipByValue: min is {self.min}, above max, which is {self.max}")

    def clip(self, gradients: list[Variable]) -> list[Variable]:
        return [ops.minimum(ops.maximum(g, self.min), self.max) for g in gradients]


class ClipByNorm(GradientClip):
    """Each gradient whose L2 norm is above `norm` is scaled down to it."""

    def __init__(self, norm: float) -> None:
        self.norm = _positive("ClipByNorm", norm)

    def clip(self, gradients: list[Variable]) -> list[Variable]:
        norms = [ops.sqrt(_squares(g)) for g in gradients]
        return [
            g * _as(_scale(norm, self.norm), g.dtype)
            for g, norm in zip(gradients, norms, strict=True)
        ]


class ClipByGlobalNorm(GradientClip):
    """All gradients are scaled down together when the L2 norm of all of them is above `norm`."""

    def __init__(self, norm: float) -> None:
        self.norm = _positive("ClipByGlobalNorm", norm)

    def clip(self, gradients: list[Variable]) -> list[Variable]:
        if not gradients:
            return []
        # The squares of 16-bit floats would soon be infinite.
        dtype = "float64" if any(g.dtype == "float64" for g in gradients) else "float32"
        total = ops.sqrt(ops.sum([_as(_squares(g), dtype) for g in gradients]))
        scale = _scale(total, self.norm)
        return [g * _as(scale, g.dtype) for g in gradients]


def _squares(gradient: Variable) -> Variable:
    narrow = gradient.dtype in ("float16", "bfloat16")
    return ops.reduce_sum_square(_as(gradient, "float32") if narrow else gradient, keepdims=False)


def _scale(norm: Variable, limit: float) -> Variable:
    """The factor to multiply by; exactly 1 below the limit."""
    return limit / ops.maximum(norm, limit)


def _as(value: Variable, dtype: str) -> Variable:
    return value if value.dtype == dtype else ops.cast(value, to=dtype)


def _positive(what: str, norm: float) -> float:
    if norm <= 0:
        raise Error(f"{what} needs a norm above 0, not {norm}")
    return norm
