"""The full-screen application: commands at its own prompt and by keys.

It owns one task, the application, which draws and reads keys; commands run in the shell's task, and
the view is refreshed after each command and at each stop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from opstep_server.cli.full_screen.pane_contents import PaneContents
from opstep_server.cli.full_screen.pane_layout import layout
from opstep_server.cli.full_screen.panes import Pane, style
from opstep_server.cli.input.completion import CommandCompleter
from opstep_server.cli.input.prompt import editing_keys
from opstep_server.cli.output import descriptions
from opstep_server.cli.output.screen import TerminalSink
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import (
    BreakpointChanged,
    ContinuedEvent,
    Event,
    ProcessExited,
    ProgramCompiled,
    StoppedEvent,
)
from opstep_server.wire import debug_pb2 as pb

PANES = ("source", "listing", "tensors", "console")

_COMMANDS = {"f10": "next", "f11": "step", "f23": "finish", "f7": "stepi", "f8": "nexti"}
# How long a command may take before its results so far are drawn.
_HOLD_SECONDS = 0.03
# Repeated steps may come faster than a user can see them.
_REFRESH_SECONDS = 0.05
_CHANGES = (StoppedEvent, ContinuedEvent, ProcessExited, ProgramCompiled, BreakpointChanged)
STYLE = Style.from_dict(
    {
        "line": "ansibrightblack",
        "title": "bold",
        "active": "bold ansicyan",
        "status": "reverse",
        "keys": "ansibrightblack",
        "key": "bold",
        "prompt": "bold",
        "auto-suggestion": "ansibrightblack",
    }
)


class _App(Application[None]):
    """Draws a short step only once, at its end: drawing is the slowest part of a step."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._held: asyncio.TimerHandle | None = None

    def hold(self, late: Callable[[], None]) -> None:
        """Holds drawing back until `draw`; calls `late` when that does not come soon."""
        if self._held is None:
            self._held = asyncio.get_running_loop().call_later(_HOLD_SECONDS, late)

    def draw(self) -> None:
        if self._held is not None:
            self._held.cancel()
            self._held = None
        self.invalidate()

    def invalidate(self) -> None:
        if self._held is None:
            super().invalidate()


class FullScreen:
    full = True

    def __init__(self, session: TerminalSession, history: History) -> None:
        self._session = session
        self._view = PaneContents(session, lambda: self._app.invalidate())
        # Commands that were typed or came from a key; None is the end.
        self._typed: asyncio.Queue[str | None] = asyncio.Queue()
        self._busy = False
        self._question = ""
        self._answer: asyncio.Future[str] | None = None
        # The pane that scrolls.
        self._active = "console"
        self._history = history
        self._buffer = Buffer(
            history=history,
            completer=CommandCompleter(session),
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=True,
            multiline=False,
            accept_handler=self._accept,
        )
        self._app = _App(
            layout(
                self._view, session.panes, self._title, self._buffer, self._prompt, self._status
            ),
            style=STYLE,
            key_bindings=self._keys(),
            full_screen=True,
            enable_page_navigation_bindings=False,
        )
        # A lone Escape need not wait long for the rest of a key.
        self._app.ttimeoutlen = 0.05
        self._task: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._changed = False
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> FullScreen:
        self._task = asyncio.create_task(self._run())
        session = self._session
        self._sink = session.screen.sink
        session.screen.sink = self._view.console
        if isinstance(self._sink, TerminalSink):
            for said in self._sink.said:
                if isinstance(said, str):
                    self._view.console.output(said)
                else:
                    self._view.console.line(said)
        self._stack.callback(session.debugger.subscribe(self._take))
        # Other output must not be written over the panes.
        writer = _Writer(self._view.console.output)
        self._stack.enter_context(contextlib.redirect_stdout(writer))
        self._stack.enter_context(contextlib.redirect_stderr(writer))
        await self.after()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stack.close()
        self._session.screen.sink = self._sink
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._task is not None:
            if self._app.is_running:
                self._app.exit()
            with contextlib.suppress(EOFError):
                await self._task

    async def read(self) -> str:
        text = await self._typed.get()
        if text is None:
            self._gone()
            raise EOFError
        self._session.screen.echo(f"{self._session.macros.prompt}{text}")
        return text

    async def ask(self, question: str) -> str:
        self._gone()
        self._question = question
        self._answer = asyncio.get_running_loop().create_future()
        self._app.invalidate()
        try:
            answer = await self._answer
            self._session.screen.line(f"{question}{answer}")
            return answer
        finally:
            self._question, self._answer = "", None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        self._busy = True
        self._view.console.below = 0
        try:
            yield
        finally:
            self._busy = False

    async def after(self) -> None:
        self._changed = False
        await self._view.refresh()
        self._app.draw()

    async def _run(self) -> None:
        try:
            await self._app.run_async(handle_sigint=False)
        finally:
            # A lost terminal is like Ctrl-D.
            self._typed.put_nowait(None)
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(EOFError())

    def _gone(self) -> None:
        """Raises the error that ended the application: nobody would answer any more."""
        if self._task is not None and self._task.done():
            self._task.result()

    # ---- events ----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        if isinstance(event, _CHANGES):
            self._refresh_soon()
        self._app.invalidate()

    def _late(self) -> None:
        self._app.draw()
        self._refresh_soon()

    def _refresh_soon(self) -> None:
        self._changed = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh())

    async def _refresh(self) -> None:
        while self._changed:
            await asyncio.sleep(_REFRESH_SECONDS)
            if self._changed:  # The command that changed it has not ended.
                await self.after()

    def _accept(self, buffer: Buffer) -> bool:
        text = buffer.text.strip()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(text)
        else:
            if text:
                self._history.append_string(text)
            self._do(text)
        buffer.reset()
        return True  # Unchanged since we left it.

    # ---- keys ------------------------------------------------------------------------------------

    def _keys(self) -> KeyBindings:
        keys = editing_keys()

        def bind(*names: str) -> Callable[[Callable[[], None]], None]:
            def add(action: Callable[[], None]) -> None:
                def pressed(event: KeyPressEvent) -> None:
                    action()

                keys.add(*names)(pressed)

            return add

        for name, command in _COMMANDS.items():
            bind(name)(functools.partial(self._do, command))
        bind("f5")(self._go)
        bind("f9")(self._toggle)
        bind("f6")(self._next_pane)
        bind("c-c")(self._interrupt)
        bind("c-d")(self._end)
        bind("c-x", "a")(self._leave)
        bind("c-x", "c-a")(self._leave)
        bind("pageup")(lambda: self._scroll(-1))
        bind("pagedown")(lambda: self._scroll(1))
        bind("c-up")(lambda: self._move(-1))
        bind("c-down")(lambda: self._move(1))
        bind("escape", "up")(lambda: self._move(-1))
        bind("escape", "down")(lambda: self._move(1))
        bind("c-l")(lambda: self._app.renderer.clear())
        bind("c-z")(lambda: self._app.suspend_to_background())

        return keys

    def _do(self, command: str) -> None:
        self._app.hold(self._late)
        self._typed.put_nowait(command)

    def _go(self) -> None:
        self._do("continue" if self._session.running else "run")

    def _toggle(self) -> None:
        pane = self._view.listing if self._active == "listing" else self._view.source
        place, state = self._view.at(pane)
        quoted = f"'{place}'" if " " in place else place
        self._do(f"break {quoted}" if state is None else f"delete {state.id}")

    def _interrupt(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(KeyboardInterrupt())
        elif self._busy:
            self._pausing = asyncio.create_task(self._session.interrupt())
        elif not self._buffer.text and self._session.running and self._session.stopped is None:
            self._do("pause")  # It runs, but no command waits for it.
        self._buffer.reset()

    def _end(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(EOFError())
        elif self._buffer.text:
            self._buffer.delete()
        else:
            self._do("quit")

    def _leave(self) -> None:
        self._do("layout off")

    def _next_pane(self) -> None:
        shown = [name for name in PANES if name in self._session.panes or name == "console"]
        at = shown.index(self._active) if self._active in shown else -1
        self._active = shown[(at + 1) % len(shown)]
        for name in ("source", "listing"):
            self._pane(name).active = name == self._active

    def _scroll(self, pages: int) -> None:
        pane = self._pane(self._active)
        pane.scroll(pages * max(pane.height - 1, 1))

    def _move(self, rows: int) -> None:
        """Moves the cursor in a code pane, which scrolls along."""
        name = self._active if self._active != "console" else "source"
        self._pane(name).scroll(rows)
        for each in ("source", "listing"):
            self._pane(each).active = each == name

    def _pane(self, name: str) -> Pane:
        pane: Pane = getattr(self._view, name)
        return pane

    # ---- words -----------------------------------------------------------------------------------

    def _prompt(self) -> StyleAndTextTuples:
        if self._question:
            return [("class:prompt", self._question)]
        return [("class:prompt", self._session.macros.prompt if not self._busy else "")]

    def _title(self, name: str) -> StyleAndTextTuples:
        view = self._view
        about = {
            "source": descriptions.path(view.file),
            "listing": view.program,
            "console": f"▼ {view.console.below} more" if view.console.below else "",
        }.get(name, "")
        words = f" {name}: {about} " if about else f" {name} "
        return [("", "─"), ("class:active" if name == self._active else "class:title", words)]

    def _status(self) -> StyleAndTextTuples:
        session = self._session
        stopped = session.stopped
        if stopped is None:
            what = "running: Ctrl-C pauses" if session.running else "not running: F5 starts it"
            return [("", f" {what}")]
        parts = [f"thread {session.thread.id} {session.thread.name}"]
        run = next((f for f in stopped.frames if f.kind == pb.StackFrame.RUN), None)
        if run is not None:
            parts += [run.program_name, f"run {run.step}"]
        parts += descriptions.blocks(stopped.frames)
        if session.frame:
            parts.append(f"frame {session.frame}")
        parts.append(descriptions.reason(stopped, session.debugger.others_only(stopped)))
        kind = style(descriptions.stop_style(stopped))
        return [(kind, " stopped "), ("", "│ " + " │ ".join(parts))]


class _Writer(io.TextIOBase):
    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write

    def write(self, text: str) -> int:
        self._write(text)
        return len(text)
