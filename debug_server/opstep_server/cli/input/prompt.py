"""The line mode: a prompt below earlier output, with completion and history."""

from __future__ import annotations

import asyncio
import contextlib
import os
import termios
from collections.abc import Iterator

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import completion_is_selected, is_searching
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.search import accept_search

from opstep_server.cli.input.completion import CommandCompleter
from opstep_server.cli.output.screen import TerminalSink
from opstep_server.cli.sessions.terminal_session import TerminalSession

# A history of more commands is cut to the newest half.
_HISTORY = 10_000

_LEAVE = ("q", "Q", Keys.ControlC, Keys.ControlD, Keys.Escape)
_PAGE = (" ", "f", Keys.PageDown, Keys.ControlF, Keys.ControlV)
_ROW = (Keys.Enter, Keys.ControlJ, "j", Keys.Down)
_REST = ("G", "a", Keys.End)


class History(FileHistory):
    """A history without repetitions of the same command."""

    def __init__(self) -> None:
        super().__init__(_history_file())
        self._last = ""

    def append_string(self, string: str) -> None:
        if string.strip() and string != self._last:
            self._last = string
            super().append_string(string)

    def store_string(self, string: str) -> None:
        with contextlib.suppress(OSError):  # A full disk costs the history, not the session.
            super().store_string(string)


class Prompt:
    full = False

    def __init__(self, session: TerminalSession, history: History) -> None:
        self._session = session
        there = session.screen.sink
        self._sink = there if isinstance(there, TerminalSink) else TerminalSink()
        session.screen.sink = self._sink
        self._prompt: PromptSession[str] = PromptSession(
            history=history,
            completer=CommandCompleter(session),
            # The menu comes only with Tab: at every step it would disturb.
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=True,
            enable_suspend=True,
            key_bindings=_keys(),
        )
        self._typing = contextlib.ExitStack()

    async def __aenter__(self) -> Prompt:
        # Not only around commands: a key may come between a command and the prompt after it.
        self._typing.enter_context(_without_echo())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._typing.close()

    async def read(self) -> str:
        """Reads a command; KeyboardInterrupt for Ctrl-C, EOFError for Ctrl-D."""
        # Only around the prompt: it delays output, but the script writes at once. The shell keeps
        # its handler of SIGINT, which a prompt would replace.
        with patch_stdout(raw=True):
            self._sink.prompting = True
            try:
                prompt = self._session.macros.prompt
                text = await self._prompt.prompt_async(prompt, handle_sigint=False)
            finally:
                self._sink.prompting = False
        self._sink.said.append([("bold", f"{prompt}{text}")])
        return text

    async def ask(self, question: str) -> str:
        ask: PromptSession[str] = PromptSession()
        return await ask.prompt_async(question, handle_sigint=False)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """A context around a command."""
        if self._session.screen.paging:
            self._sink.begin_pages()
        try:
            yield
        finally:
            self._sink.end_pages()

    async def after(self) -> None:
        """Shows the rest of long output, a page at a time."""
        rows, self._sink.waiting = self._sink.waiting, []
        if rows:
            await _page(rows, self._sink)


@contextlib.contextmanager
def _without_echo() -> Iterator[None]:
    """Keeps characters that are typed without a prompt; the next prompt shows them."""
    try:
        before = termios.tcgetattr(0)
        silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
        termios.tcsetattr(0, termios.TCSANOW, silent)
    except termios.error:
        yield  # The terminal is gone.
        return
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):
            termios.tcsetattr(0, termios.TCSANOW, before)


def editing_keys() -> KeyBindings:
    """Enter while a word or an older command is chosen, in both modes."""
    keys = KeyBindings()

    @keys.add("enter", filter=completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        # Accepts the word; the next Enter runs the command.
        event.current_buffer.complete_state = None

    @keys.add("enter", filter=is_searching)
    def _(event: KeyPressEvent) -> None:
        # Runs the found command, as shells do.
        accept_search()
        event.current_buffer.validate_and_handle()

    return keys


def _keys() -> KeyBindings:
    keys = editing_keys()

    @keys.add("c-x", "a")
    @keys.add("c-x", "c-a")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result="layout")

    return keys


async def _page(rows: list[list[tuple[str, str]]], sink: TerminalSink) -> None:
    typed: asyncio.Queue[str] = asyncio.Queue()
    keyboard = create_input()

    def read() -> None:
        for press in keyboard.read_keys():
            typed.put_nowait(press.key)
        # A lone Escape may begin a longer key: take it as it is.
        for press in keyboard.flush_keys():
            typed.put_nowait(press.key)

    shown = 0
    with keyboard.raw_mode(), keyboard.attach(read):
        while shown < len(rows):
            left = len(rows) - shown
            with _question(f"-- {left} more line{'s' if left > 1 else ''}: Space, Enter, q --"):
                key = await typed.get()
                while key not in (*_LEAVE, *_PAGE, *_ROW, *_REST):
                    key = await typed.get()
            if key in _LEAVE:
                return
            count = sink.page if key in _PAGE else 1 if key in _ROW else left
            for row in rows[shown : shown + count]:
                sink.show(row)
            shown += count


@contextlib.contextmanager
def _question(text: str) -> Iterator[None]:
    """Shows the question below the page until it is answered."""
    print(f"\x1b[7m{text}\x1b[0m", end="", flush=True)
    try:
        yield
    finally:
        print("\r\x1b[K", end="", flush=True)


def _history_file() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    file = os.path.join(state, "opstep", "history")
    try:
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        _shorten(file)
    except OSError:
        return os.devnull
    return file


def _shorten(file: str) -> None:
    """Shortens the file, in which a command takes three lines: date, command, blank."""
    if not os.path.exists(file):
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    with open(file, "rb") as opened:
        lines = opened.readlines()
    if len(lines) > 3 * _HISTORY:
        with open(file, "wb") as opened:
            opened.writelines(lines[-(len(lines) // 6 * 3) :])
