"""Readers that run in the executor: files, and steps that change their records.

    train = readers.records("train.rec").shuffle(1000, seed=7).batch(32).repeat(10)
    with (loop := train.iterate()) as (x, label):
        ...                                        # the network and its update

A pipeline is only a description. `iterate` adds it to a program; `for batch in train` and
`batch, end = train()` go through it in Python, in the same order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from opstep import _core, context, ops
from opstep._core import Error
from opstep.program import Program, file_path
from opstep.ragged import Ragged
from opstep.variable import Variable

if TYPE_CHECKING:
    from opstep.readers.reader import Batch
    from opstep.readers.reader_loop import ReaderLoop

Path = str | os.PathLike[str]


class Field(NamedTuple):
    """One value of each record; None is a size that differs."""

    name: str
    dtype: str
    shape: tuple[int | None, ...]
    lod_level: int = 0


class Pipeline:
    """A source of records and what is done with them, one step a method."""

    def __init__(
        self,
        fields: Sequence[Field],
        add: Callable[[Program], Variable],
        keep: object = None,
        batched: bool = False,
        live: bool = False,
    ) -> None:
        self.fields = tuple(fields)
        self.batched = batched
        """Does it give batches, and not single records?"""
        self.live = live
        """Are the data live, so that they can be read only once?"""
        self._add = add
        self._keep = keep
        self._source: _core.Source | None = None
        self._ahead: list[np.ndarray] | None = None
        self._pass = 0

    # --- pipelines made from this one ---

    def batch(self, size: int, drop_last: bool = False) -> Pipeline:
        """Records put together, `size` at a time. A value whose first size differs from record to
        record becomes ragged: the rows of all records one after the other."""
        _whole("batch: size", size, 1)
        fields = []
        for field in self.fields:
            if field.lod_level:
                raise Error(f"'{field.name}' is in batches already: batch takes single records")
            if field.shape and field.shape[0] is None:
                fields.append(field._replace(lod_level=1))
            else:
                fields.append(field._replace(shape=(None, *field.shape)))
        made = self._then(ops.batch_reader, fields, size=size, drop_last=drop_last)
        made.batched = True
        return made

    def shuffle(self, buffer: int, seed: int = 0) -> Pipeline:
        """In random order, each record drawn from the next `buffer` ones: a new order in each pass,
        the same orders in every run."""
        _whole("shuffle: buffer", buffer, 1)
        return self._then(ops.shuffle_reader, self.fields, buffer=buffer, seed=seed)

    def repeat(self, times: int = 0) -> Pipeline:
        """`times` passes as one; 0 means forever."""
        _whole("repeat: times", times, 0)
        return self._then(ops.repeat_reader, self.fields, times=times)

    def prefetch(self, depth: int = 2) -> Pipeline:
        """Read ahead on a thread, `depth` records at most. `iterate` does it by itself."""
        _whole("prefetch: depth", depth, 1)
        return self._then(ops.prefetch_reader, self.fields, depth=depth)

    def map(self, function: Callable[..., Any]) -> Pipeline:
        """Each record changed by layers: `function` gets its values as variables and returns a dict
        of names and variables. It runs where the reader runs: on its thread, if that reads ahead.

        `reader.map(lambda image, label: {"image": layers.cast(image, "float32") / 255,
        "label": label})`
        """
        fields = _results(_mapped(self.fields, function, Program("map")))

        def add(program: Program) -> Variable:
            reader = self._made(program)
            return _mapped(self.fields, function, program, reader)[0]

        return Pipeline(fields, add, self, self.batched, self.live)

    def _then(self, op: ops.OpFunction, fields: Sequence[Field], **attrs: Any) -> Pipeline:
        return Pipeline(
            fields,
            lambda program: op(self._made(program), **attrs),
            self,
            self.batched,
            self.live,
        )

    # --- in a program ---

    def variable(self, program: Program | None = None) -> Variable:
        """The reader as a variable of a program: adds the ops that make it to its first block."""
        program = program or context.default_main_program()
        before, program._current = program._current, 0
        try:
            made = self._made(program)
        finally:
            program._current = before
        # Python's readers live as long as the program that reads them.
        program._readers.append(self)
        return made

    def _made(self, program: Program) -> Variable:
        made = self._add(program)
        program._core.set_fields(0, made.name, [tuple(field) for field in self.fields])
        return made

    def iterate(
        self, steps: int | None = None, prefetch: int | None = None, name: str | None = None
    ) -> ReaderLoop:
        """A loop over the records: layers made inside the `with` run for each of them.

        Until the reader ends, or `steps` times. `prefetch` records are read ahead: by default 2, or
        none of live data, since records that were read ahead are lost when the loop ends.
        """
        from opstep.readers.reader_loop import ReaderLoop

        if prefetch is None:
            prefetch = 0 if self.live else 2
        return ReaderLoop(self.prefetch(prefetch) if prefetch else self, steps, name)

    # --- in Python ---

    def __call__(self) -> tuple[Batch, bool]:
        """The next record, and whether it is the last one of its pass."""
        if self._source is None:
            self._source = self._open()
            self._pass = 0
        if self._ahead is None:
            self._ahead = self._source.next()
            if self._ahead is None:
                raise Error("the reader has no record: its data are empty")
        record, self._ahead = self._ahead, self._source.next()
        if self._ahead is not None:
            return self._named(record), False
        self._pass += 1
        self._source.restart(self._pass)
        return self._named(record), True

    def restart(self) -> None:
        """Begin again with the first pass: the same records come in the same order."""
        self._source, self._ahead, self._pass = None, None, 0

    def __iter__(self) -> Iterator[Batch]:
        """One pass, the first one."""
        source = self._open()
        while (record := source.next()) is not None:
            yield self._named(record)

    @property
    def size(self) -> int | None:
        """How many records a pass has, or None when that is not known before they are read."""
        size = self._open().size()
        return None if size < 0 else size

    def _open(self) -> _core.Source:
        from opstep.executor import Executor

        program = Program("reader")
        with context.program_guard(program):
            variable = self.variable(program)
        (source,) = Executor().run(program, fetch_list=[variable])
        return source

    def _named(self, values: list[np.ndarray]) -> Batch:
        left = iter(values)
        named: Batch = {}
        for field in self.fields:
            named[field.name] = next(left)
            levels = [(next(left), next(left))[0] for _ in range(field.lod_level)]
            if levels:
                named[field.name] = Ragged.from_offsets(named[field.name], *levels)
        return named

    def __repr__(self) -> str:
        return f"<reader of {described(self.fields)}>"


def described(fields: Sequence[Field]) -> str:
    """`x float32[?, 8], label int64[?, 1]`"""
    return ", ".join(map(_text, fields))


def _text(field: Field) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in field.shape)
    return f"{field.name} {field.dtype}[{sizes}]" + " in sequences" * bool(field.lod_level)


def _whole(what: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Error(f"{what} is {value!r}, but it must be a whole number from {least} on")


# --- map ------------------------------------------------------------------------------------------


def _mapped(
    fields: Sequence[Field],
    function: Callable[..., Any],
    program: Program,
    reader: Variable | None = None,
) -> tuple[Variable, list[tuple[str, Variable]]]:
    """The op that maps records, added to the program, and its results."""
    if any(field.lod_level for field in fields):
        raise Error("map takes single records, or batches without sequences: map before batch")
    with context.program_guard(program):
        name = program.unique_name(ops.map_reader.type)
        block = program.create_block()
        try:
            values = [
                block.create_var(f"{name}.{field.name}", field.shape, field.dtype)
                for field in fields
            ]
            given = function(*values)
        finally:
            program.rollback()
        if not isinstance(given, dict) or not given:
            raise Error("map's function must give a dict of names and variables")
        for key, value in given.items():
            if not isinstance(value, Variable) or value.block is not block:
                raise Error(f"map's function must make '{key}' from the record that it gets")
        for op in block.ops:
            for names in op.inputs.values():
                for outside in names:
                    if outside and outside not in block.vars:
                        raise Error(
                            f"map's function uses '{outside}', which is not in the record: it runs "
                            "apart from the program and cannot see its variables"
                        )
        results = list(given.items())
        if reader is None:  # only to learn the fields
            return values[0], results
        out = ops.map_reader(
            reader,
            results=[value.name for _, value in results],
            block=block,
            fields=[key for key, _ in results],
            values=[value.name for value in values],
            name=name,
        )
    return out[-1] if isinstance(out, tuple) else out, results


def _results(mapped: tuple[Variable, list[tuple[str, Variable]]]) -> list[Field]:
    return [Field(name, value.dtype, value.shape) for name, value in mapped[1]]


# --- sources --------------------------------------------------------------------------------------


def records(paths: Path | Sequence[Path], damaged: str = "fail") -> Pipeline:
    """The records of a record file, or of several (docs/records.md). Damage is an error;
    `damaged="skip"` leaves damaged records out, and `opstep.records.left_out()` counts them."""
    attrs = {"paths": _paths(paths), "damaged": damaged}
    return _of_files(ops.read_records, _core.open_records(**attrs), **attrs)


def npy(*paths: Path, **fields: Path | Sequence[Path]) -> Pipeline:
    """Rows of arrays: `npy("train.npz")`, or a .npy file for each field, `npy(x="x.npy",
    label="labels.npy")`. An array that is split over files has a list of them."""
    if bool(paths) == bool(fields):
        raise Error('give .npz files, or a .npy file for each field: npy(x="x.npy", y="y.npy")')
    parts = [_paths(part) for part in fields.values()] or [_paths(paths)]
    if len({len(part) for part in parts}) > 1:
        raise Error("the fields are split over different numbers of files: give equally many")
    files = [part[i] for i in range(len(parts[0])) for part in parts]
    attrs = {"paths": files, "names": list(fields)}
    return _of_files(ops.read_npy, _core.open_npy(**attrs), **attrs)


def csv(paths: Path | Sequence[Path], fields: Sequence[str] = (), delimiter: str = ",") -> Pipeline:
    """Lines of numbers in .csv files whose first line names the columns, which `fields` puts
    together: `["x=a,b,c", "label:int64"]`. Without it each column is a field."""
    attrs = {"paths": _paths(paths), "fields": list(fields), "delimiter": delimiter}
    return _of_files(ops.read_csv, _core.open_csv(**attrs), **attrs)


def images(
    folder: Path,
    height: int = 0,
    width: int = 0,
    channels: int = 3,
    labels: bool = True,
    classes: Sequence[str] = (),
    dtype: str = "float32",
    layout: str = "chw",
    on_error: str = "fail",
) -> Pipeline:
    """PNG and JPEG files as fields `image`, from 0 to 1, and `label`: a sub-folder for each class,
    in the order of their names or of `classes`. All are made `height` by `width` if that is said;
    `on_error="skip"` leaves damaged ones out."""
    attrs = {
        "path": os.path.abspath(file_path(folder)),
        "labels": labels,
        "classes": list(classes),
        "height": height,
        "width": width,
        "channels": channels,
        "dtype": dtype,
        "layout": layout,
        "on_error": on_error,
    }
    return _of_files(ops.read_images, _core.open_images(**attrs), **attrs)


def _of_files(op: ops.OpFunction, source: _core.Source, **attrs: Any) -> Pipeline:
    fields = [Field(name, dtype, tuple(shape)) for name, dtype, shape in source.fields()]
    return Pipeline(fields, lambda program: _in(program, op, attrs))


def _paths(paths: Path | Sequence[Path]) -> list[str]:
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    # Absolute: a program may be run elsewhere.
    return [os.path.abspath(file_path(path)) for path in given]


def _in(program: Program, op: ops.OpFunction, attrs: dict[str, Any]) -> Variable:
    return op._append({}, {}, attrs, program=program)
