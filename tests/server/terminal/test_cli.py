"""`opstep debug` as a process, on a script that speaks as an executor would."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.debug_command import ADD, LINES, LOG, MATMUL, SCRIPT, batch, opstep
from opstep_server.cli.app import exit_codes


def test_a_session_reads_like_this():
    lines, code = batch(
        "break fc_0* if norm(out) > 100", "catch nan", "run", "print out.mean(), x[0, :4]",
        "nexti", "where", "continue", "continue",
    )  # fmt: skip
    assert lines == [
        "(opstep) break fc_0* if norm(out) > 100",
        "breakpoint 1 at fc_0* if norm(out) > 100: pending: no op matches 'fc_0*' yet",
        "(opstep) catch nan",
        "catching nan, error",
        "(opstep) run",
        "run 1",
        "stopped at op #1 fc_0.matmul (matmul) → fc_0.matmul.out float32[?, 2], "
        f"{SCRIPT}:{MATMUL}, run 1: breakpoint 1",
        f"{MATMUL}    X = 1  # @matmul",
        "(opstep) print out.mean(), x[0, :4]",
        "out.mean() = 0.25",
        "x[0, :4] = 0.25",
        "(opstep) nexti",
        "stopped at op #2 add_0 (add) → add_0.out float32[?, 2], "
        f"{SCRIPT}:{ADD}, while_0 iteration 0, run 1: step",
        f"{ADD}    Y = 2  # @add",
        "(opstep) where",
        f"* 0  op #2 add_0 (add), {SCRIPT}:{ADD}",
        "  1  block of #9 while_0, iteration 0",
        "  2  run 1 of main",
        f"  3  python train, {SCRIPT}:1",
        "(opstep) continue",
        "run 2",
        "stopped at op #1 fc_0.matmul (matmul) → fc_0.matmul.out float32[?, 2], "
        f"{SCRIPT}:{MATMUL}, run 2: breakpoint 1",
        f"{MATMUL}    X = 1  # @matmul",
        "(opstep) continue",
        "stopped after op #3 log_0 (log) → log_0.out float32[?, 2], "
        f"{SCRIPT}:{LOG}, run 2: NaN: [log] made 3 NaN in log_0.out, first at [1, 7]",
        f"{LOG}    Z = 3  # @log",
        "  X = x  0.25",
    ]
    assert code == 1


def test_the_ways_to_name_a_place():
    lines, code = batch(
        "b add", f"b {SCRIPT}:{MATMUL}", f"b {LOG}", "run", "b listing:3", "b listing:main:2",
        "b #1", "tbreak log grad", "info breakpoints",
    )  # fmt: skip
    shown = lines[lines.index("(opstep) info breakpoints") + 1 :]
    below = " " * 28
    assert shown == [
        "num  kind        on   hits  where",
        "1    break       yes  0     add",
        f"{below}1 op, first #2 add_0 (add), {SCRIPT}:{ADD}",
        f"2    break       yes  1     {SCRIPT}:{MATMUL}",
        f"{below}1 op, first #1 fc_0.matmul (matmul), {SCRIPT}:{MATMUL}",
        f"3    break       yes  0     {SCRIPT}:{LOG}",
        f"{below}1 op, first #3 log_0 (log), {SCRIPT}:{LOG}",
        "4    break       yes  0     listing:main:3",
        f"{below}1 op, first #3 log_0 (log), {SCRIPT}:{LOG}",
        "5    break       yes  0     listing:main:2",
        f"{below}1 op, first #2 add_0 (add), {SCRIPT}:{ADD}",
        "6    break       yes  0     #1 of main",
        f"{below}1 op, first #1 fc_0.matmul (matmul), {SCRIPT}:{MATMUL}",
        "7    break once  yes  0     log grad",
        f"{below}pending: no gradient matches 'log' yet; nearest names: log, log_0",
        "catching error",
    ]
    assert code == 0


def test_a_file_is_found_by_the_end_of_its_path(tmp_path: Path):
    (tmp_path / "main.py").write_text("")
    for folder in ("models", "layers"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "net.py").write_text("1\n2\n")
    (tmp_path / "models" / "one.py").write_text("1\n2\n")
    script = str(tmp_path / "main.py")
    commands = "break one.py:2\nbreak models/net.py:1\nbreak net.py:1\nbreak et.py:1\n"
    shown = opstep("debug", script, stdin=commands).stdout
    models = tmp_path / "models"
    assert f"breakpoint 1 at {models / 'one.py'}:2: pending" in shown
    assert f"breakpoint 2 at {models / 'net.py'}:1: pending" in shown
    assert f"error: 'net.py' may be {tmp_path / 'layers' / 'net.py'} or {models}" in shown
    assert "error: there is no file et.py here, below the script or among its sources" in shown


def test_a_breakpoint_that_never_matched_is_told_with_the_nearest_names():
    lines, code = batch("break matmull", "run")
    assert lines[-2:] == [
        "the script ended with exit code 0",
        "breakpoint 1 at matmull was never bound: no op matches 'matmull'; "
        "nearest names: matmul, fc_0.matmul",
    ]
    assert code == 0


def test_why_a_breakpoint_is_not_bound_is_the_executors_word():
    why = "the condition 'foo > 1' cannot be used: there is no variable 'foo' here"
    place = "breakpoint 1 at matmul if foo > 1"
    lines, code = batch(
        "break matmul if foo > 1", "tbreak add", "run", "info breakpoints", "tbreak log",
        "continue", "continue",
    )  # fmt: skip
    assert lines.count(f"{place} is bound to no op: {why}") == 1
    assert lines[lines.index("(opstep) info breakpoints") + 4].endswith(f"  pending: {why}")
    assert lines[-2:] == [
        "the script ended with exit code 0",
        f"{place} was never bound: {why}",
    ]
    assert code == 0


def test_a_condition_that_fails_is_told_in_the_stop():
    lines, _ = batch("break matmul if x[99] > 1", "run")
    stop = next(line for line in lines if line.startswith("stopped"))
    assert stop.endswith("run 1: the condition of breakpoint 1 failed: index 99 is out of range")


def test_changing_breakpoints():
    lines, code = batch(
        "b matmul", "b add", "b log", "disable 1", "delete 2", "condition 3 step > 1", "run",
        "info breakpoints", "delete", "info breakpoints", "continue",
    )  # fmt: skip
    at = lines.index("(opstep) run")
    assert lines[at + 2].startswith("stopped at op #3 log_0")
    at = lines.index("(opstep) info breakpoints")
    assert lines[at + 2 : at + 5] == [
        "1    break  no   0     matmul",
        "3    break  yes  1     log",
        "                       if step > 1",
    ]
    assert lines[lines.index("(opstep) delete") + 1] == "2 breakpoints deleted"
    assert lines[lines.index("(opstep) delete") + 3] == "no breakpoints: set one with 'break'"
    assert lines[-1] == "the script ended with exit code 0"
    assert code == 0


def test_looking_around():
    lines, code = batch(
        "b add", "run", "inputs", "up", "frame 3", "list source", "frame 0", "list listing",
        "info ops add*", "info programs", "info threads", "info vars", "info op",
    )  # fmt: skip
    text = "\n".join(lines)
    assert "  X = x  0.25" in text
    assert "1  block of #9 while_0, iteration 0" in text
    assert re.search(r"^=>  *1  ", text, re.M)
    assert "listing of main:\n    1  fc_0.matmul\n=>● 2  add_0\n    3  log_0" in text
    assert f"=> #2  add_0  add  {SCRIPT}:{ADD}  → add_0.out float32[?, 2]" in text
    assert "  main  3 ops  2 blocks  0 bytes for tensors  version 1, process " in text
    assert "* 1  MainThread, process " in text
    assert "parameters:\n  X = x  0.25" in text
    assert (
        text.count("  X = x  0.25") == 5
    )  # inputs; info vars, once; info op, for each of its scopes
    assert f"  made at {SCRIPT}:{ADD} in net" in text
    assert code == 0


def test_up_and_down_the_stack():
    lines, code = batch("b add", "run", "up 2", "down", "up 99", "down 2", "up 2", "up")
    assert [line.split("  ")[0] for line in lines if re.match(r"\d  \w", line)] == list("21313")
    assert lines[-1] == "error: frame 3 is the outermost: there is none further up"
    assert code == 2
    lines, _ = batch("b add", "run", "down")
    assert lines[-1] == "error: frame 0, the op, is the innermost: there is none further down"
    lines, _ = batch("b add", "run", "up x")
    assert lines[-1] == "error: 'x' is not a number of frames: write 1 or more"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("brake x", "there is no command 'brake': did you mean 'break'?"),
        ("t", "'t' may be tbreak, thread: write more of it"),
        ("continue", "the script is not running: start it with 'run'"),
        ("print x", "the script is not running: start it with 'run'"),
        (
            "print maxx(x)",
            "there is no function 'maxx' (column 1): did you mean 'max'?",
        ),
        (
            "break",
            "write 'break WHERE [grad] [if CONDITION] [hits HITS] [log MESSAGE]', see 'help break'",
        ),
        ("break x if", "there is no condition after 'if'"),
        ("break x if (", "'(' was never closed (column 1)"),
        (
            "break nowhere.py:3",
            "there is no file nowhere.py here, below the script or among its sources",
        ),
        ("break 0", "there is no line 0: lines count from 1"),
        ("break -1", "there is no line -1: lines count from 1"),
        (f"break {SCRIPT}:abc", f"'abc' is not a line number: write {SCRIPT}:12"),
        (f"break {SCRIPT}:-1", f"'-1' is not a line number: write {SCRIPT}:12"),
        ("break listing:x", "'x' is not a line number: write listing:12"),
        ("break 9999", f"there is no line 9999: {SCRIPT} has {LINES} lines"),
        ("break #x", "'#x' is not an op: write # and its number, as 'info ops' shows it"),
        ("catch fish", "there is no fault 'fish': there are nan, inf, overflow or error"),
        ("delete 4", "there is no breakpoint 4, nor any other: 'break' sets one"),
        ("delete x", "'x' is not a breakpoint number: see 'info breakpoints'"),
        (
            "info",
            "write 'info' and one of breakpoints, taps, op, ops, blocks, display, catch, vars, "
            "programs, threads, frame, locals, line, watchpoints, args",
        ),
        ("next 0", "'0' is not a number of times: write 1 or more"),
    ],
)
def test_a_command_that_fails_ends_the_batch_with_code_2(command: str, message: str):
    lines, code = batch(command, "help")
    assert lines == [f"(opstep) {command}", f"error: {message}"]
    assert code == 2


def test_the_executors_own_errors_are_told():
    lines, code = batch("b add", "run", "print nothing")
    assert lines[-1] == (
        "error: there is no variable 'nothing': 'info locals' and 'info vars' show those that are "
        "here"
    )
    assert code == 2


def test_commands_from_a_file_and_the_scripts_arguments(tmp_path: Path):
    file = tmp_path / "commands"
    file.write_text("# what to do\n\ntbreak add\nrun\n")
    # The script would never end by itself.
    result = opstep("debug", "--batch", "-x", str(file), "-ex", "n", SCRIPT, "--endless")
    told = [line for line in result.stdout.splitlines() if line.startswith("stopped")]
    assert [line.rpartition(": ")[2] for line in told] == ["breakpoint 1", "step"]
    assert result.returncode == 0


def test_commands_from_a_pipe_and_the_empty_line():
    result = opstep("debug", SCRIPT, stdin="tbreak add\nrun\nstepi\n\nnope x\nquit\nprint x\n")
    lines = result.stdout.splitlines()
    assert [line.split(" (")[0] for line in lines if line.startswith("stopped")] == [
        "stopped at op #2 add_0",
        "stopped at op #2 add_0",
        "stopped at op #3 log_0",
    ]
    assert "\x1b" not in result.stdout
    assert lines[-1] == "(opstep) quit"
    assert result.returncode == 2  # Because of 'nope', which did not end it.


def test_the_commands_outside_of_the_debugger():
    assert opstep("--version").stdout.startswith("opstep ")
    shown = opstep("debug", "--help").stdout
    assert exit_codes.help_text() in shown
    missing = opstep("debug", "--batch", "-ex", "run", "nowhere.py")
    assert (missing.stdout, missing.stderr) == (
        "",
        "opstep: there is no script, model or program nowhere.py\n",
    )
    assert missing.returncode == 2
    alone = opstep("debug")
    assert alone.stderr.endswith("the following arguments are required: FILE\n")
    assert alone.returncode == 2
    assert opstep("debug", "-x", "nowhere", SCRIPT).returncode == 2
    assert opstep().returncode == 2


def test_a_pattern_where_the_process_should_be():
    result = opstep("log", "relu")
    assert result.returncode == 2
    assert re.fullmatch(
        r"opstep: 'relu' is neither a process nor the address of a server: write 'opstep log "
        r"(\d+ relu'|PID relu', 'opstep ps' lists the processes)\n",
        result.stderr,
    )
