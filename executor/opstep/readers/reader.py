"""Readers whose minibatches Python makes: of arrays, of generators and of other readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from opstep._core import Error
from opstep.ragged import Ragged
from opstep.readers.feeders import of_reader
from opstep.show.tables import array_type, facts_table

if TYPE_CHECKING:
    from opstep.readers.reader_loop import ReaderLoop

Batch = dict[str, Any]


class Reader:
    """`passes(n)` gives the minibatches of pass n. Readers made of others share nothing with them:
    each has its own place in the data."""

    def __init__(
        self,
        passes: Callable[[int], Iterable[Batch]],
        endless: bool = False,
        about: str = "",
        live: bool = False,
    ) -> None:
        self._passes, self.endless = passes, endless
        self.live = live
        """Are the data live, so that they can be read only once?"""
        self._about = about or "minibatches that Python makes"
        self._batches: Iterator[Batch] | None = None
        self._ahead: Batch | None = None
        self._pass = 0

    def __call__(self) -> tuple[Batch, bool]:
        """The next minibatch, and whether it is the last one of its pass."""
        if self._batches is None:
            self._batches = self._begin()
            if not self.endless:
                self._ahead = next(self._batches)
        if self.endless:  # the next minibatch may not exist yet: do not wait for it
            try:
                return next(self._batches), False
            except StopIteration:
                raise Error("the reader was said to be endless, but its data ended") from None
        batch = self._ahead
        assert batch is not None
        self._ahead = next(self._batches, None)
        if self._ahead is not None:
            return batch, False
        self._batches = None
        return batch, True

    def restart(self) -> None:
        """Begin again with the first pass: the same minibatches come in the same order."""
        self._pass, self._batches, self._ahead = 0, None, None

    def _begin(self) -> Iterator[Batch]:
        """The minibatches of the next pass, at least one."""
        number, self._pass = self._pass, self._pass + 1
        return _checked(self._passes(number))

    def __iter__(self) -> Iterator[Batch]:
        """One whole pass, the next one; a call's unfinished pass is left as it is."""
        return self._begin()

    def map(self, change: Callable[[Batch], Batch]) -> Reader:
        """Every minibatch changed by a function."""
        return Reader(
            lambda n: (change(batch) for batch in self._passes(n)),
            self.endless,
            f"{self._about}, changed",
            self.live,
        )

    def take(self, steps: int) -> Reader:
        """Passes of at most `steps` minibatches."""
        if steps < 1:
            raise Error(f"cannot take {steps} minibatches of a reader: take 1 or more")
        return Reader(
            lambda n: islice(self._passes(n), steps),
            about=f"{self._about}, at most {steps:,} minibatches a pass",
        )

    def iterate(
        self, steps: int | None = None, prefetch: int | None = None, name: str | None = None
    ) -> ReaderLoop:
        """A loop over the minibatches of one pass, inside the program (see `ReaderLoop`): layers
        made inside the `with` run for each of them. Python makes them ahead of time on a thread."""
        return of_reader(self).iterate(steps, prefetch, name)

    def repeat(self) -> Reader:
        """An endless reader: one pass after the other."""
        if self.endless:
            return self
        return Reader(
            lambda _: (b for n in count() for b in _checked(self._passes(n))),
            endless=True,
            about=f"{self._about}, over and over",
        )

    def __repr__(self) -> str:
        return f"<reader of {self._about}>"

    def _repr_html_(self) -> str:
        facts = {"gives": self._about, "ends": "never" if self.endless else "after each pass"}
        facts["passes begun"] = f"{self._pass:,}"
        for name, value in (self._ahead or {}).items():
            facts[f"next {name}"] = array_type(value)
        return facts_table("reader", facts)


def _checked(batches: Iterable[Batch]) -> Iterator[Batch]:
    empty = True
    for batch in batches:
        if not isinstance(batch, dict):
            raise Error(
                "a reader gives minibatches as dicts of name and value, "
                f"not as a {type(batch).__name__}"
            )
        empty = False
        yield batch
    if empty:
        raise Error("the reader has no minibatch: its data are empty")


def from_arrays(
    arrays: Mapping[str, Any],
    batch: int,
    shuffle: int | None = None,
    drop_last: bool = False,
) -> Reader:
    """Minibatches of `batch` rows of all arrays, which have one row for each example; of a
    `Ragged`, an example is a sequence.

    With a seed in `shuffle`, each pass has a new order, the same in every process. The last
    minibatch of a pass has the remaining rows; with `drop_last` it is left out if it is smaller.
    """
    if not isinstance(arrays, Mapping):
        raise Error(f"from_arrays needs a dict of names and arrays, not a {type(arrays).__name__}")
    data = {
        name: value if isinstance(value, Ragged) else np.asarray(value)
        for name, value in arrays.items()
    }
    if not data:
        raise Error("from_arrays was given no array")
    for name, array in data.items():
        if isinstance(array, np.ndarray) and (array.ndim == 0 or array.dtype == object):
            raise Error(f"'{name}' has no rows: from_arrays needs arrays with a row an example")
    first, rows = next((name, len(array)) for name, array in data.items())
    for name, array in data.items():
        if len(array) != rows:
            raise Error(f"'{first}' has {rows} rows but '{name}' has {len(array)}")
    if batch < 1:
        raise Error(f"batch is {batch}: it must be 1 or more")
    if rows < (batch if drop_last else 1):
        raise Error(f"'{first}' has {rows} rows, which make no minibatch of {batch}")
    stop = rows - rows % batch if drop_last else rows

    def minibatches(number: int) -> Iterator[Batch]:
        order = None
        if shuffle is not None:
            order = np.random.default_rng([shuffle, number]).permutation(rows)
        for at in range(0, stop, batch):
            end = min(at + batch, stop)
            chosen = slice(at, end) if order is None else order[at:end]
            yield {name: array[chosen] for name, array in data.items()}

    types = (f"{name} {_row_type(array)}" for name, array in data.items())
    return Reader(minibatches, about=f"{rows:,} rows, {batch:,} at a time: {', '.join(types)}")


def _row_type(array: np.ndarray | Ragged) -> str:
    if isinstance(array, Ragged):
        return f"{array.dtype}{list(array.values.shape[1:])} in sequences"
    return f"{array.dtype}{list(array.shape[1:])}"


def from_generator(make: Callable[[], Iterable[Batch]], endless: bool = False) -> Reader:
    """Minibatches that Python makes: `make()` is called at the beginning of each pass. Set
    `endless` for data that never end, as in online learning."""
    return Reader(lambda _: make(), endless, live=endless)


def from_steps(make: Callable[[int], Batch]) -> Reader:
    """An endless reader whose minibatch number n is `make(n)`."""
    return Reader(lambda _: (make(step) for step in count()), endless=True)


def chain(*readers: Reader) -> Reader:
    """The passes of several readers, one after the other, as one pass."""
    if not readers:
        raise Error("chain was given no reader")
    for reader in readers[:-1]:
        if reader.endless:
            raise Error("chain never comes to what follows an endless reader: put it last")
    return Reader(
        lambda n: (batch for reader in readers for batch in reader._passes(n)),
        endless=readers[-1].endless,
        live=readers[-1].live,
        about="; then ".join(reader._about for reader in readers),
    )


def join(*readers: Reader) -> Reader:
    """The minibatches of several readers side by side, as one: their names must differ. Those that
    are not endless must end together."""
    if not readers:
        raise Error("join was given no reader")
    return Reader(
        lambda n: _side_by_side([reader._passes(n) for reader in readers], readers),
        endless=all(reader.endless for reader in readers),
        live=all(reader.endless for reader in readers) and any(r.live for r in readers),
        about="; beside them ".join(reader._about for reader in readers),
    )


def _side_by_side(passes: list[Iterable[Batch]], readers: tuple[Reader, ...]) -> Iterator[Batch]:
    running = [_checked(batches) for batches in passes]
    # Endless readers come last: when the others have ended, they are not read any more.
    order = sorted(range(len(readers)), key=lambda i: readers[i].endless)
    for step in count():
        joined: Batch = {}
        ended: list[int] = []
        for i in order:
            if ended and readers[i].endless:
                break
            batch = next(running[i], None)
            if batch is None:
                ended.append(i)
                continue
            twice = joined.keys() & batch.keys()
            if twice:
                raise Error(f"two of the joined readers give '{min(twice)}': rename one with map")
            joined |= batch
        if not ended:
            yield joined
            continue
        if joined:
            raise Error(f"the joined readers do not end together: one ended after {step}")
        return
