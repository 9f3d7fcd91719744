"""Ctrl-C in programs that train by themselves, and going on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import opstep
from harness.training_programs import (
    ENDLESS,
    PARAMETERS,
    Running,
    build,
    command,
    fails,
    same,
    values,
    write,
)
from opstep import layers


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "train.rec")


@pytest.fixture
def program(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "train.opstep"
    build(data, path)
    return path


def test_interrupted_three_times_and_gone_on_with(data: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "long.opstep", passes=ENDLESS)
    before = 0
    args = ("long.opstep", "--allow-files", "--out", "parts", "--set", "lr=0.05")
    for attempt in range(3):
        running = Running(tmp_path, *args)
        if attempt:
            told = running.until(r"resuming after ([\d,]+) iterations, from 'long\.checkpoint")
            assert int(told[1].replace(",", "")) == before
        running.until(r"train [\d,]+/700,000,000 .*loss .*it/s")
        running.interrupt()
        assert running.ends() == 130, running.shown
        told = running.until(
            r"stopped after ([\d,]+) of 700,000,000 iterations, saved as "
            r"'long\.checkpoint\.safetensors'; run the same command again to go on\r\n"
        )
        done_now = int(told[1].replace(",", ""))
        assert done_now > before, running.shown
        before = done_now
        assert values(running.checkpoint)["train.step"] == before
    steps = ("--steps", before + 1000)
    done = command(*args, *steps, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1,000 iterations in " in done.stderr
    done = command("long.opstep", "--allow-files", "--out", "whole", *steps, cwd=tmp_path)
    assert f"{before + 1000:,} iterations in " in done.stderr, done.stderr
    assert same(tmp_path / "whole" / PARAMETERS, tmp_path / "parts" / PARAMETERS)
    assert not running.checkpoint.exists()


def test_a_loop_that_had_ended_is_not_run_again(data: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "long.opstep", passes=300, test_passes=ENDLESS)
    args = ("long.opstep", "--allow-files", "--out")
    for _ in range(2):
        running = Running(tmp_path, *args, "parts")
        running.until(r"test [\d,]+/10,000,000,000 ")
        running.interrupt()
        assert running.ends() == 130, running.shown
        kept = values(running.checkpoint)
        assert kept["train.step"] == 0 and kept["train.total"] == 2100
        assert kept["test.step"] > 0
    # The same program, but for the end of that loop.
    build(data, tmp_path / "long.opstep", passes=300, test_passes=int(kept["test.step"]) // 100 + 3)
    assert command(*args, "whole", cwd=tmp_path).returncode == 0
    done = command(*args, "parts", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    whole, parts = (values(tmp_path / out / PARAMETERS) for out in ("whole", "parts"))
    del whole["train.total"], parts["train.total"]  # of this run: none
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_another_programs_checkpoint(program: Path, tmp_path: Path) -> None:
    main, startup = opstep.Program("other"), opstep.Program("startup")
    with opstep.program_guard(main, startup), opstep.scope_guard(opstep.Scope()):
        layers.fc(layers.data("x", [None, 2]), size=2)
        opstep.Executor().run(startup)
        opstep.save_checkpoint(tmp_path / "other", main)
    told = fails(program, "--allow-files", "--checkpoint", "other", cwd=tmp_path)
    assert "cannot resume from 'other': " in told
    assert told.endswith("; delete it to start again, or name another file with --checkpoint\n")
    told = fails(program, "--allow-files", "--checkpoint", "nowhere/file", cwd=tmp_path)
    assert "a checkpoint could not be written into '" in told


SCRIPT = """
import os, signal, sys, threading, time
import numpy as np
import opstep

# A fed array is read where it is: iterations beyond this number wait for another.
most = np.full([1], 1 << 60)

def pressed(*_):
    most[0] = 1 << 60
    raise KeyboardInterrupt

def interrupt():
    while "train.step" not in scope or scope.find("train.step") < 500:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

program = opstep.Program.load("long.opstep")
scope = opstep.global_scope()
exe = opstep.Executor()
signal.signal(signal.SIGINT, pressed)
if sys.argv[1] == "parts":
    most[0] = 500
    threading.Thread(target=interrupt, daemon=True).start()
try:
    exe.run(program, {"most": most})
    print("not interrupted")
except KeyboardInterrupt:
    print("after", scope.find("train.step"), scope.find("train.total"))
    exe.run(program, {"most": most})
opstep.save_checkpoint(sys.argv[1], program)
"""


def test_interrupted_in_a_script_which_runs_it_again(data: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "long.opstep", passes=100, held=True)
    (tmp_path / "script.py").write_text(SCRIPT)
    told = []
    for name in ("whole", "parts"):
        words = [sys.executable, "script.py", name]
        done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
        told.append(done.stdout)
    assert told[0] == "not interrupted\n"
    after, step, total = told[1].split()
    assert after == "after" and 500 < int(step) < int(total) == 700
    assert same(tmp_path / "whole", tmp_path / "parts")
