"""The progress of a running program's loops, for people to read."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from opstep.executor import Scope

_BAR_EVERY_SECONDS = 0.1
_LINE_EVERY_SECONDS = 10.0


class Loop(NamedTuple):
    """A loop over a reader, as the core describes it."""

    op: int
    name: str
    step: str
    total: str
    shown: list[str]
    sources: list[int]

    def done(self, scope: Scope) -> int:
        """Iterations, while it runs or when it was interrupted; else 0."""
        return _number(scope, self.step)

    def planned(self, scope: Scope) -> int:
        """How many there will be, -1 when that is not known; once it has ended, how many there
        were, and before it begins 0."""
        return _number(scope, self.total)

    def ended(self, scope: Scope) -> bool:
        return self.done(scope) == 0 and self.planned(scope) > 0

    def values(self, scope: Scope) -> str:
        """`loss 0.0123`"""
        told = []
        for name in self.shown:
            value = scope.find(name) if name in scope else None
            # 0 is the initial value: no iteration has set it yet.
            if value is not None and value.size == 1 and value.item() != 0:
                label = name.removeprefix(f"{self.name}.").removesuffix(".latest")
                told.append(f"{label} {value.item():.4g}")
        return ", ".join(told)


class Progress:
    """Looks at the counters of the loops, on a thread, while the program runs.

    The thread only copies a few bytes out of the scope: the run does not notice it. It blocks on
    nothing but its own clock, and `__exit__` ends it.
    """

    def __init__(self, scope: Scope, loops: Sequence[Loop], flags: Sequence[str] = ()) -> None:
        """`flags` say whether a program that fills its variables itself has done so."""
        self._scope = scope
        self._loops = loops
        self._flags = flags
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="opstep progress", daemon=True)

    def __enter__(self) -> Progress:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        on_terminal = sys.stderr.isatty()
        show = _Bar() if on_terminal else _Lines()
        try:
            current: Loop | None = None
            first, begin = 0, 0.0
            while not self._over.wait(_BAR_EVERY_SECONDS if on_terminal else _LINE_EVERY_SECONDS):
                loop = self._running()
                if loop is None:
                    continue
                done, now = loop.done(self._scope), time.monotonic()
                if loop is not current or done < first:
                    current, first, begin = loop, done, now
                    rate = 0.0
                else:
                    rate = (done - first) / (now - begin)
                show(loop.name, done, loop.planned(self._scope), loop.values(self._scope), rate)
        finally:
            show.close()

    def _running(self) -> Loop | None:
        if not all(_number(self._scope, flag) for flag in self._flags):
            return None
        for loop in reversed(self._loops):
            if loop.done(self._scope) > 0:
                return loop
        return None


class _Lines:
    """A line now and then, for a file or a pipe."""

    def __call__(self, name: str, done: int, total: int, values: str, rate: float) -> None:
        of = f" of {total:,}" if total > 0 else ""
        parts = [f"{name}: {done:,}{of} iterations", values, per_second(rate)]
        print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class _Bar:
    """`train  120/560  ━━━━━      loss 0.0123  1,234 it/s  0:03 left` on a terminal."""

    def __init__(self) -> None:
        self._shown: Any = None
        self._task: Any = None

    def __call__(self, name: str, done: int, total: int, values: str, rate: float) -> None:
        if self._shown is None:
            self._shown = self._start()
        left = (total - done) / rate if total > 0 and rate > 0 else None
        self._shown.update(
            self._task,
            visible=True,
            total=total if total > 0 else None,
            completed=done,
            loop=name,
            count=f"{done:,}/{total:,}" if total > 0 else f"{done:,}",
            values=values,
            rate=per_second(rate),
            left="" if left is None else f"{clock(left)} left",
        )
        self._shown.refresh()

    def _start(self) -> Any:
        from rich import progress as rich
        from rich.console import Console

        columns = [rich.TextColumn(f"{{task.fields[{key}]}}") for key in ("loop", "count")]
        columns.append(rich.BarColumn())  # type: ignore[arg-type]
        columns += [rich.TextColumn(f"{{task.fields[{k}]}}") for k in ("values", "rate", "left")]
        shown = rich.Progress(
            *columns, console=Console(stderr=True), transient=True, auto_refresh=False
        )
        empty = dict.fromkeys(("loop", "count", "values", "rate", "left"), "")
        self._task = shown.add_task("", visible=False, **empty)
        shown.start()
        return shown

    def close(self) -> None:
        if self._shown is not None:
            self._shown.stop()


def per_second(rate: float) -> str:
    if rate <= 0:
        return ""
    return f"{rate:,.0f} it/s" if rate >= 10 else f"{rate:.2g} it/s"


def clock(seconds: float) -> str:
    """`0:03`, `1:02:03`"""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _number(scope: Scope, name: str) -> int:
    return int(scope.find(name)) if name in scope else 0
