"""Readers of `opstep.readers` in a program: Python makes the minibatches, the executor asks for
them, ahead of time and on its own thread."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from opstep import _core, ops
from opstep._core import Error
from opstep.ragged import Ragged
from opstep.readers.pipelines import Field, Pipeline, _in

if TYPE_CHECKING:
    from opstep.readers.reader import Batch, Reader


class _Feeder:
    """A reader whose minibatches programs ask for, with the fields of its first minibatch."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        batches = iter(reader._passes(0))
        first = next(batches, None)
        if first is None:
            raise Error("the reader has no minibatch: its data are empty")
        self.fields = [_field_of(name, value) for name, value in first.items()]
        # The minibatch that the fields were learned from is not lost.
        self._ahead: Iterator[Batch] | None = chain([first], batches)

    def batches(self, number: int) -> Iterator[Batch]:
        """The minibatches of a pass. Live data have one pass only, which goes on where it is."""
        if self.reader.live:
            assert self._ahead is not None
            return self._ahead
        ahead, self._ahead = self._ahead, None
        return ahead if number == 0 and ahead is not None else iter(self.reader._passes(number))


class _Cursor:
    """One run's place in a reader; the executor asks it for minibatches."""

    def __init__(self, feeder: _Feeder) -> None:
        self._feeder = feeder
        self._batches: Iterator[Batch] = iter(())
        self.fields = [part for field in feeder.fields for part in _parts(field)]
        self.size = -1
        self.live = feeder.reader.live

    def start(self, number: int) -> None:
        self._batches = self._feeder.batches(number)

    def next(self) -> list[np.ndarray] | None:
        batch = next(self._batches, None)
        if batch is None and self._feeder.reader.endless:
            raise Error("the reader was said to be endless, but its data ended")
        return None if batch is None else arrays_of(batch, self._feeder.fields)


_feeders: weakref.WeakValueDictionary[int, _Feeder] = weakref.WeakValueDictionary()


def _open(number: int) -> _Cursor:
    feeder = _feeders.get(number)
    if feeder is None:
        raise Error(
            "its data come from Python code that this process does not have: give record files "
            "with the same fields, as in opstep run --data train.rec"
        )
    return _Cursor(feeder)


_core.set_reader_lookup(_open)


def of_reader(reader: Reader) -> Pipeline:
    """A reader of `opstep.readers` as a pipeline, whose minibatches Python makes."""
    feeder = _Feeder(reader)
    number = secrets.randbits(62)
    _feeders[number] = feeder
    return Pipeline(
        feeder.fields,
        lambda program: _in(program, ops.read_python, {"number": number}),
        feeder,
        batched=True,
        live=reader.live,
    )


def _field_of(name: str, value: Any) -> Field:
    if isinstance(value, Ragged):
        values = np.asarray(value.values)
        dtype = _core.dtype_name(values.dtype)
        return Field(name, dtype, (None, *values.shape[1:]), value.lod_level)
    array = np.asarray(value)
    return Field(
        name, _core.dtype_name(array.dtype), (None, *array.shape[1:]) if array.ndim else ()
    )


def _parts(field: Field) -> list[tuple[str, str, tuple[int | None, ...]]]:
    levels = [(f"{field.name}@{what}", "int64", (None,)) for what in ("offsets", "steps")]
    return [(field.name, field.dtype, field.shape), *(levels * field.lod_level)]


def arrays_of(batch: Batch, fields: Sequence[Field]) -> list[np.ndarray]:
    """A minibatch's values in the order of the fields, ragged ones as three arrays."""
    arrays: list[np.ndarray] = []
    for field in fields:
        if field.name not in batch:
            raise Error(f"a minibatch has no '{field.name}', but the first one had it")
        value = batch[field.name]
        if (value.lod_level if isinstance(value, Ragged) else 0) != field.lod_level:
            raise Error(f"'{field.name}' is ragged in one minibatch and not so in another")
        if not isinstance(value, Ragged):
            arrays.append(np.asarray(value))
            continue
        arrays.append(value.values)
        for offsets in value.levels:
            longest = int(np.diff(offsets).max(initial=0))
            arrays += [offsets, np.arange(longest, dtype=np.int64)]
    return arrays
