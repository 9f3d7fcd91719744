"""`opstep debug` as a process: counts, signals, shared output, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from harness.debug_command import ADD, HERE, OPSTEP, SCRIPT, batch, opstep
from harness.patience import SECONDS
from opstep_server.cli.app import exit_codes


def test_the_scripts_own_code_is_the_batchs():
    lines, code = batch("run", SCRIPT_CODE="7")
    assert (lines[-1], code) == ("the script ended with exit code 7", 7)


def test_a_script_that_is_still_stopped_at_the_end_is_ended():
    lines, code = batch("b add", "run", SCRIPT_CODE="7")
    assert lines[-1].startswith(str(ADD))
    assert code == 0


@pytest.mark.parametrize("command", ["stepi 9", "nexti 9", "step 9", "next 9"])
def test_a_count_of_steps_ends_at_a_stop_of_another_kind(command: str):
    lines, _ = batch("tbreak matmul", "break log", "run", command)
    told = [line.rpartition(": ")[2] for line in lines if line.startswith("stopped")]
    assert told == ["breakpoint 1", "step", "step", "breakpoint 2"]


def test_a_count_of_continues_ends_at_a_fault():
    lines, code = batch("break add", "catch nan", "run", "continue 9")
    told = [line.split(": ")[1] for line in lines if line.startswith("stopped")]
    assert told == ["breakpoint 1"] * 4 + ["NaN"]
    assert code == 1


def test_a_count_of_steps_ends_with_the_script():
    lines, code = batch("tbreak log", "run", "stepi 99")
    assert lines[-1] == "the script ended with exit code 0"
    assert code == 0


def test_the_script_shares_output_and_input(tmp_path: Path):
    script = tmp_path / "plain.py"
    script.write_text(
        "import os, sys\n"
        "os.write(2, b'to stderr\\n')\n"
        "print('read', repr(sys.stdin.read()))\n"
        "os.write(2, b'no newline')\n"
    )
    both = tmp_path / "both"
    for options, shown in (
        (["--batch", "-ex", "run"], "read 'run\\n'"),
        ([], "read ''"),
    ):
        with both.open("w") as out:
            subprocess.run(
                [*OPSTEP, "debug", *options, str(script)],
                input="run\n", stdout=out, stderr=out, text=True, timeout=SECONDS, check=True,
            )  # fmt: skip
        assert both.read_text().splitlines() == [
            "(opstep) run",
            "to stderr",
            shown,
            "no newlinethe script ended with exit code 0, and ran no program",
        ]


def test_hundreds_of_steps():
    result = opstep(
        "debug", "--batch", "-ex", "tbreak matmul", "-ex", "run", "-ex", "stepi 400", SCRIPT,
        "--endless",
    )  # fmt: skip
    assert result.stdout.count("stopped at") == 401


def test_ctrl_c_ends_a_batch_and_its_script():
    process = subprocess.Popen(
        [*OPSTEP, "debug", "--batch", "-ex", "run", SCRIPT, "--endless"],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    while process.stdout.readline() != "run 2\n":
        pass
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert (process.returncode, errors) == (130, "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("how", ["batch", "piped"])
def test_a_signal_that_ends_the_debugger_ends_the_script(tmp_path: Path, number: int, how: str):
    script = tmp_path / "busy.py"
    script.write_text("import os\nprint(os.getpid(), flush=True)\nwhile True: pass\n")
    options = ["--batch", "-ex", "run"] if how == "batch" else []
    process = subprocess.Popen(
        [*OPSTEP, "debug", *options, str(script)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    if how == "piped":
        process.stdin.write("run\n")
        process.stdin.flush()
    assert process.stdout.readline() == "(opstep) run\n"
    pid = int(process.stdout.readline())
    try:
        process.send_signal(number)
        assert process.wait(SECONDS) == 128 + number
        assert process.stderr is not None and process.stderr.read() == ""
    finally:
        process.kill()
        # It went with the debugger.
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_nobody_reads_the_output():
    process = subprocess.Popen(
        [*OPSTEP, "debug", "--batch", "-ex", "tbreak add", "-ex", "run", "-ex", "si 999", SCRIPT,
         "--endless"],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(SECONDS) == 128 + signal.SIGPIPE
    assert b"opstep_server/cli" not in process.stderr.read()


def test_a_signal_while_commands_are_awaited():
    process = subprocess.Popen(
        [*OPSTEP, "debug", SCRIPT], cwd=HERE,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("tbreak add\nrun\n")
    process.stdin.flush()
    while not process.stdout.readline().startswith("stopped"):
        pass
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("failed", "fault", "script", "code"),
    [
        (True, True, 7, exit_codes.WRONG),
        (False, True, 0, exit_codes.FAULT),
        (False, False, 7, 7),
        (False, False, -15, 128 + 15),
        (False, False, None, 0),
    ],
)
def test_the_first_exit_code_that_applies(failed: bool, fault: bool, script: int, code: int):
    assert exit_codes.code(failed, fault, script) == code


def test_commands_of_the_command_line_keep_their_order(tmp_path: Path):
    file = tmp_path / "commands"
    file.write_text("# first of all\ntbreak add\n\n")
    result = opstep(
        "debug", "--batch", "-ex", "tbreak log", "-x", str(file), "-ex", "tbreak matmul", SCRIPT
    )
    typed = [line for line in result.stdout.splitlines() if line.startswith("(opstep)")]
    assert typed == [f"(opstep) tbreak {op}" for op in ("log", "add", "matmul")]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def f(:", "the script ended with exit code 1, before it ran a program"),
        ("print('nothing')", "the script ended with exit code 0, and ran no program"),
        (
            "import os; os.abort()",
            "the script ended by signal 6 (SIGABRT), before it ran a program",
        ),
    ],
)
def test_a_script_that_runs_no_program(tmp_path: Path, source: str, said: str):
    script = tmp_path / "script.py"
    script.write_text(source)
    result = opstep("debug", str(script), stdin="run\nwhere\nrun\n")
    lines = [line for line in result.stdout.splitlines() if line != "nothing"]
    assert lines == [
        "(opstep) run", said, "(opstep) where",
        "error: the script has ended: 'run' starts it again", "(opstep) run", said,
    ]  # fmt: skip
    assert "opstep_server" not in result.stderr


def test_an_end_at_once_does_not_deny_the_program_that_ran(tmp_path: Path):
    """Nothing waits until the debugger has heard of it."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, opstep\n"
        "program = opstep.Program()\n"
        "with opstep.program_guard(program):\n"
        "    opstep.layers.fill(shape=[2], value=1.0)\n"
        "opstep.Executor().run(program)\n"
        "os._exit(3)\n"
    )
    result = opstep("debug", "--batch", "-ex", "run", str(script))
    assert result.stdout.splitlines() == ["(opstep) run", "the script ended with exit code 3"]
    assert result.returncode == 3


def test_ctrl_c_finds_nothing_imported_that_could_complain():
    """Before main() Python answers Ctrl-C with a traceback: that time has to be short."""
    code = "import sys; import opstep_server.cli.main; print(*sys.modules)"
    shown = subprocess.run([*OPSTEP[:1], "-c", code], capture_output=True, text=True, check=True)
    slow = {"asyncio", "argparse", "grpc", "google", "importlib.metadata", "prompt_toolkit", "rich"}
    assert not slow & set(shown.stdout.split())


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_streams_that_are_closed(closed: str):
    words = [*OPSTEP, "debug", "--batch", "-ex", "catch nan", "-ex", "run", SCRIPT]
    result = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *words],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert result.returncode == exit_codes.FAULT
    assert "Traceback" not in result.stdout
    assert ("NaN" in result.stdout) == ("1>" not in closed)
