"""The training loop as an op: `with reader.iterate() as (x, label): …`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opstep import context, ops, owners
from opstep._core import Error
from opstep.initializer import Constant, add_startup_value
from opstep.layers.control_flow import Switch
from opstep.program import Block, Program
from opstep.variable import Variable

if TYPE_CHECKING:
    from opstep.readers.pipelines import Pipeline
    from opstep.readers.reader import Reader


class ReaderLoop:
    """Runs its block for each record of a reader, inside the program.

    with (loop := reader.iterate()) as (x, label):
        loss = network(x, label)
        opstep.optimizer.SGD(0.1).minimize(loss)
        losses = loop.fetch(loss, every=100)
    exe.run(startup)
    (values,) = exe.run(main, fetch_list=[losses])

    When the program runs again in the same scope, an interrupted loop resumes after the last
    finished iteration.
    """

    def __init__(self, reader: Pipeline, steps: int | None, name: str | None) -> None:
        if steps is not None and (not isinstance(steps, int) or steps < 0):
            raise Error(f"steps is {steps!r}, but it must be a whole number or None")
        self.reader = reader
        self.steps = steps
        self.name = name or ""
        self._program: Program | None = None
        self._body: Block | None = None
        self._values: list[Variable] = []
        self._given: dict[str, Variable] = {}
        self._stop: Variable | None = None
        self._counter: Variable | None = None
        self._total: Variable | None = None
        self._shown: list[str] = []

    # --- the with ---

    def __enter__(self) -> tuple[Variable, ...]:
        if self._program is not None:
            raise Error("this loop has its block already: call iterate again for another")
        program = context.default_main_program()
        self._program = program
        self.name = self.name or program.unique_name(ops.reader_loop.type)
        self._reader = self.reader.variable(program)
        if program.current_block().index == 0:
            # For an inner loop, the interrupted round would be unknown.
            self._counter = self._kept(f"{self.name}.step")
            self._total = self._kept(f"{self.name}.total")
        self._body = program.create_block()
        given = []
        for field in self.reader.fields:
            name = f"{self.name}.{field.name}"
            if field.lod_level:
                from opstep import ragged

                value = ragged.declare(self._body, name, field.shape, field.dtype, field.lod_level)
                self._values.append(value)
                for level in value.lod:
                    self._values += level
            else:
                value = self._body.create_var(name, field.shape, field.dtype)
                self._values.append(value)
            value.stop_gradient = True
            given.append(value)
            self._given[field.name] = value
        self._values.append(self._body.create_var(f"{self.name}.iteration", [], "int64"))
        return tuple(given)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        program, body = self._inside("the end")
        program._current = body.parent.index if body.parent else 0
        if kind is not None:
            return
        kept = {
            "step": self._counter,
            "step_out": self._counter,
            "total": self._total,
            "total_out": self._total,
        }
        ops.reader_loop(
            self._reader,
            stop=self._stop.name if self._stop is not None else None,
            block=body,
            steps=-1 if self.steps is None else self.steps,
            shown=self._shown,
            values=[value.name for value in self._values],
            name=self.name,
            **{slot: variable for slot, variable in kept.items() if variable is not None},
        )
        self._body = None

    # --- for the inside ---

    @property
    def step(self) -> Variable:
        """The number of the iteration, from 0."""
        self._inside("loop.step")
        return self._values[-1]

    @contextmanager
    def every(self, steps: int) -> Iterator[None]:
        """Layers made inside the `with` run in every `steps`-th iteration."""
        self._inside("loop.every")
        if not isinstance(steps, int) or steps < 1:
            raise Error(f"every: {steps!r} is not a whole number from 1 on")
        if steps == 1:
            yield
            return
        due = ops.equal(ops.mod(self.step + 1, steps), 0)
        with Switch() as switch, switch.case(due):
            yield

    def fetch(self, value: Variable, every: int = 1, name: str | None = None) -> Variable:
        """Keep a value of every `every`-th iteration. The result can be fetched from the run: an
        array with a row for each of them."""
        program, body = self._inside("loop.fetch")
        around = body.parent.index if body.parent else 0
        label = name or value.name.removeprefix(f"{self.name}.")
        kept = f"{self.name}.{label}.all"
        if program._core.block_of_var(around, kept) >= 0:
            raise Error(f"'{label}' is fetched from this loop already: give another name")
        program._core.create_stack(around, kept, value.dtype, value.shape)
        stack = program._block(around)._own(kept)
        with self.every(every):
            ops.push(value, stack, stack_out=stack)
            if self._counter is not None and None not in value.shape:
                latest = self._kept(f"{self.name}.{label}.latest", value.shape, value.dtype)
                ops.assign(value, out=latest)
                self._shown.append(latest.name)
        return stack

    def evaluate(self, reader: Pipeline | Reader, values: Any) -> Any:
        """The means, over all records of another reader, of values that the loop computes: one
        variable or several, of one element each. For `with loop.every(100):`.

        The ops that compute them are added again, as in a test and for the reader's data, with the
        same parameters; gradients and updates are left out.
        """
        from opstep.readers.feeders import of_reader
        from opstep.readers.pipelines import Pipeline

        program, body = self._inside("loop.evaluate")
        wanted = list(values) if isinstance(values, list | tuple) else [values]
        for value in wanted:
            if not isinstance(value, Variable) or any(size != 1 for size in value.shape):
                raise Error("loop.evaluate takes values of one element: take the mean first")
        pipeline = reader if isinstance(reader, Pipeline) else of_reader(reader)
        missing = {f.name for f in self.reader.fields} - {f.name for f in pipeline.fields}
        if missing:
            raise Error(f"the reader to evaluate with has no '{min(missing)}', as the loop's has")
        with context.names_below(program.unique_name("evaluation")):
            sums = [ops.fill(shape=[], dtype="float32", value=0.0) for _ in wanted]
            count = ops.fill(shape=[], dtype="float32", value=0.0)
            with pipeline.iterate() as given:
                handed = dict(zip((field.name for field in pipeline.fields), given, strict=True))
                places = {self.step.name: self.step.name}
                for field in self.reader.fields:
                    ours = self._given[field.name]
                    places[ours.name] = handed[field.name].name
                    for mine, other in zip(ours.lod, handed[field.name].lod, strict=True):
                        places |= {a.name: b.name for a, b in zip(mine, other, strict=True)}
                here = program.current_block()
                names = program._core.add_test_of(
                    body.index, here.index, [value.name for value in wanted], places
                )
                rows = _rows(given[0]) if pipeline.batched else 1.0
                ops.assign(count + rows, out=count)
                for total, name in zip(sums, names, strict=True):
                    value = ops.reshape(ops.cast(here.var(name), to="float32"), shape=[])
                    ops.assign(total + value * rows, out=total)
            means = [total / count for total in sums]
        return means if isinstance(values, list | tuple) else means[0]

    def stop_when(self, condition: Variable) -> None:
        """End the loop after this iteration if `condition`, one bool, holds."""
        _, body = self._inside("loop.stop_when")
        if condition.dtype != "bool":
            raise Error(
                f"stop_when needs a bool, but '{condition.name}' is {condition.dtype}: "
                "compare it with something"
            )
        if self._stop is None:
            # Made at the start of the block, so that conditions in branches can write it.
            body.prepend_operator(
                ops.fill.type,
                outputs={"out": f"{self.name}.stop"},
                attrs={"shape": [], "dtype": "bool", "value": 0},
                name=f"{self.name}.go_on",
            )
            self._stop = body.var(f"{self.name}.stop")
        ops.logical_or(self._stop, ops.reshape(condition, shape=[]), out=self._stop)

    def _kept(self, name: str, shape: Sequence[int | None] = (), dtype: str = "int64") -> Variable:
        assert self._program is not None
        home = self._program.global_block()
        variable = home._create_var(name, shape, dtype, persistable=True, stop_gradient=True)
        owners.keep_apart(self._program, name)
        add_startup_value(variable, Constant(0))
        return variable

    def _inside(self, what: str) -> tuple[Program, Block]:
        if self._program is None or self._body is None:
            raise Error(f"{what} of a loop is for the inside of its `with`")
        return self._program, self._body


def _rows(value: Variable) -> Variable:
    """How many records a batch has."""
    if value.lod:
        return ops.cast(ops.size(value.lod[0].offsets) - 1, to="float32")
    return ops.cast(ops.shape(value)[0], to="float32")
