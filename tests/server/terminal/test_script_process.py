"""Launching: environment, output, exit codes, ending, and a script that outlives its debugger."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS, wait_until
from harness.scripted_executor import Session, session
from opstep_server.debugger import DebuggerError, LaunchTarget, Output, ProcessExited


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(text)
    return str(path)


def output(s: Session, category: str) -> str:
    found = (event for event in s.events if isinstance(event, Output))
    return "".join(event.text for event in found if event.category == category)


def test_environment_arguments_output_and_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GONE", "1")
    text = """
import os, sys
print(os.environ["OPSTEP_SERVER"], os.environ["OPSTEP_WAIT"], os.environ["MINE"])
print(os.environ.get("GONE"), sys.argv[1:], os.getcwd(), os.getpgid(0) == os.getpid())
print("é" * 100_000, file=sys.stderr, end="")
sys.exit(7)
"""

    async def run() -> None:
        async with session() as s:
            env = {"MINE": "yes", "GONE": None}
            target = LaunchTarget(script(tmp_path, text), ("a", "-b"), str(tmp_path), env)
            await s.debugger.launch(target)
            exited = await s.wait_for(ProcessExited)
            assert exited.code == 7
            assert s.events[-1] is exited
            assert output(s, "stdout").splitlines() == [
                f"{s.address} 60 yes",
                f"None ['a', '-b'] {tmp_path} True",
            ]
            assert output(s, "stderr") == "é" * 100_000

    asyncio.run(run())


def test_a_module_can_be_launched(tmp_path: Path):
    script(tmp_path, "print(__name__)")

    async def run() -> None:
        async with session() as s:
            await s.debugger.launch(LaunchTarget("script", cwd=str(tmp_path), module=True))
            await s.wait_for(ProcessExited)
            assert output(s, "stdout") == "__main__\n"

    asyncio.run(run())


def test_what_cannot_be_started_is_one_sentence(tmp_path: Path):
    async def run() -> None:
        async with session() as s:
            good = script(tmp_path, "")
            for target, message in (
                (LaunchTarget("nowhere.py"), "there is no script nowhere.py"),
                (LaunchTarget(good, cwd="/nowhere"), "there is no folder /nowhere to start in"),
                (
                    LaunchTarget(good, python="/no/python"),
                    "cannot start /no/python: No such file or directory",
                ),
            ):
                with pytest.raises(DebuggerError) as caught:
                    await s.debugger.launch(target)
                assert str(caught.value) == message

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ignore", "code"), [("", -signal.SIGTERM), ("signal.SIG_IGN", -signal.SIGKILL)]
)
def test_terminate(tmp_path: Path, ignore: str, code: int, monkeypatch: pytest.MonkeyPatch):
    # What ends by itself has all the time that it needs.
    monkeypatch.setattr(
        "opstep_server.script_process.KILL_AFTER_SECONDS", 0.1 if ignore else SECONDS
    )
    setup = f"signal.signal(signal.SIGTERM, {ignore})" if ignore else ""
    text = f"import signal, time\n{setup}\nprint('up')\ntime.sleep(600)"

    async def run() -> None:
        async with session() as s:
            await s.debugger.launch(LaunchTarget(script(tmp_path, text)))
            await s.wait_for(Output)
            with pytest.raises(DebuggerError, match="is still running"):
                await s.debugger.launch(LaunchTarget(script(tmp_path, text)))
            await s.debugger.terminate()
            assert (await s.wait_for(ProcessExited)).code == code
            await s.debugger.terminate()  # Twice is fine.

    asyncio.run(run())


def test_a_script_outlives_a_killed_debugger_and_can_go_on_printing(tmp_path: Path):
    mark, goes_on = tmp_path / "mark", tmp_path / "go"
    text = f"""
import os, time
for i in range(100):
    print("x" * 10_000)
    while i > 20 and not os.path.exists({str(goes_on)!r}):
        time.sleep(0.02)
open({str(mark)!r}, "w").write("done")
"""
    program = f"""
import asyncio
from opstep_server.debugger import Debugger, LaunchTarget
async def main():
    await Debugger().launch(LaunchTarget({script(tmp_path, text)!r}))
    print("launched", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    debugger = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert debugger.stdout is not None
        assert debugger.stdout.readline() == b"launched\n"
    finally:
        os.kill(debugger.pid, signal.SIGKILL)
        debugger.communicate()
    assert not mark.exists()
    goes_on.touch()
    assert wait_until(mark.exists), "the script died with its debugger"


def test_closing_leaves_a_script_alone(tmp_path: Path):
    mark, goes_on = tmp_path / "mark", tmp_path / "go"
    text = (
        "import os, time\nprint('up')\n"
        f"while not os.path.exists({str(goes_on)!r}): time.sleep(0.01)\n"
        f"print('on')\nopen({str(mark)!r}, 'w').close()"
    )

    async def run() -> None:
        async with session() as s:
            await s.debugger.launch(LaunchTarget(script(tmp_path, text)))
            await s.wait_for(Output)

    asyncio.run(run())
    assert not mark.exists()
    goes_on.touch()
    assert wait_until(mark.exists), "the script died with its debugger"
