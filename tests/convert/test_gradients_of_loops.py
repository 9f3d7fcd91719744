"""Gradients through the loops and branches of programs, of what was fed and of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers
from opstep.imperative import to_variable

FED = np.float32([1, 2])


def looped(x: Any) -> Any:
    (y,) = opstep.while_loop(lambda y: y.sum() < 20.0, lambda y: y * 2.0 + x, (x * 1.0,))
    return y.sum()


def chosen(x: Any) -> Any:
    return opstep.cond(x.sum() > 0.0, lambda: (x * x * x).sum(), lambda: x.sum())


def line_by_line(function: Any) -> np.ndarray:
    with imperative.guard():
        x = to_variable(FED, stop_gradient=False)
        return opstep.gradients(function(x), x)[0].numpy()


@pytest.mark.parametrize("function", [looped, chosen])
def test_what_is_fed_has_a_gradient_from_inside_blocks(function: Any) -> None:
    """Data have stop_gradient until their gradient is asked for by name."""
    program = opstep.Program()
    with opstep.program_guard(program):
        x = layers.data("x", [2])
        assert x.stop_gradient
        (slope,) = opstep.gradients(function(x), x)
    (ours,) = opstep.Executor().run(program, feed={"x": FED}, fetch_list=[slope])
    np.testing.assert_allclose(ours, line_by_line(function))


@pytest.mark.parametrize("function", [looped, chosen])
def test_a_gradient_of_blocks_is_no_constant(function: Any) -> None:
    """Also when it depends on x only through what the block has kept."""
    with opstep.program_guard(opstep.Program()):
        x = layers.data("x", [2])
        (slope,) = opstep.gradients(function(x * x), x)
        with pytest.raises(opstep.Error, match="gradient of a loop or branch, which can be"):
            opstep.gradients((slope * slope).sum() + (x * x).sum(), x)
