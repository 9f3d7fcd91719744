"""`opstep run`: a script as Python would, a model or program with feeds from files."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from opstep import _core
from opstep._core import Error
from opstep.cli import data_files, settings
from opstep.cli.feeds import feeds_of
from opstep.cli.show_command import value
from opstep.cli.training_run import Training, is_training
from opstep.debug import connection
from opstep.executor import CompiledProgram, Executor, Scope, compile
from opstep.model import _fill_others, _persistables, _types, load_model
from opstep.program import Program, file_path
from opstep.ragged import Ragged

_BAR_AFTER_SECONDS = 0.5
_BAR_EVERY_SECONDS = 0.1


def run_script(path: str, args: Sequence[str], taps: str | None = None) -> int:
    """Like `python path args…`, which replaces this process."""
    if not os.path.isfile(path):
        raise Error(f"there is no script '{path}'")
    if taps:
        os.environ["OPSTEP_TAPS"] = os.path.abspath(taps)
    sys.stdout.flush()
    try:
        os.execv(sys.executable, [sys.executable, path, *args])
    except OSError as error:
        raise Error(f"cannot start {sys.executable}: {error.strerror}") from None


def run(args: argparse.Namespace) -> int:
    """A model or a program, once or many times; one with loops over data, to its end."""
    if args.taps:
        connection.log_taps(args.taps)
    scope = Scope()
    training: Training | None = None
    if os.path.isdir(args.file):
        program, feeds, fetches = load_model(args.file, scope)
        _check_options(args, program, False)
    else:
        program = Program.load(args.file)
        loops = is_training(program)
        _check_options(args, program, loops)
        known = data_files.replace(program, args.data, args.skip_damaged)
        data_files.check_trusted(program, known, args.allow_files)
        feeds, fetches = program._core.feed_names(), []
        if loops:
            training = Training(program, scope, args)
    resumed = training is not None and training.resume()
    if not resumed:
        _start(program, scope, args)
    if args.settings:
        settings.fill(program, scope)
        settings.apply(program, scope, args.settings, resumed)
    fetches = [*fetches, *(name for name in args.wanted if name not in fetches)]
    values = feeds_of(args, program, feeds)
    function = compile(program, feeds, fetches, scope)
    arrays = [values[name] for name in feeds]
    try:
        if training is not None:
            return _train(training, function, arrays, args)
        times, fetched, interrupted = _repeat(function, arrays, args.repeat)
    except Error as error:
        raise _missing(program, scope, error) from None
    _give(dict(zip(fetches, fetched, strict=False)), args.out)
    if args.repeat > 1:
        print(summary(times, interrupted), file=sys.stderr)
    elif not fetches and not interrupted:
        print(f"ran '{program.name}' once; --fetch NAME shows a variable", file=sys.stderr)
    return 130 if interrupted else 0


def _train(
    training: Training, function: CompiledProgram, arrays: list[Any], args: argparse.Namespace
) -> int:
    if not args.out and not _core.file_op(function.program._core, _sources(function.program)):
        print("trained values are not kept: add --out DIR to write them", file=sys.stderr)
    if args.out:
        _make(args.out)  # reports a bad directory before hours of work
    fetched = training.run(function, arrays)
    if fetched is None:
        return 130
    _give(dict(zip(function.fetches, fetched, strict=True)), args.out)
    training.finish(args.out)
    return 0


def _sources(program: Program) -> set[int]:
    return set(_core.sources(program._core))


def _check_options(args: argparse.Namespace, program: Program, loops: bool) -> None:
    if loops and args.repeat > 1:
        raise Error(
            f"program '{program.name}' goes through its data by itself: --steps, not --repeat, "
            "says how often"
        )
    for option in ("steps", "checkpoint"):
        if not loops and getattr(args, option) is not None:
            raise Error(f"--{option} is for loops over readers, and '{program.name}' has none")


def _start(program: Program, scope: Scope, args: argparse.Namespace) -> None:
    """Sets the first values, except those that the program sets itself."""
    if args.startup:
        startup = Program.load(args.startup)
        data_files.check_trusted(startup, set(), args.allow_files)
        Executor().run(startup, scope=scope)
    if args.params:
        settings.fill(program, scope)  # the file may have some of the values only
        _load(args.params, program, scope)


def _load(path: str, program: Program, scope: Scope) -> None:
    """Loads those of the program's variables that the file has."""
    there = _core.read_types(file_path(path))
    wanted = {name: t for name, t in _types(_persistables(program)).items() if name in there}
    if not wanted:
        raise Error(f"'{path}' has no value of program '{program.name}'")
    _core.read_tensors(file_path(path), scope._core, wanted)
    _fill_others(program, scope, wanted)


def _missing(program: Program, scope: Scope, error: Error) -> Error:
    """The error, with what to do about it here when a variable has no value."""
    for variable in _persistables(program):
        if variable.name not in scope and f"'{variable.name}' has no value" in str(error):
            return Error(
                f"'{variable.name}' of program '{program.name}' has no value yet: give the program "
                "that fills it with --startup FILE, or values with --params FILE"
            )
    return error


def _repeat(
    function: CompiledProgram, values: list[Any], count: int
) -> tuple[np.ndarray, list[Any], bool]:
    """Nanoseconds of each run, the results of the last one, and whether Ctrl-C ended it."""
    times = np.zeros(count, np.int64)
    fetched: list[Any] = []
    done = 0
    clock = time.perf_counter_ns
    with _Bar(count) as bar:
        try:
            while done < count:
                begin = clock()
                fetched = function(*values)
                end = clock()
                times[done] = end - begin
                done += 1
                if end >= bar.next:
                    bar.show(done, end)
        except KeyboardInterrupt:
            return times[:done], fetched, True
    return times, fetched, False


class _Bar:
    """A progress bar on a terminal's stderr, once a run turns out to be long."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._begin = time.perf_counter_ns()
        self._progress = None
        self.next = self._begin + int(_BAR_AFTER_SECONDS * 1e9)
        if total == 1 or not sys.stderr.isatty():
            self.next = sys.maxsize

    def __enter__(self) -> _Bar:
        return self

    def show(self, done: int, now: int) -> None:
        self.next = now + int(_BAR_EVERY_SECONDS * 1e9)
        if self._progress is None:
            self._progress = self._start()
        rate = done / ((now - self._begin) / 1e9)
        self._progress.update(self._task, completed=done, rate=f"{rate:,.0f} runs/s")
        self._progress.refresh()

    def _start(self):  # type: ignore[no-untyped-def]
        from rich import progress as rich
        from rich.console import Console

        progress = rich.Progress(
            rich.TextColumn("running"),
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TextColumn("{task.fields[rate]}"),
            rich.TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
        )
        self._task = progress.add_task("", total=self._total, rate="")
        progress.start()
        return progress

    def __exit__(self, *exc: object) -> None:
        if self._progress is not None:
            self._progress.stop()


def summary(times: np.ndarray, interrupted: bool = False) -> str:
    """`1,000 runs in 0.12 s: …`; the first run, which compiles, is listed separately."""
    if len(times) == 0:
        return "interrupted before the first run had ended"
    text = f"{len(times):,} runs in {times.sum() / 1e9:.3g} s; the first took {_ms(times[0])}"
    rest = times[1:]
    if len(rest):
        p50, p99 = np.percentile(rest, [50, 99])
        text += (
            f", the others {_ms(rest.mean())} on average (p50 {_ms(p50)}, p99 {_ms(p99)}): "
            f"{1e9 / max(rest.mean(), 1):,.0f} runs/s"
        )
    return f"interrupted; {text}" if interrupted else text


def _ms(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.3g} ms"


def _give(values: dict[str, Any], folder: str | None) -> None:
    fetched: dict[str, np.ndarray] = {}
    for name, given in values.items():
        if not isinstance(given, Ragged):
            fetched[name] = given
            continue
        fetched[name] = given.values
        for level, offsets in enumerate(given.levels):
            fetched[f"{name}@offsets" + (f"_{level}" if given.lod_level > 1 else "")] = offsets
    if folder is None:
        for name, array in fetched.items():
            sys.stdout.write(value(name, array))
        return
    _make(folder)
    for name, array in fetched.items():
        # Names of variables may hold slashes.
        path = os.path.join(folder, name.replace("/", "_") + ".npy")
        _core.write_array(file_path(path), array)
        print(f"{path}: {array.dtype}{list(array.shape)}")


def _make(folder: str) -> None:
    try:
        if not os.path.isdir(folder):
            os.mkdir(folder)
    except OSError as error:
        raise Error(f"cannot make the directory '{folder}': {error.strerror}") from None
