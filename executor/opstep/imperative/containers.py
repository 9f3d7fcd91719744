"""Layers that hold others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opstep._core import Error
from opstep.imperative.layer import Layer


class Sequential(Layer):
    """Layers, or functions of one value, one after the other."""

    def __init__(self, *steps: Callable[[Any], Any], name: str | None = None) -> None:
        super().__init__(name)
        # The name of a layer, or a function.
        self._steps: list[str | Callable[[Any], Any]] = []
        for step in steps:
            self.append(step)

    def append(self, step: Callable[[Any], Any]) -> Sequential:
        """One more, after the others; gives itself."""
        if not callable(step):
            raise Error(f"Sequential: {step!r} is neither a layer nor a function")
        if isinstance(step, Layer):
            name = f"step_{len(self._steps)}"
            setattr(self, name, step)
            self._steps.append(name)
        else:
            self._steps.append(step)
        return self

    def __len__(self) -> int:
        return len(self._steps)

    def __getitem__(self, index: int) -> Any:
        step = self._steps[index]
        return self._layers[step] if isinstance(step, str) else step

    def forward(self, x: Any) -> Any:
        for step in self._steps:
            x = self._layers[step](x) if isinstance(step, str) else step(x)
        return x


class LayerList(Layer):
    """A list of layers that is an attribute of another layer: `for block in self.blocks: …`."""

    def __init__(self, layers: Iterable[Layer] = ()) -> None:
        super().__init__("layer")
        for layer in layers:
            self.append(layer)

    def append(self, layer: Layer) -> LayerList:
        """One more, after the others; gives itself."""
        if not isinstance(layer, Layer):
            raise Error(f"LayerList: {layer!r} is not a Layer")
        number = len(self._layers)
        self._layers[str(number)] = layer
        layer._rename(f"{self._name}_{number}")
        return self

    def _rename(self, name: str) -> None:
        # The list is never called itself: its layers are named after it.
        super()._rename(name)
        for number, layer in self._layers.items():
            layer._rename(f"{name}_{number}")

    def _scope(self, name: str) -> str:
        return f"{name}_"

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self._layers.values())

    def __getitem__(self, index: int) -> Layer:
        return list(self._layers.values())[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise Error("a LayerList is not called itself: call its layers, or use Sequential")
