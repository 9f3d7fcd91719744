"""Layers as objects: each calls the function of `opstep.layers` and keeps its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opstep import layers
from opstep.imperative.layer import Layer, _Simple


class FC(_Simple):
    """`layers.fc`; options as there."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__()
        self._size, self._options = size, options

    def forward(self, x: Any) -> Any:
        return layers.fc(x, self._size, name=self._name, **self._options)


class Conv2D(_Simple):
    """`layers.conv2d`; options as there."""

    def __init__(self, filters: int, kernel: int | Sequence[int], **options: Any) -> None:
        super().__init__()
        self._filters, self._kernel, self._options = filters, kernel, options

    def forward(self, x: Any) -> Any:
        return layers.conv2d(x, self._filters, self._kernel, name=self._name, **self._options)


class Conv2DTranspose(_Simple):
    """`layers.conv2d_transpose`; options as there."""

    def __init__(self, filters: int, kernel: int | Sequence[int], **options: Any) -> None:
        super().__init__()
        self._filters, self._kernel, self._options = filters, kernel, options

    def forward(self, x: Any) -> Any:
        return layers.conv2d_transpose(
            x, self._filters, self._kernel, name=self._name, **self._options
        )


class Pool2D(_Simple):
    """`layers.pool2d`; options as there."""

    def __init__(self, kernel: int | Sequence[int], **options: Any) -> None:
        super().__init__()
        self._kernel, self._options = kernel, options

    def forward(self, x: Any) -> Any:
        return layers.pool2d(x, self._kernel, name=self._name, **self._options)


class BatchNorm(_Simple):
    """`layers.batch_norm`; options as there. `eval()` uses the running means."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    def forward(self, x: Any) -> Any:
        test = not self.training
        return layers.batch_norm(x, is_test=test, name=self._name, **self._options)


class LayerNorm(_Simple):
    """`layers.layer_norm`; options as there."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self._options = options

    def forward(self, x: Any) -> Any:
        return layers.layer_norm(x, name=self._name, **self._options)


class Embedding(_Simple):
    """`layers.embedding`: size is [number of ids, width]; options as there."""

    def __init__(self, size: Sequence[int], **options: Any) -> None:
        super().__init__()
        self._size, self._options = size, options

    def forward(self, ids: Any) -> Any:
        return layers.embedding(ids, self._size, name=self._name, **self._options)


class Dropout(_Simple):
    """`layers.dropout`. `eval()` gives x as it is."""

    def __init__(self, ratio: float = 0.5, seed: int | None = None) -> None:
        super().__init__()
        self._ratio, self._seed_given = ratio, seed

    def forward(self, x: Any) -> Any:
        test = not self.training
        return layers.dropout(x, self._ratio, test, self._seed_given, name=self._name)


class Sequential(Layer):
    """Layers, or functions of one value, one after the other."""

    def __init__(self, *steps: Any) -> None:
        super().__init__()
        self._steps = steps
        for number, step in enumerate(steps):
            if isinstance(step, Layer):
                setattr(self, f"step_{number}", step)

    def forward(self, x: Any) -> Any:
        for step in self._steps:
            x = step(x)
        return x
