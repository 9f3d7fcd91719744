"""Layers that call one function of `opstep.layers` and keep its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opstep import _core, layers
from opstep._core import Error
from opstep.context import _context
from opstep.imperative.layer import _Simple
from opstep.imperative.value import Value

Sizes = int | Sequence[int]


class _WithOptions(_Simple):
    """Wrong options are reported when the layer is made, not at its first call."""

    def __init__(
        self,
        function: Callable[..., Any],
        options: dict[str, Any],
        name: str | None,
        more: Sequence[str] = (),
    ) -> None:
        super().__init__(name)
        known = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is not parameter.empty
            and parameter.name not in ("name", "is_test")
        ]
        known += more
        for option in options:
            if option not in known:
                near = _core.nearest(option, known)
                hint = f"did you mean '{near}'?" if near else f"there are {', '.join(known)}"
                raise Error(f"{type(self).__name__} has no option '{option}'; {hint}")
        self._options = options


class FC(_WithOptions):
    """`layers.fc`; options as there."""

    def __init__(self, size: int, name: str | None = None, **options: Any) -> None:
        super().__init__(layers.fc, options, name)
        self._size = size

    def forward(self, x: Any) -> Any:
        return layers.fc(x, self._size, **self._options)


class Conv2D(_WithOptions):
    """`layers.conv2d`; options as there."""

    def __init__(
        self, filters: int, kernel: Sizes, name: str | None = None, **options: Any
    ) -> None:
        super().__init__(layers.conv2d, options, name)
        self._filters, self._kernel = filters, kernel

    def forward(self, x: Any) -> Any:
        return layers.conv2d(x, self._filters, self._kernel, **self._options)


class Conv2DTranspose(_WithOptions):
    """`layers.conv2d_transpose`; options as for `layers.conv2d`, and `output_padding`."""

    def __init__(
        self, filters: int, kernel: Sizes, name: str | None = None, **options: Any
    ) -> None:
        super().__init__(layers.conv2d, options, name, more=["output_padding"])
        self._filters, self._kernel = filters, kernel

    def forward(self, x: Any) -> Any:
        return layers.conv2d_transpose(x, self._filters, self._kernel, **self._options)


class Pool2D(_WithOptions):
    """`layers.pool2d`; options as there."""

    def __init__(self, kernel: Sizes, name: str | None = None, **options: Any) -> None:
        super().__init__(layers.pool2d, options, name)
        self._kernel = kernel

    def forward(self, x: Any) -> Any:
        return layers.pool2d(x, self._kernel, **self._options)


class BatchNorm(_WithOptions):
    """`layers.batch_norm`; options as there. `eval()` uses the running means."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__(layers.batch_norm, options, name)

    def forward(self, x: Any) -> Any:
        return layers.batch_norm(x, is_test=not self.training, **self._options)


class LayerNorm(_WithOptions):
    """`layers.layer_norm`; options as there: `axis=-1` for each row of the last dimension."""

    def __init__(self, name: str | None = None, **options: Any) -> None:
        super().__init__(layers.layer_norm, options, name)

    def forward(self, x: Any) -> Any:
        return layers.layer_norm(x, **self._options)


class Embedding(_WithOptions):
    """`layers.embedding`: size is [number of ids, width]; options as there."""

    def __init__(self, size: Sequence[int], name: str | None = None, **options: Any) -> None:
        super().__init__(layers.embedding, options, name)
        self._size = size

    def forward(self, ids: Any) -> Any:
        return layers.embedding(ids, self._size, **self._options)


class Dropout(_Simple):
    """`layers.dropout`. `eval()` gives x as it is."""

    def __init__(
        self, ratio: float = 0.5, seed: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self._ratio, self._seed_given = ratio, seed

    def forward(self, x: Any) -> Any:
        trace = _context.trace
        if not self.training and (_context.imperative or (trace is not None and trace.own)):
            # A test also loads the counter that training changes.
            self._values.setdefault(
                "count", Value(np.array(0, np.int64), name=f"{_context.names}count")
            )
        return layers.dropout(x, self._ratio, not self.training, self._seed_given)
