"""What is wrong with a layer written in NumPy is one sentence, in both modes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import opstep
from harness.both_modes import X, at_once, compiled
from opstep import ops


class Scaled(opstep.PyLayer):
    @staticmethod
    def forward(ctx, x, scale):
        return x * np.float32(scale)


MODES = pytest.mark.parametrize("run", [compiled, at_once])


def errors() -> Iterator[tuple[str, Callable[..., Any], str]]:
    def layer(**functions: Any) -> Any:
        return type("Wrong", (opstep.PyLayer,), functions).apply

    def fails(ctx: Any, *_: Any) -> None:
        raise ValueError("no luck")

    line = fails.__code__.co_firstlineno + 1
    here = os.path.basename(__file__)
    yield (
        "raises",
        layer(forward=fails),
        rf"\[py_layer\] Wrong.forward raised ValueError at {here}:{line}: no luck \({here}:\d+, op",
    )
    yield (
        "dtype",
        layer(forward=lambda ctx, x: x.astype(np.float64)),
        r"Wrong.forward gave float64\[2, 3\] where float32\[2, 3\] was expected: convert it",
    )
    yield (
        "shape",
        layer(forward=lambda ctx, x: x[:1], shapes=lambda x: [x, x]),
        "Wrong.forward gave 1 result where 2 were expected: say what it gives in shapes",
    )
    yield (
        "second",
        layer(forward=lambda ctx, x: (x, x[:1]), shapes=lambda x: [x, x]),
        r"Wrong.forward gave float32\[1, 3\] as result 1 where float32\[2, 3\] was expected",
    )
    yield "nothing", layer(forward=lambda ctx, x: None), "Wrong.forward gave None where"
    yield "no forward", layer(), "Wrong has no forward: write one"
    yield (
        "keeps",
        layer(forward=lambda ctx, x: ctx.save_for_backward(x)),
        "the context keeps nothing from forward to backward: backward has ctx.inputs",
    )
    yield "odd shapes", layer(shapes=lambda x: "x"), "Wrong.shapes gave 'x': for each result"


@MODES
@pytest.mark.parametrize(("apply", "sentence"), [pytest.param(b, c, id=a) for a, b, c in errors()])
def test_errors_of_forward(run: Any, apply: Any, sentence: str) -> None:
    with pytest.raises(opstep.Error, match=sentence) as caught:
        run(lambda x: ops.add(x, first(apply(x))), {"x": X})
    if "raised ValueError" in sentence:
        # With the traceback of the layer's own code.
        assert isinstance(caught.value.__cause__, ValueError)


def first(results: Any) -> Any:
    return results[0] if isinstance(results, tuple) else results


@MODES
@pytest.mark.parametrize(
    ("backward", "sentence"),
    [
        (lambda ctx, d: (d, d), "Wrong.backward gave 2 gradients where 1 was expected"),
        (lambda ctx, d: d[:1], r"gave float32\[1, 3\] where float32\[2, 3\] was expected: a grad"),
        (lambda ctx, d: d / [], "Wrong.backward raised ValueError at test_pylayer_errors.py:"),
        (None, r"\[py_layer_grad\] Wrong has no backward, but a gradient through it is wanted"),
    ],
)
def test_errors_of_backward(run: Any, backward: Any, sentence: str) -> None:
    functions = {"forward": lambda ctx, x: x + 0} | ({"backward": backward} if backward else {})
    apply: Any = type("Wrong", (opstep.PyLayer,), functions).apply
    with pytest.raises(opstep.Error, match=sentence) as caught:
        run(lambda x: apply(x), {"x": X}, "x")
    assert str(caught.value).count("(test_pylayer_errors.py:") == 1


@MODES
def test_options_are_plain(run: Any) -> None:
    with pytest.raises(opstep.Error, match=r"\[Scaled\] 'scale' is a ndarray: options are numbers"):
        run(lambda x: Scaled.apply(x, scale=X), {"x": X})
    with pytest.raises(opstep.Error, match="at least one variable or runtime value"):
        run(lambda x: Scaled.apply(1.0, scale=1), {"x": X})
