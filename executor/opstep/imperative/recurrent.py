"""Recurrent layers: cells, which take one step, and layers, which take all steps of sequences.

Both modes run the same ops in the same order, so a program has a copy of the ops for each step;
`layers.Recurrent` is a loop instead, for programs only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from opstep import layers, ops
from opstep._core import Error
from opstep.imperative.containers import LayerList
from opstep.imperative.function_layers import Dropout
from opstep.imperative.layer import Layer, _Simple
from opstep.initializer import Initializer, Uniform, chosen
from opstep.layers._common import Attrs, activation, error, parameter, text

State = tuple[Any, ...]


class _Cell(_Simple):
    """The base of all cells; a subclass defines one step.

    Parameters are `w_x` [width of x, gates * size], `w_h` [size, gates * size] and `b`, filled at
    random between -1 and 1 divided by the root of `size` unless said otherwise.
    """

    _gates = 1
    _states = 1

    def __init__(
        self,
        size: int,
        bias: bool = True,
        weight_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        weight_attr: Attrs = None,
        bias_attr: Attrs = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if size < 1:
            raise Error(f"{type(self).__name__}: size is {size}, it must be 1 or more")
        limit = 1.0 / math.sqrt(size)
        self._size, self._bias = size, bias
        self._weight = chosen(weight_init, Uniform(-limit, limit)), weight_attr
        self._offset = chosen(bias_init, Uniform(-limit, limit)), bias_attr

    def forward(self, x: Any, state: Any = None) -> Any:
        """One step: x is [batch, width]; returns the state after it, each [batch, size]. Without
        `state`, it begins with zeros."""
        if len(x.shape) != 2 or x.shape[1] is None:
            raise error(type(self), f"'{x.name}' is {text(x)}: one step is [batch, width]")
        before = self._zeros(x) if state is None else _tuple(type(self), state, self._states)
        after = self._step(self._projected(x), before)
        return after if self._states > 1 else after[0]

    def _zeros(self, x: Any) -> State:
        zero = ops.fill_batch(x, shape=[self._size], dtype=x.dtype)
        return (zero,) * self._states

    def _made(self, x: Any, name: str, shape: list[int]) -> Any:
        init, attrs = self._weight if name.startswith("w") else self._offset
        return parameter(x, f"{self._base_name('', None)}.{name}", shape, init, attrs)

    def _projected(self, x: Any) -> Any:
        """The contribution of x to each gate, for all steps at once."""
        width = self._gates * self._size
        out = ops.matmul(x, self._made(x, "w_x", [x.shape[-1], width]))
        return ops.add(out, self._made(x, "b", [width])) if self._bias else out

    def _recurrent(self, h: Any) -> Any:
        return ops.matmul(h, self._made(h, "w_h", [self._size, self._gates * self._size]))

    def _step(self, projected: Any, state: State) -> State:
        raise NotImplementedError


class RNNCell(_Cell):
    """A step of a plain recurrent network: act(x @ w_x + b + h @ w_h), with tanh for no `act`."""

    def __init__(self, size: int, act: str | None = None, **options: Any) -> None:
        super().__init__(size, **options)
        self._act = activation(RNNCell, act)[0][0] if act else ops.tanh

    def _step(self, projected: Any, state: State) -> State:
        return (self._act(ops.add(projected, self._recurrent(state[0]))),)


class GRUCell(_Cell):
    """A step of a gated recurrent unit (Cho and others, 2014), gates in the order r, z, n:

    r, z = sigmoid(…), n = tanh(x_n + r * (h @ w_hn + b_n)), and n + z * (h - n) is the new h.
    """

    _gates = 3

    def _step(self, projected: Any, state: State) -> State:
        (h,) = state
        x_r, x_z, x_n = ops.split(projected, num_outputs=3, axis=-1)
        h_r, h_z, h_n = ops.split(self._recurrent(h), num_outputs=3, axis=-1)
        if self._bias:
            h_n = ops.add(h_n, self._made(h, "b_n", [self._size]))
        reset, kept = ops.sigmoid(ops.add(x_r, h_r)), ops.sigmoid(ops.add(x_z, h_z))
        new = ops.tanh(ops.add(x_n, ops.mul(reset, h_n)))
        return (ops.add(new, ops.mul(kept, ops.sub(h, new))),)


class LSTMCell(_Cell):
    """A step of long short-term memory (Hochreiter and Schmidhuber, 1997), gates in the order i, f,
    g, o: the new c is sigmoid(f) * c + sigmoid(i) * tanh(g), the new h sigmoid(o) * tanh(c). The
    state is the pair (h, c)."""

    _gates = 4
    _states = 2

    def _step(self, projected: Any, state: State) -> State:
        h, c = state
        gates = ops.add(projected, self._recurrent(h))
        i, f, g, o = ops.split(gates, num_outputs=4, axis=-1)
        c = ops.add(ops.mul(ops.sigmoid(f), c), ops.mul(ops.sigmoid(i), ops.tanh(g)))
        return ops.mul(ops.sigmoid(o), ops.tanh(c)), c


class _OverSteps(_Cell):
    """A cell over all steps of [batch, steps, width], from the first or from the last one."""

    def forward(  # type: ignore[override]
        self, x: Any, state: State | None, running: Sequence[Any] | None, reverse: bool
    ) -> tuple[Any, State]:
        steps = x.shape[1]
        now = self._zeros(x) if state is None else state
        projected = self._projected(ops.transpose(x, perm=[1, 0, 2]))
        rows = ops.split(projected, num_outputs=steps, axis=0)
        outs: list[Any] = [None] * steps
        for at in reversed(range(steps)) if reverse else range(steps):
            after = self._step(ops.squeeze(rows[at], axes=[0]), now)
            out = after[0]
            if running is not None:  # where a sequence has ended its state stays
                after = tuple(map(ops.where, [running[at]] * len(now), after, now))
                out = layers.where(running[at], out, 0.0)
            now = after
            outs[at] = ops.unsqueeze(out, axes=[1])
        return ops.concat(outs, axis=1), now


class _RNNOverSteps(_OverSteps, RNNCell):
    pass


class _GRUOverSteps(_OverSteps, GRUCell):
    pass


class _LSTMOverSteps(_OverSteps, LSTMCell):
    pass


class _Recurrent(Layer):
    """The base of RNN, GRU and LSTM."""

    _cell: ClassVar[type[_OverSteps]]

    def __init__(
        self,
        size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        name: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(name)
        if num_layers < 1:
            raise Error(f"{type(self).__name__}: num_layers is {num_layers}, it must be 1 or more")
        self._directions = (False, True) if bidirectional else (False,)
        count = num_layers * len(self._directions)
        self.cells = LayerList(self._cell(size, **options) for _ in range(count))
        between = num_layers - 1 if dropout else 0
        self.drops = LayerList(Dropout(dropout) for _ in range(between))

    def forward(self, x: Any, state: Any = None, lengths: Any = None) -> tuple[Any, Any]:
        """All steps of x, [batch, steps, width]: gives the outputs [batch, steps, size], with both
        directions [batch, steps, 2 * size], and the last state, [layers * directions, batch, size].

        `state` is the initial state, zeros if it is not given. `lengths`, int64[batch], are the
        steps of each sequence: its state stays as it was after them, and its outputs are 0 there.
        """
        if len(x.shape) != 3:
            raise error(type(self), f"'{x.name}' is {text(x)}: it must be [batch, steps, width]")
        if None in x.shape[1:] or not x.shape[1]:
            raise error(
                type(self),
                f"'{x.name}' is {text(x)}: there must be steps, and their number and width must be "
                "known when the program is built; layers.Recurrent takes any number",
            )
        states = [None] * len(self.cells) if state is None else self._taken_apart(state)
        running = None if lengths is None else _running(lengths, x.shape[1])
        ends: list[State] = []
        many = len(self._directions)
        for at in range(0, len(self.cells), many):
            if at and len(self.drops):
                x = self.drops[at // many - 1](x)
            outs = []
            for number, reverse in enumerate(self._directions, at):
                out, end = self.cells[number](x, states[number], running, reverse)
                outs.append(out)
                ends.append(end)
            x = outs[0] if many == 1 else ops.concat(outs, axis=2)
        last = tuple(layers.stack(part) for part in zip(*ends, strict=True))
        return x, last if len(last) > 1 else last[0]

    def _taken_apart(self, state: Any) -> list[State]:
        """The state of each cell."""
        count = len(self.cells)
        parts = []
        for part in _tuple(type(self), state, self._cell._states):
            if len(part.shape) != 3 or part.shape[0] != count:
                raise error(
                    type(self),
                    f"the state '{part.name}' is {text(part)}: it must be [{count}, batch, size], "
                    "one for each layer and direction",
                )
            rows = ops.split(part, num_outputs=count, axis=0)
            parts.append([ops.squeeze(row, axes=[0]) for row in rows])
        return list(zip(*parts, strict=True))


class RNN(_Recurrent):
    """Layers of `RNNCell` over all steps; options are those of the cell."""

    _cell = _RNNOverSteps


class GRU(_Recurrent):
    """Layers of `GRUCell` over all steps; options are those of the cell."""

    _cell = _GRUOverSteps


class LSTM(_Recurrent):
    """Layers of `LSTMCell` over all steps; options are those of the cell. States are (h, c)."""

    _cell = _LSTMOverSteps


def _tuple(layer: type[Layer], state: Any, count: int) -> State:
    if count == 1:
        return (state,)
    if not isinstance(state, tuple | list) or len(state) != count:
        raise error(layer, "the state must be the pair (h, c)")
    return tuple(state)


def _running(lengths: Any, steps: int) -> list[Any]:
    """For each step: which sequences have it, bool[batch, 1]."""
    column = ops.reshape(lengths, shape=[-1, 1])
    return [ops.greater(column, at) for at in range(steps)]
