"""The shell: reads commands from options, a file or a user and runs them in order."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import signal
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from opstep_server.cli.commands import focus
from opstep_server.cli.commands.command import Command
from opstep_server.cli.input import dispatch
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError


class Face(Protocol):
    """The user's input: a prompt, or the full screen."""

    full: bool

    async def __aenter__(self) -> Face: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def read(self) -> str:
        """Reads a command; KeyboardInterrupt for Ctrl-C, EOFError for Ctrl-D."""

    async def ask(self, question: str) -> str: ...

    def running(self) -> contextlib.AbstractContextManager[None]:
        """A context around a command."""

    async def after(self) -> None:
        """Shows the rest of the command's output."""


class Shell:
    def __init__(self, session: TerminalSession) -> None:
        self._session = session
        self._repeat: tuple[Command, str] | None = None
        # Commands that run before the user's.
        self._given: deque[str] = deque()
        self.failed = False

    async def batch(self, commands: Sequence[str]) -> None:
        """Runs the commands, each echoed, up to the first that fails."""
        with self._ctrl_c():
            for text in commands:
                if self._session.quitting or not await self._echoed(text):
                    return
            if not self._session.batch or self._session.quitting:
                return
            self._check_ended()
            if problem := self._session.never_started():
                self._session.screen.error(problem)
                self.failed = True
            if self._session.at_fault and await focus.has_inputs(self._session):
                # The user of a batch cannot ask for them later.
                await self.execute("inputs")

    async def piped(self) -> None:
        """Runs commands from a file or a pipe instead of a user."""
        with self._ctrl_c():
            loop = asyncio.get_running_loop()
            while not self._session.quitting:
                text = await loop.run_in_executor(None, sys.stdin.readline)
                if not text:
                    self._check_ended()
                    return
                await self._echoed(text.strip())

    async def interactive(self, first: Sequence[str] = ()) -> None:
        """Runs the given commands, then those of a user at a terminal."""
        # Imported here: the rest needs no terminal and starts faster without the library.
        from opstep_server.cli.input.prompt import History, Prompt

        self._given.extend(first)
        history = History()
        session = self._session
        session.typed[:0] = reversed(list(history.load_history_strings()))
        # Always on: Ctrl-C may also come just before or after a command.
        with self._ctrl_c():
            while not session.quitting:
                face: Face
                if session.full_screen:
                    from opstep_server.cli.full_screen import FullScreen

                    face = FullScreen(session, history)
                else:
                    face = Prompt(session, history)
                async with face:
                    await self._read_from(face)

    async def _read_from(self, face: Face) -> None:
        """Runs commands until the session ends or switches between lines and full screen."""
        session = self._session
        session.ask = functools.partial(_ask, face)
        while not session.quitting and session.full_screen == face.full:
            try:
                text = self._give() or await face.read()
            except KeyboardInterrupt:
                session.macros.collecting = None
                continue
            except EOFError:
                # It also ends a list of commands.
                text = "quit" if session.macros.collecting is None else "end"
            with face.running():
                done = await self.execute(text.strip())
            if not done:
                self._given.clear()
            await face.after()

    def _give(self) -> str:
        if not self._given:
            return ""
        self._session.screen.echo(f"{self._session.macros.prompt}{self._given[0]}")
        return self._given.popleft()

    async def execute(self, text: str) -> bool:
        """Runs a command; False when it failed, after showing the error."""
        try:
            self._session.interrupted = False
            self._session.at_fault = False
            if text:
                self._session.typed.append(text)
                repeat, self._repeat = self._repeat, None
                done = await dispatch.run(self._session, text)
                if done is None:
                    self._repeat = repeat
                elif done[0].repeats:
                    self._repeat = done
            elif self._repeat is not None and self._session.macros.collecting is None:
                await dispatch.do(self._session, *self._repeat)
        except DebuggerError as error:
            self._session.screen.error(str(error))
            self.failed = True
            return False
        return True

    async def _echoed(self, text: str) -> bool:
        if text.startswith("#"):
            return True
        self._session.screen.echo(f"{self._session.macros.prompt}{text}".rstrip())
        return await self.execute(text)

    def _check_ended(self) -> None:
        try:
            self._session.macros.check_ended()
        except DebuggerError as error:
            self._session.screen.error(str(error))
            self.failed = True

    @contextlib.contextmanager
    def _ctrl_c(self) -> Iterator[None]:
        """Ctrl-C pauses the script when a command waits for it; it ends a batch."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        pausing: set[asyncio.Task[None]] = set()

        def interrupt() -> None:
            if self._session.batch and task is not None:
                task.cancel()
            else:
                pausing.add(asyncio.create_task(self._session.interrupt()))

        loop.add_signal_handler(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)


async def _ask(face: Face, question: str) -> str:
    try:
        answer = await face.ask(question)
    except KeyboardInterrupt:
        return ""
    except EOFError:
        # A lost terminal gives no other answer.
        return "" if sys.stdin.isatty() else "terminate"
    return answer.strip().lower()
