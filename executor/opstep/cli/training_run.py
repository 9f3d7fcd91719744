"""`opstep run train.opstep`: a program with loops over readers, to its end or until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

from opstep import _core, records
from opstep._core import Error
from opstep.cli.progress import Loop, Progress, per_second
from opstep.executor import CompiledProgram, Scope
from opstep.model import load_checkpoint, save_checkpoint
from opstep.program import Program

_PARAMETERS = "params.safetensors"


class Training:
    """The loops of a program, where they are, and the file that lets them go on."""

    def __init__(self, program: Program, scope: Scope, args: argparse.Namespace) -> None:
        self._program = program
        self._scope = scope
        # Inner loops have no counters: they restart in each iteration of the one around them.
        self._loops = [loop for loop in _loops(program) if loop.step and loop.total]
        stem = os.path.splitext(os.path.basename(args.file))[0]
        self._path = args.checkpoint or f"{stem}.checkpoint.safetensors"
        folder = os.path.dirname(os.path.abspath(self._path))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Error(
                f"a checkpoint could not be written into '{folder}': name a file elsewhere with "
                "--checkpoint"
            )
        # Loops that had ended before, and their iterations.
        self._over: dict[str, int] = {}
        self._before = 0
        self._text = ""
        if args.steps is not None:
            _core.set_attr(program._core, self._loops[0].op, "steps", args.steps)

    def resume(self) -> bool:
        """Go on from the checkpoint of an interrupted training, if there is one."""
        if not os.path.lexists(self._path):
            return False
        try:
            load_checkpoint(self._path, self._program, self._scope)
        except Error as error:
            raise Error(
                f"cannot resume from '{self._path}': {error}; delete it to start again, or name "
                "another file with --checkpoint"
            ) from None
        for loop in self._loops:
            if loop.ended(self._scope):
                self._over[loop.total] = loop.planned(self._scope)
                _core.set_attr(self._program._core, loop.op, "steps", 0)
        self._before = sum(loop.done(self._scope) for loop in self._loops)
        print(
            f"resuming after {self._before:,} iterations, from '{self._path}' (delete it to start "
            "again)",
            file=sys.stderr,
        )
        return True

    def run(self, function: CompiledProgram, arrays: list[Any]) -> list[Any] | None:
        """The program's results, or None when Ctrl-C ended it."""
        begin = time.monotonic()
        flags = self._program._core.once_flags()
        with _Interrupts() as interrupts:
            try:
                with Progress(self._scope, self._loops, flags):
                    fetched = function(*arrays)
            except KeyboardInterrupt:
                interrupts.ignore()
                self._stopped(interrupts.count)
                return None
        self._text = self._summary(time.monotonic() - begin)
        return fetched

    def finish(self, folder: str | None) -> None:
        """Save the trained values. The checkpoint is not needed any more."""
        if folder is not None:
            path = os.path.join(folder, _PARAMETERS)
            save_checkpoint(path, self._program, self._scope)
            print(f"{path}: parameters and other values that training goes on from")
        if os.path.lexists(self._path):
            os.unlink(self._path)
        print(self._text, file=sys.stderr)

    def _stopped(self, presses: int) -> None:
        scope = self._scope
        done = sum(loop.done(scope) for loop in self._loops)
        if presses > 1:
            text = "stopped in the middle of an iteration, so nothing was saved"
        elif not done and not any(loop.ended(scope) for loop in self._loops):
            text = "stopped before the first iteration had ended"
        else:
            total = sum(loop.planned(scope) for loop in self._loops if loop.done(scope))
            for name, iterations in self._over.items():
                scope.set(name, iterations)
            save_checkpoint(self._path, self._program, scope)
            of = f" of {total:,}" if total > 0 else ""
            text = (
                f"stopped after {done:,}{of} iterations, saved as '{self._path}'; run the same "
                "command again to go on"
            )
        print(text, file=sys.stderr)

    def _summary(self, seconds: float) -> str:
        """`560 iterations in 3.21 s: 174 it/s, loss 0.0123`"""
        ran = [loop for loop in self._loops if loop.planned(self._scope)]
        done = sum(loop.planned(self._scope) for loop in ran) - self._before
        text = f"{done:,} iterations in {seconds:.3g} s"
        rate = per_second(done / max(seconds, 1e-9))
        values = [loop.values(self._scope) for loop in ran]
        told = ", ".join(part for part in (rate, *values) if part)
        return (f"{text}: {told}" if told else text) + _left_out()


def _left_out() -> str:
    """`, 3,972 damaged records left out`"""
    lost = sum(records.left_out().values(), records.Lost())
    if not lost:
        return ""
    more = " or more" if lost.torn else ""
    plural = "" if lost.records == 1 and not more else "s"
    return f", {lost.records:,}{more} damaged record{plural} left out"


def is_training(program: Program) -> bool:
    return any(loop.step and loop.total for loop in _loops(program))


def _loops(program: Program) -> list[Loop]:
    return [Loop(**loop) for loop in _core.loops(program._core)]


class _Interrupts:
    """Counts Ctrl-C: the first one ends a loop between two iterations, the second at once."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        self._before = signal.signal(signal.SIGINT, self._pressed)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        raise KeyboardInterrupt

    def ignore(self) -> None:
        """While the checkpoint is written."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
