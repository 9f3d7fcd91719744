"""The live table of a tap log: reads keys, draws, and follows the files.

One task is the application's. Another reads the log in portions so small that no key waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable

from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    DynamicContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.processors import BeforeInput

from opstep_server.cli.app import exit_codes
from opstep_server.cli.full_screen.application import STYLE
from opstep_server.cli.log.live.detail_pane import DetailPane
from opstep_server.cli.log.live.table_pane import TablePane
from opstep_server.cli.log.live.text_plots import marks
from opstep_server.cli.log.log_table import told
from opstep_server.taps.log_files import row_choice
from opstep_server.taps.log_files.tap_log import TapLog
from opstep_server.taps.records import STATISTICS

# How long reading may delay a key, and the time between looks for new records.
_PORTION = 0.03
_LOOK = 0.2
# Before the first drawing.
_FIRST = 0.1


class LiveTable:
    def __init__(self, log: TapLog, words: str, order: str, statistic: str) -> None:
        self._log = log
        self._order = order
        self._marks = marks()
        self._table = TablePane(self._marks)
        self._detail = DetailPane(self._marks)
        self._table.statistic = self._detail.statistic = statistic
        self._opened = False
        self._filtering = False
        # The filter before the user types a new one.
        self._before = words
        self._said = ""
        self._buffer = Buffer(multiline=False, on_text_changed=lambda _: self._refresh())
        self._buffer.text = words
        self._line = Window(
            BufferControl(self._buffer, [BeforeInput([("class:prompt", "filter: ")])]), height=1
        )
        self._rest = Window(FormattedTextControl(self._keys_shown), height=1, style="class:keys")
        self._app: Application[int] = Application(
            Layout(self._layout(), focused_element=self._rest),
            style=STYLE,
            key_bindings=self._bindings(),
            full_screen=True,
            enable_page_navigation_bindings=False,
        )
        # A lone Escape need not wait long for the rest of a key.
        self._app.ttimeoutlen = 0.05

    async def run(self) -> int:
        self._log.read(_FIRST)
        self._refresh()
        reading = asyncio.create_task(self._read())
        reading.add_done_callback(self._reading_ended)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                loop.add_signal_handler(number, self._end, exit_codes.by_signal(number))
        try:
            return await self._app.run_async()
        except (EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EIO:
                raise
            # The terminal is gone; Python would complain at its end that it cannot write to it.
            os._exit(exit_codes.by_signal(signal.SIGHUP))
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def _read(self) -> None:
        drawn, changed = 0.0, False
        while True:
            changed = self._log.read(_PORTION) or changed
            now = time.monotonic()
            if changed and now - drawn >= _LOOK:
                self._refresh()
                drawn, changed = now, False
            # Waits long when everything was read; otherwise only for keys.
            await asyncio.sleep(_LOOK if self._log.done and not changed else 0.001)

    def _reading_ended(self, task: asyncio.Task[None]) -> None:
        """Ends the application with the error of the reading task, which nobody else sees."""
        if not task.cancelled() and (error := task.exception()) and self._app.is_running:
            self._app.exit(exception=error)

    def _refresh(self) -> None:
        rows = row_choice.chosen(self._log.rows.values(), self._buffer.text)
        self._table.show(row_choice.ordered(rows, self._order, self._table.statistic))
        self._detail.row = self._table.chosen
        if not self._log.rows:
            self._table.empty = "no records yet"
        else:
            self._table.empty = f"no source has {self._buffer.text!r}: / changes the filter"
        self._shown = len(rows)
        with contextlib.suppress(AttributeError):
            self._app.invalidate()

    # ---- keys ------------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        filtering = Condition(lambda: self._filtering)

        def bind(action: Callable[[], None], *names: str, typed: bool = False) -> None:
            def pressed(event: KeyPressEvent) -> None:
                self._said = ""
                action()

            for name in names:
                keys.add(name, filter=filtering if typed else ~filtering)(pressed)

        bind(lambda: self._move(-1), "up", "k", "c-p", "c-up")
        bind(lambda: self._move(1), "down", "j", "c-n", "c-down")
        bind(lambda: self._page(-1), "pageup")
        bind(lambda: self._page(1), "pagedown", " ")
        bind(lambda: self._move(-len(self._log.rows)), "home", "g")
        bind(lambda: self._move(len(self._log.rows)), "end", "G")
        bind(lambda: self._open(not self._opened), "enter")
        bind(lambda: self._open(False), "escape", "backspace")
        bind(lambda: self._statistic(1), "s", "right")
        bind(lambda: self._statistic(-1), "S", "left")
        bind(lambda: self._reorder(1), "o")
        bind(lambda: self._reorder(-1), "O")
        bind(self._filter, "/")
        bind(lambda: self._end(0), "q", "c-c", "c-d")
        bind(lambda: self._filtered(True), "enter", typed=True)
        bind(lambda: self._filtered(False), "escape", "c-c", typed=True)
        bind(lambda: self._app.suspend_to_background(), "c-z")
        bind(lambda: self._app.renderer.clear(), "c-l")

        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self._end(0)

        @keys.add(Keys.Any, filter=~filtering)
        def _(event: KeyPressEvent) -> None:
            key = event.key_sequence[0].key
            name = key.value if isinstance(key, Keys) else key
            self._said = f"{name} is not a key here: see those below"

        return keys

    def _move(self, rows: int) -> None:
        self._table.scroll(rows)
        self._detail.row = self._table.chosen

    def _page(self, pages: int) -> None:
        if self._opened:
            self._detail.scroll(pages * max(self._detail.height - 1, 1))
        else:
            self._move(pages * max(self._table.height - 2, 1))

    def _open(self, opened: bool) -> None:
        self._opened = opened and self._table.chosen is not None

    def _statistic(self, by: int) -> None:
        at = STATISTICS.index(self._table.statistic) + by
        self._table.statistic = self._detail.statistic = STATISTICS[at % len(STATISTICS)]
        self._refresh()

    def _reorder(self, by: int) -> None:
        self._order = row_choice.ORDERS[
            (row_choice.ORDERS.index(self._order) + by) % len(row_choice.ORDERS)
        ]
        self._refresh()

    def _filter(self) -> None:
        self._opened = False
        self._filtering = True
        self._before = self._buffer.text
        self._buffer.cursor_position = len(self._before)
        self._app.layout.focus(self._line)

    def _filtered(self, kept: bool) -> None:
        self._filtering = False
        if not kept:
            self._buffer.text = self._before
        self._app.layout.focus(self._rest)

    def _end(self, code: int) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit(result=code)

    # ---- text ------------------------------------------------------------------------------------

    def _layout(self) -> HSplit:
        title = Window(
            FormattedTextControl(self._title), height=1, char=self._marks.line, style="class:line"
        )
        pane = DynamicContainer(lambda: self._detail if self._opened else self._table)
        typing = ConditionalContainer(self._line, Condition(lambda: self._filtering))
        status = Window(FormattedTextControl(self._status), height=1, style="class:status")
        return HSplit([title, pane, typing, status, self._rest])

    def _title(self) -> StyleAndTextTuples:
        log = self._log
        words = f" {log.directory}: {len(log.rows):,} sources, {log.records:,} records "
        return [("", self._marks.line), ("class:title", words)]

    def _status(self) -> StyleAndTextTuples:
        table, words = self._table, self._buffer.text
        parts = [table.statistic, f"by {table.statistic if self._by_statistic else self._order}"]
        if words:
            parts.append(f"filter {words!r}: {self._shown:,} of {len(self._log.rows):,}")
        if not self._log.done:
            parts.append(f"read {self._log.part_read:.0%}")
        parts += told(self._log)
        if self._said:
            parts.insert(0, self._said)
        return [("", " " + f" {self._marks.side} ".join(parts))]

    @property
    def _by_statistic(self) -> bool:
        return self._order == "statistic"

    def _keys_shown(self) -> StyleAndTextTuples:
        """As many keys as fit."""
        room = get_app().output.get_size().columns
        text: StyleAndTextTuples = []
        for key, what in (
            (self._marks.arrows, "move"), ("Enter", "table" if self._opened else "source"),
            ("/", "filter"), ("s", "statistic"), ("o", "order"), ("q", "quit"),
            ("PgUp/Dn", "pages"),
        ):  # fmt: skip
            room -= len(key) + len(what) + 3
            if room < 0:
                break
            text += [("class:key", f" {key} "), ("", f"{what} ")]
        return text
