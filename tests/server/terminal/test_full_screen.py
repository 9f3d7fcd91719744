"""The full screen at a real terminal: panes, keys, resizing, and how it is left."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.debug_command import ADD, LOG, MATMUL, opstep
from harness.patience import SECONDS
from harness.terminal import Terminal, terminal
from opstep_server.script_process import alive

ENTER, LEAVE, CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"


@contextlib.contextmanager
def full(tmp_path: Path, *args: str, size: tuple[int, int] = (80, 24)) -> Iterator[Terminal]:
    with terminal(*args, options=("--tui",), size=size, XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)$")
        yield t


def left(t: Terminal) -> bool:
    """The terminal is as it was: its own screen, the cursor visible, in this order."""
    end = t.raw.rfind(LEAVE)
    return t.raw.rfind(ENTER) < end and "\x1b[?25l" not in t.raw[t.raw.rfind(CURSOR) :] and end > 0


def current(t: Terminal) -> list[str]:
    """The rows with the mark, of the source and of the listing."""
    return [row for row in t.text.splitlines() if "▶" in row]


def stop_at_add(t: Terminal) -> None:
    t.type("tbreak add\r")
    t.shows(r"temporary breakpoint 1")
    t.press("F5")
    t.shows(r"▶2  add_0")


def test_the_panes_show_where_we_are(tmp_path: Path):
    with full(tmp_path) as t:
        t.shows(r"^─ source: scripted_train\.py ─+$")
        t.shows(r"^no program yet$")
        t.shows(r"^ not running: F5 starts it$")
        stop_at_add(t)
        t.shows(r"^  X = x  0\.25$")
        assert [row.split("▶")[1].strip() for row in current(t)] == [
            f"{ADD}  Y = 2  # @add",
            "2  add_0",
        ]
        assert t.style(f"▶ {ADD}").reverse
        t.shows(r"^─ listing: main ─+$")
        t.shows(
            r"^ stopped │ thread 1 MainThread │ main │ run 1 │ while_0 iteration 0 │ breakpoint"
        )
        # What the script printed, what was typed and what was answered are in the console.
        t.shows(r"^run 1$")
        t.shows(r"^\(opstep\) run$")
        t.type("print x\r")
        t.shows(r"^x = 0\.25$")
        t.shows(r"^ F5 continue  F10 next")


def test_keys_step_and_go_on(tmp_path: Path):
    with full(tmp_path, "--endless") as t:
        stop_at_add(t)
        t.press("F8")
        t.shows(r"│ while_0 iteration 1 │ step$")
        t.press("F10")
        t.shows(rf"▶ *{LOG}  Z = 3")
        t.press("F11")
        t.shows(rf"▶ *{MATMUL}  X = 1")
        t.press("S-F11")
        t.shows(r"^\(opstep\) finish$")
        t.shows(r"▶2  add_0")
        # An empty line repeats a step, and a key is such a step too.
        t.press("F7")
        t.shows(r"while_0 iteration 1 │ step")
        t.press("Enter")
        t.shows(r"▶3  log_0")
        t.press("F5")
        t.shows(r"^ running: Ctrl-C pauses")
        t.press("C-C")
        t.shows(r"│ pause$")
        t.type("quit\r")
        t.shows(r"or \[S\]tay\?")
        t.press("C-C")
        t.hides(r"tay\? *$")
        t.press("C-D")
        t.shows(r"or \[S\]tay\?")
        t.type("t\r")
        assert t.wait() == 0
        assert left(t)


def test_f9_sets_and_removes_a_breakpoint(tmp_path: Path):
    with full(tmp_path) as t:
        stop_at_add(t)
        t.press("C-Down", "F9")
        t.shows(rf"^● +{LOG}  Z = 3")
        t.shows(r"^●.3  log_0")
        t.shows(rf"^breakpoint 2 at scripted_train\.py:{LOG}: 1 op")
        t.press("F5")
        t.shows(rf"^●▶ *{LOG}  Z = 3")
        t.press("F9")
        t.hides("●")
        # In the listing, when that is the pane that keys are for.
        t.press("F6", "F6", "F9")
        t.shows(r"^●▶3  log_0")
        t.shows(r"^breakpoint 3 at listing:main:3")


def test_the_console_completes_suggests_and_scrolls(tmp_path: Path):
    with full(tmp_path) as t:
        t.type("tbre\t")
        t.shows(r"^\(opstep\) tbreak$")
        t.type(" add\r")
        t.type("run\r")
        t.shows(r"▶2  add_0")
        t.type("print fc\t")
        t.shows(r"^\(opstep\) print fc_0\.matmul\.out$")
        t.press("Enter")
        t.shows(r"^fc_0\.matmul\.out = 0\.25$")
        t.type("help\r")
        t.shows(r"is about what can be computed\.$")
        t.press("PgUp")
        t.shows(r"^─ console: ▼ \d+ more ─")
        t.hides(r"is about what can be computed\.$")
        t.press("PgDn")
        t.shows(r"is about what can be computed\.$")
        t.press("Up", "Up")
        t.shows(r"^\(opstep\) print fc_0\.matmul\.out$")
        t.press("C-C")
        t.shows(r"^\(opstep\)$")
        t.press("C-R")
        t.shows(r"^I-search backward:")
        t.type("tbr")
        t.shows(r"^\(opstep\) tbreak add$")
        t.press("Enter")
        t.shows(r"^temporary breakpoint 2 at add")


def test_it_follows_the_size_of_the_terminal(tmp_path: Path):
    with full(tmp_path) as t:
        stop_at_add(t)
        t.resize(160, 40)
        # Tensors stand beside the code now.
        t.shows(r"^─ source: scripted_train\.py ─+│─ tensors ─+$")
        t.shows(r"▶2  add_0 +│")
        t.resize(60, 12)
        t.hides(r"tensors")
        t.shows(rf"▶ *{ADD}  Y = 2")
        t.resize(20, 5)
        t.shows(r"^\(opstep\)")
        t.resize(80, 24)
        t.shows(r"^  X = x  0\.25$")
        t.press("F8")
        t.shows(r"│ while_0 iteration 1 │ step$")


def test_it_comes_and_goes_while_the_script_runs(tmp_path: Path):
    with terminal("--endless", XDG_STATE_HOME=str(tmp_path), size=(80, 24)) as t:
        t.shows(r"^\(opstep\)$")
        t.type("tbreak add\rrun\r")
        t.shows(r"breakpoint 1$")
        t.type("layout\r")
        t.shows(r"▶2  add_0")
        # The console begins with what was said before.
        t.shows(r"(?s)^stopped at op #2 add_0.*^\(opstep\) layout\n")
        t.type("layout source\r")
        t.hides(r"tensors")
        t.type("layout fish\r")
        t.shows(r"^error: 'fish' is not a pane")
        t.press("F5")
        t.shows(r"^run 5$")
        t.press("C-C")
        run = int(t.shows(r"run (\d+) │.* pause$")[1])
        t.press("C-X A")
        t.receives(LEAVE)
        t.shows(r"^\(opstep\)$")
        t.type("stepi 4\r")
        t.expect(rf"run {run + 1}\r(?s:.*)run {run + 1}: step")
        t.shows(r"^\(opstep\)\s*\Z")
        t.press("C-X A")
        t.shows(r"▶\d  \w+")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_debugger_gives_the_terminal_back(tmp_path: Path, number: signal.Signals):
    with full(tmp_path) as t:
        stop_at_add(t)
        t.process.send_signal(number)
        assert t.wait() == 128 + number
        assert left(t)


def test_the_script_may_be_killed(tmp_path: Path):
    with full(tmp_path) as t:
        stop_at_add(t)
        t.type("info threads\r")
        pid = int(t.shows(r"process (\d+): stopped")[1])
        os.kill(pid, signal.SIGKILL)
        t.shows(r"^the script ended by signal 9")
        t.shows(r"^ not running: F5 starts it$")
        assert not [row for row in current(t) if t.style(row.strip()).reverse]
        t.press("F5")
        t.shows(r"^the script ended with exit code 0$")
        t.type("quit\r")
        assert t.wait() == 0
        assert left(t)


def test_what_the_script_writes_does_not_break_the_screen(tmp_path: Path):
    script = tmp_path / "writes.py"
    script.write_text(
        "import sys\n"
        "print('\\x1b[2J\\x1b[31mred\\x1b[0m \\x1b]0;title\\x07\\x07text')\n"
        "for i in range(101): sys.stderr.write(f'\\rprogress {i}%')\n"
        "print('\\n' + 'x' * 200)\n"
        "print('last', end='', flush=True)\n"
    )
    with terminal(
        script=str(script), options=("--tui",), size=(80, 50), XDG_STATE_HOME=str(tmp_path)
    ) as t:
        t.shows(r"^\(opstep\)$")
        t.press("F5")
        t.shows(r"^the script ended with exit code 0")
        t.shows(r"^last$")
        rows = t.text.splitlines()
        at = rows.index("(opstep) run")
        assert rows[at + 1 : at + 3] == ["red text", "progress 100%"]
        assert re.fullmatch("x+", rows[at + 3])
        assert rows[0].startswith("─ source: ")


def test_a_terminal_that_only_writes_lines_is_told(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path), TERM="dumb") as t:
        t.expect(r"\(opstep\)")
        t.type("layout\r")
        t.expect(r"error: the full screen needs a terminal with a cursor: TERM is 'dumb'")
    with terminal(options=("--tui",), XDG_STATE_HOME=str(tmp_path), TERM="dumb") as t:
        t.expect(r"opstep: the full screen needs a terminal with a cursor: TERM is 'dumb'")
        assert t.wait() == 2
    result = opstep("debug", "--tui", "scripted_train.py")
    assert (result.stderr, result.returncode) == (
        "opstep: --tui needs a terminal, and no --batch\n",
        2,
    )


def test_without_colour_the_current_line_still_stands_out(tmp_path: Path):
    with terminal(
        options=("--tui",), size=(80, 24), XDG_STATE_HOME=str(tmp_path), NO_COLOR="1"
    ) as t:
        t.shows(r"^\(opstep\)$")
        stop_at_add(t)
        assert t.style(f"▶ {ADD}").reverse
        colours = {char.fg for row in t.screen.buffer.values() for char in row.values()}
        assert colours == {"default"}


def test_ctrl_c_pauses_what_runs_although_nobody_waits(tmp_path: Path):
    go = tmp_path / "go"
    with terminal(
        options=("--tui",), size=(80, 24), XDG_STATE_HOME=str(tmp_path), SCRIPT_WAITS_FOR=str(go)
    ) as t:
        t.shows(r"^\(opstep\)$")
        t.press("F5")
        t.shows(r"^waiting$")
        t.press("C-C")
        t.shows(r"^pausing: ")
        t.press("C-C")
        t.shows(r"^still running")
        t.press("C-C")
        t.shows(r"^\(opstep\) pause$")
        go.touch()
        t.shows(r"│ pause$")


def test_the_full_screen_can_be_put_aside(tmp_path: Path):
    with full(tmp_path) as t:
        stop_at_add(t)
        t.type("\x1a")
        t.receives(LEAVE)
        os.killpg(t.process.pid, signal.SIGCONT)
        t.receives(ENTER, times=2)
        t.press("F8")
        t.shows(r"│ while_0 iteration 1 │ step$")


def test_a_terminal_that_vanishes_ends_the_session(tmp_path: Path):
    with full(tmp_path) as t:
        stop_at_add(t)
        t.type("info threads\r")
        pid = int(t.shows(r"process (\d+): stopped")[1])
        t.hang_up()
        t.process.wait(SECONDS)
        assert not alive(pid)
