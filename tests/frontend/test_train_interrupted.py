"""Ctrl-C in programs that train by themselves, and going on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trained import PARAMETERS, Running, build, command, fails, same, values, write

import opstep
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
    build(data, tmp_path / "long.opstep", passes=30000)
    done = command("long.opstep", "--allow-files", "--out", "whole", cwd=tmp_path)
    assert "210,000 iterations" in done.stderr, done.stderr

    before = 0
    args = ("long.opstep", "--allow-files", "--out", "parts", "--set", "lr=0.05")
    for attempt in range(3):
        running = Running(tmp_path, *args)
        if attempt:
            told = running.until(r"going on after ([\d,]+) iterations, from 'long\.checkpoint")
            assert int(told[1].replace(",", "")) == before
        running.until(r"train [\d,]+/210,000 .*loss .*it/s")
        running.interrupt()
        assert running.ends() == 130, running.shown
        told = running.until(
            r"stopped after ([\d,]+) of 210,000 iterations, saved as "
            r"'long\.checkpoint\.safetensors'; run the same command again to go on\r\n"
        )
        done_now = int(told[1].replace(",", ""))
        assert done_now > before, running.shown
        before = done_now
        assert values(running.checkpoint)["train.step"] == before
    done = command(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{210000 - before:,} iterations in " in done.stderr
    assert same(tmp_path / "whole" / PARAMETERS, tmp_path / "parts" / PARAMETERS)
    assert not running.checkpoint.exists()


def test_a_loop_that_had_ended_is_not_run_again(data: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "long.opstep", passes=3000, tested=True)
    args = ("long.opstep", "--allow-files", "--out")
    assert command(*args, "whole", cwd=tmp_path).returncode == 0
    for _ in range(2):
        running = Running(tmp_path, *args, "parts")
        running.until(r"test [\d,]+/300,000 ")
        running.interrupt()
        assert running.ends() == 130, running.shown
        kept = values(running.checkpoint)
        assert kept["train.step"] == 0 and kept["train.total"] == 21000
        assert 0 < kept["test.step"] < 300000
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
    assert "cannot go on from 'other': " in told
    assert told.endswith("; delete it to begin anew, or name another file with --checkpoint\n")
    told = fails(program, "--allow-files", "--checkpoint", "nowhere/file", cwd=tmp_path)
    assert "a checkpoint could not be written into '" in told


SCRIPT = """
import os, signal, sys, threading, time
import opstep

def interrupt():
    while "train.step" not in scope or scope.find("train.step") < 500:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGINT)

program = opstep.Program.load("long.opstep")
scope = opstep.global_scope()
exe = opstep.Executor()
if sys.argv[1] == "parts":
    threading.Thread(target=interrupt, daemon=True).start()
try:
    exe.run(program)
    print("not interrupted")
except KeyboardInterrupt:
    print("after", scope.find("train.step"), scope.find("train.total"))
    exe.run(program)
opstep.save_checkpoint(sys.argv[1], program)
"""


def test_interrupted_in_a_script_which_runs_it_again(data: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "long.opstep", passes=5000)
    (tmp_path / "script.py").write_text(SCRIPT)
    told = []
    for name in ("whole", "parts"):
        words = [sys.executable, "script.py", name]
        done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
        told.append(done.stdout)
    assert told[0] == "not interrupted\n"
    after, step, total = told[1].split()
    assert after == "after" and 500 <= int(step) < int(total) == 35000
    assert same(tmp_path / "whole", tmp_path / "parts")
