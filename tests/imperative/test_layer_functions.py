"""The functions of opstep.layers in both modes: the same code gives the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import opstep
from harness.layer_cases import IMAGES, LABEL, SIMPLE, P, X
from opstep import imperative, layers

Given = dict[str, np.ndarray]

MORE: dict[str, tuple[Any, Given]] = {
    "cross_entropy": (layers.cross_entropy, {"p": P, "label": LABEL}),
    "accuracy": (layers.accuracy, {"x": X, "label": LABEL}),
    "group_norm": (lambda x: layers.group_norm(x, 2, act="tanh"), {"x": IMAGES}),
    "instance_norm": (layers.instance_norm, {"x": IMAGES}),
    "l2_normalize": (layers.l2_normalize, {"x": X}),
    "conv2d": (lambda x: layers.conv2d(x, 4, 3, padding="same", groups=2), {"x": IMAGES}),
    "conv2d_transpose": (lambda x: layers.conv2d_transpose(x, 3, 2, stride=2), {"x": IMAGES}),
    "pool2d": (lambda x: layers.pool2d(x, 2, "average", padding=1), {"x": IMAGES}),
    "indexing": (lambda x: x[:, 0, ::2, None], {"x": IMAGES}),
}
CASES = {name: (layer, {"x": X}) for name, (layer, _) in SIMPLE.items()} | MORE


class Calling(imperative.Layer):
    """Keeps the parameters of a function that has some."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


@pytest.mark.parametrize("name", CASES)
def test_both_modes(name: str) -> None:
    function, given = CASES[name]
    main, startup, scope = opstep.Program(), opstep.Program(), opstep.Scope()
    with opstep.program_guard(main, startup):
        variables = [layers.data(n, list(a.shape), str(a.dtype)) for n, a in given.items()]
        out = Calling(function)(*variables)
    exe = opstep.Executor()
    exe.run(startup, scope=scope)
    (compiled,) = exe.run(main, given, [out], scope)
    imperative.seed(0)
    with imperative.guard():
        now = Calling(function)(*map(imperative.to_variable, given.values())).numpy()
    assert (now.dtype, now.shape) == (compiled.dtype, compiled.shape)
    assert now.tobytes() == compiled.tobytes()
