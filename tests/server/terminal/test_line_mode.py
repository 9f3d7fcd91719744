"""The line mode at a real terminal: completion, history, pages, colours, widths."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.terminal import terminal

STOPPED = r"stopped at op #2 add_0 .*breakpoint 1"

# A new prompt below all others.
EMPTY = r"^\(opstep\)\s*\Z"


def test_tab_completes_commands_ops_files_and_lines(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.type("tbr\t")
        t.shows(r"^\(opstep\) tbreak$")
        t.type(" scripted_tr\t")
        t.shows(r"^\(opstep\) tbreak scripted_train\.py:$")
        t.press("C-C")
        t.shows(EMPTY)
        t.type("tbreak add\rrun\r")
        t.shows(r"breakpoint 1$")
        t.shows(EMPTY)
        # Now the program is known. What the word may become is told with what it is.
        t.type("break \t")
        t.shows(r"^ +add_0 +add$")
        t.shows(r"^ +matmul +all ops of the type$")
        t.press("C-C")
        t.shows(EMPTY)
        t.type("break scripted_train.py:\t")
        t.shows(r"^ +\d+ +Z = 3  # @log$")
        t.press("C-C")
        t.shows(EMPTY)
        t.type("pri\t")
        t.shows(r"^\(opstep\) print$")
        t.type(" fc_0\t")
        t.shows(r"^\(opstep\) print fc_0\.matmul\.out$")
        t.press("Enter")
        t.shows(r"^fc_0\.matmul\.out = 0\.25$")


def test_the_chosen_word_is_taken_before_the_command_runs(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.type("help c\t")
        t.shows(r"^ +catch +\w")
        t.type("\t")
        word = t.shows(r"^\(opstep\) help (c\w+)$")[1]
        # The first Enter takes the word: more can be typed. The second runs the command.
        t.press("Enter")
        t.type(" x")
        t.shows(rf"^\(opstep\) help {word} x$")
        t.type("\x7f\x7f\r")
        t.shows(rf"(?s)^\(opstep\) help {word}\n{word} .*^\(opstep\)\s*\Z")


def test_history_is_there_in_the_next_session(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.type("break first_name\r")
        t.shows(r"^breakpoint 1")
        t.type("info breakpoints\r" * 2)
        t.type("quit\r")
        assert t.wait() == 0
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.press("C-R")
        t.type("first")
        t.shows(r"break first_name")
        t.press("Enter")
        t.shows(r"^breakpoint 1 at first_name")
        t.shows(EMPTY)
        # What was typed before is suggested, and taken with End.
        t.type("inf")
        t.shows(r"^\(opstep\) info breakpoints$")
        assert t.style("o breakpoints").fg != "default"
        t.type("\x05\r")
        t.shows(r"^1 +break +yes +0 +first_name")
        t.type("history\r")
        t.shows(
            r"^ +1  break first_name\n +2  info breakpoints\n +3  quit\n +4  break first_name\n"
        )
        t.shows(EMPTY)
        t.press("Up", "Up")
        t.shows(r"^\(opstep\) info breakpoints$")
    assert (tmp_path / "opstep").stat().st_mode & 0o077 == 0


def test_long_output_is_shown_in_pages(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path), size=(100, 10)) as t:
        t.shows(r"^\(opstep\)")
        t.type("help\r")
        first = t.shows(r"^-- (\d+) more lines: Space, Enter, q --$")
        t.press("Enter")
        t.shows(rf"^-- {int(first[1]) - 1} more lines")
        t.type(" ")
        t.shows(rf"^-- {int(first[1]) - 10} more lines")
        # Ctrl-C leaves the pages, and the debugger is as it was.
        t.press("C-C")
        t.hides(r"more lines")
        t.type("catch nan\r")
        t.shows(r"^catching nan, error$")
        t.type("help\r")
        t.shows(r"more lines")
        t.type("G")
        t.expect(r"is about what can be computed\.")
        t.type("set pagination off\r")
        t.expect(r"\(opstep\) \Z|\(opstep\)")
        t.type("help\r")
        t.expect(r"is about what can be computed\.")


def test_a_running_script_is_not_shown_in_pages(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path), size=(100, 8)) as t:
        t.shows(r"^\(opstep\)")
        t.type("tbreak add\rrun\r")
        t.shows(r"breakpoint 1$")
        t.type("stepi 9\r")
        t.expect(r"run 2(?s:.*)the script ended")


def test_colours_say_what_kind_of_stop_it_is(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.type("catch nan\rtbreak add\rrun\r")
        t.shows(STOPPED)
        assert t.style("stopped").fg == "brown"  # A terminal's yellow.
        t.type("stepi\r")
        t.shows(r"run 1: step$")
        assert t.style("stopped at op #2 add_0 (add) → add_0.out float32[?, 2], ").bold
        t.type("continue\r")
        t.shows(r"stopped after .* NaN: ")
        assert t.style("stopped after").fg == "red"
        t.type("list source\r")
        t.shows(r"^=> +\d+  Z = 3  # @log$")
        assert t.style("# @log").fg == "brightblack"
        assert t.style("=>").fg == "brown"


@pytest.mark.parametrize(
    "env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=lambda env: next(iter(env))
)
def test_without_colour(tmp_path: Path, env: dict[str, str]):
    with terminal(XDG_STATE_HOME=str(tmp_path), **env) as t:
        t.expect(r"\(opstep\)")
        t.type("tbreak add\rrun\r")
        t.expect(r"stopped at op #2 add_0")
        t.type("list\r")
        t.expect(r"listing of main")
        t.expect(r"log_0")
        codes = {
            code for found in re.findall(r"\x1b\[([\d;]*)m", t.raw) for code in found.split(";")
        }
        assert codes <= {"", "0", "1", "7"}  # Bold and reverse are no colours.


def test_lines_follow_the_width_of_the_terminal(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path), size=(120, 24)) as t:
        t.shows(r"^\(opstep\)")
        t.type("tbreak add\rrun\r")
        t.shows(r"^stopped at op #2 add_0 .*run 1: breakpoint 1$")
        t.resize(50, 24)
        t.type("stepi\r")
        t.shows(r"^stopped at op #2 add_0 [^\n]*\n    [^\n]*\n?[^\n]*run 1: step$")
        t.resize(120, 24)
        t.type("stepi\r")
        t.shows(r"^stopped at op #3 log_0 .*run 1: step$")


def test_what_is_typed_while_a_command_runs_waits_for_the_prompt(tmp_path: Path):
    go = tmp_path / "go"
    with terminal(XDG_STATE_HOME=str(tmp_path), SCRIPT_WAITS_FOR=str(go)) as t:
        t.shows(r"^\(opstep\)")
        t.type("run\r")
        t.shows(r"^waiting$")
        t.type("print 1 +")
        go.touch()
        t.shows(r"^the script ended with exit code 0\n\(opstep\) print 1 \+$")


def test_what_the_script_prints_does_not_tear_the_prompt(tmp_path: Path):
    go = tmp_path / "go"
    with terminal(XDG_STATE_HOME=str(tmp_path), SCRIPT_WAITS_FOR=str(go)) as t:
        t.shows(r"^\(opstep\)")
        t.type("run\r")
        t.shows(r"^waiting$")
        t.press("C-C")
        t.shows(r"pausing")
        t.press("C-C")
        t.shows(r"still running")
        t.type("print 1 +")
        t.shows(r"^\(opstep\) print 1 \+$")
        go.touch()
        t.shows(r"(?s)run 1\nstopped at op #1 .*: pause\n.*^\(opstep\) print 1 \+$")


def test_nothing_deletes_all_without_a_question(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.type("break add\rbreak log\r")
        t.shows(r"^breakpoint 2")
        t.type("d\r")
        t.shows(r"^error: the script is not running")
        for command in ("delete", "clear", "cl"):
            t.type(f"{command}\r")
            t.shows(r"^delete 2 breakpoints\? \[y/N\]\s*\Z")
            t.type("\r")
            t.shows(EMPTY)
        t.type("info breakpoints\r")
        t.shows(r"^2 +break +yes")
        t.type("delete\r")
        t.shows(r"^delete 2 breakpoints\? \[y/N\]\s*\Z")
        t.type("y\r")
        t.shows(r"^2 breakpoints deleted$")
        t.type("break add\rdelete all\r")
        t.shows(r"^1 breakpoint deleted$")


def test_lines_of_commands_have_their_own_prompt(tmp_path: Path):
    with terminal(XDG_STATE_HOME=str(tmp_path)) as t:
        t.shows(r"^\(opstep\)")
        t.type("break add\rcommands\r")
        t.shows(r"^>\s*\Z")
        t.type("shell echo from $((40 + 2))\r")
        t.shows(r"^>\s*\Z")
        t.type("end\r")
        t.shows(EMPTY)
        t.type("run\r")
        t.shows(r"^from 42\n\(opstep\)\s*\Z")
        t.type("commands 1\rprint x\r")
        # Ctrl-C is the prompt's only once the prompt is there.
        t.shows(r"^>\s*print x\n>\s*\Z")
        t.press("C-C")
        t.shows(EMPTY)
        t.type("info breakpoints\r")
        t.shows(r"^breakpoint 1 runs: shell echo")
