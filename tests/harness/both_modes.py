"""One function run in a program and in imperative mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import opstep
from opstep import imperative, layers
from opstep.imperative import to_variable

X = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], np.float32)


def compiled(
    build: Callable[..., Any], feeds: dict[str, np.ndarray], wanted: str = ""
) -> list[np.ndarray]:
    """The result of `build` for data of these names, and the gradient of its mean for `wanted`."""
    program = opstep.Program()
    with opstep.program_guard(program):
        data = [
            layers.data(name, [None, *array.shape[1:]], dtype=str(array.dtype))
            for name, array in feeds.items()
        ]
        out = build(*data)
        fetches = [out]
        if wanted:
            source = program.global_block().var(wanted)
            source.stop_gradient = False
            fetches += [pair[1] for pair in opstep.append_backward(layers.mean(out), [source])]
        return opstep.Executor().run(program, feed=feeds, fetch_list=fetches)


def at_once(
    build: Callable[..., Any], feeds: dict[str, np.ndarray], wanted: str = ""
) -> list[np.ndarray]:
    with imperative.guard():
        data = {name: to_variable(array, name != wanted) for name, array in feeds.items()}
        out = build(*data.values())
        results = [out.numpy()]
        if wanted:
            layers.mean(out).backward()
            gradient = data[wanted].gradient
            assert gradient is not None
            results.append(gradient.numpy())
        return results
