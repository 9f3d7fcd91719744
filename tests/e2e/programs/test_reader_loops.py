"""Loops over readers in the debugger: a stop each iteration, batches as they came, readers."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import opstep
from harness.dap_client import Session
from harness.markers import line_of
from harness.processes import OPSTEP, SECONDS, attach, wait_until
from opstep import _core, layers, readers, records
from opstep_server import doorbell

pytestmark = pytest.mark.e2e


def test_a_breakpoint_in_the_body_stops_once_an_iteration(programs: Path) -> None:
    script = programs / "reader_loop.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "hidden")}]})
        rows = [16, 16, 8, 16, 16, 8]
        for iteration, count in enumerate(rows):
            stop = session.stopped("breakpoint")
            frames = session.stack(stop["threadId"])
            assert frames[1]["name"] == f"train body, iteration {iteration}"
            top = frames[0]["id"]
            assert frames[0]["name"].endswith(f"→ fc_0.matmul.out float32[{count}, 4]")
            assert session.evaluate("X.shape", top)["result"] == f"[{count}, 8]"
            assert session.evaluate("out.shape", top)["result"] == f"[{count}, 4]"
            shown = session.variables(session.scopes(top)["Inputs"])["X (train.x)"]
            assert shown["type"] == f"float32[{count}, 8]"
            assert session.evaluate("train.iteration", top)["result"] == str(iteration)
            session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0
        assert session.output.split()[2] == "6"


def test_what_a_client_sees_of_readers(programs: Path) -> None:
    script = programs / "reader_loop.py"
    kind = "reader of x float32[?, 8], y float32[?, 1]"
    with Session() as session:
        session.start(script, functions=[{"name": "reader_loop"}])
        stop = session.stopped("function breakpoint")
        top = session.top(stop["threadId"])["id"]
        scopes = session.scopes(top)
        inputs = session.variables(scopes["Inputs"])
        assert kind in inputs["reader (prefetch_reader_0.out)"]["value"]
        block = session.variables(scopes["Block"])
        assert "reader of x float32[8], y float32[1]" in block["read_records_0.out"]["value"]
        failure = session.fails("evaluate", {"expression": "reader", "frameId": top})
        assert "is a reader: it gives values, but has none itself" in failure.sentence
        session.request("continue", {"threadId": stop["threadId"]})
        assert session.ends() == 0


def test_a_changed_batch_is_what_the_ops_see(programs: Path) -> None:
    script = programs / "reader_loop.py"
    with Session() as session:
        session.start(script, lines={str(script): [{"line": line_of(script, "hidden")}]})
        stop = session.stopped("breakpoint")
        top = session.top(stop["threadId"])["id"]
        session.request("setExpression", {"expression": "X", "value": "0", "frameId": top})
        assert session.evaluate("norm(train.x)", top)["result"] == "0"
        session.step("next", stop["threadId"], "instruction")
        top = session.top(stop["threadId"])["id"]
        assert session.evaluate("norm(fc_0.matmul.out)", top)["result"] == "0"
        session.request("continue", {"threadId": stop["threadId"]})
        stop = session.stopped("breakpoint")
        top = session.top(stop["threadId"])["id"]
        assert float(session.evaluate("norm(X)", top)["result"]) > 1
        session.request("disconnect", {"terminateDebuggee": True})
        session.event("terminated")


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def train(tmp_path: Path) -> Path:
    """A folder with a program that trains until it is interrupted, or for --steps."""
    x = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    with records.Writer(tmp_path / "data.rec", {"x": ("float32", [8])}) as writer:
        writer.write_batch(x=x)
    main, startup = opstep.Program("main"), opstep.Program("startup")
    with opstep.program_guard(main, startup):
        reader = readers.records(tmp_path / "data.rec").shuffle(32).batch(24).repeat(100_000_000)
        with (loop := reader.iterate(name="train")) as (x,):
            loss = layers.mean(layers.tanh(layers.fc(x, size=4)))
            opstep.optimizer.SGD(layers.setting("lr", 0.001)).minimize(loss)
            loop.fetch(loss, every=100, name="loss")
    opstep.merge(startup, main).save(tmp_path / "train.opstep")
    return tmp_path


def command(out: str, *options: str) -> list[str]:
    return [*OPSTEP, "run", *options, "train.opstep", "--data", "data.rec", "--out", out]


def trained(path: Path) -> dict[str, bytes]:
    scope, types = opstep.Scope(), _core.read_types(str(path / "params.safetensors"))
    _core.read_tensors(str(path / "params.safetensors"), scope._core, types)
    return {name: scope.find(name).tobytes() for name in types}


def rings(pid: int) -> bool:
    return any(running.pid == pid for running in asyncio.run(doorbell.running()))


def test_attached_in_the_middle_of_a_loop(train: Path) -> None:
    process = subprocess.Popen(command("seen"), cwd=train, stderr=subprocess.PIPE, text=True)
    try:
        assert wait_until(lambda: rings(process.pid))
        with Session() as session:
            attach(session, {"pid": process.pid}, functions=[{"name": "tanh"}])
            body = session.stopped("function breakpoint")
            top = session.top(body["threadId"])["id"]
            first = int(session.evaluate("iteration", top)["result"])
            assert first > 0
            session.request("continue", {"threadId": body["threadId"]})
            body = session.stopped("function breakpoint")
            frames = session.stack(body["threadId"])
            assert f"train body, iteration {first + 1}" in [frame["name"] for frame in frames]
            rows = session.evaluate("X.shape[0]", frames[0]["id"])["result"]
            assert rows == ("24" if (first + 1) % 3 < 2 else "16")
            session.request("disconnect")
            session.event("terminated")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 130, said
        stopped = re.search(r"stopped after ([\d,]+) of ", said)
        assert stopped, said
        steps = int(stopped[1].replace(",", "")) + 100
        for out in ("seen", "whole"):
            words = command(out, f"--steps={steps}")
            subprocess.run(words, cwd=train, check=True, capture_output=True)
        assert trained(train / "seen") == trained(train / "whole")
    finally:
        process.kill()
        process.communicate()


def test_a_saved_program_in_the_debugger(train: Path) -> None:
    typed = ["break tanh if iteration == 2", "run", "print X.shape, lr", "continue"]
    options = [word for line in typed for word in ("-ex", line)]
    words = [*OPSTEP, "debug", "--batch", *options, "train.opstep", "--data=data.rec"]
    done = subprocess.run(
        [*words, "--steps=5", "--set=lr=0.5", "--out=seen"],
        cwd=train, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "train iteration 2, run 1: breakpoint 1" in done.stdout
    assert "X.shape = [16, 4]\nlr = 0.5\n" in done.stdout
    assert done.stderr.startswith("5 iterations in ")
    assert trained(train / "seen")["lr"] == np.float32(0.5).tobytes()


TAPS = """
[sinks.main]
kind = "jsonl"
path = "logs"

[[tap]]
ops = "tanh"
what = ["stats"]
condition = "iteration % 1000 == 0"
"""


def test_tapped_while_it_trains(train: Path) -> None:
    (train / "taps.toml").write_text(TAPS)
    steps = "--steps=30000"
    subprocess.run(command("whole", steps), cwd=train, check=True, capture_output=True)
    subprocess.run(command("seen", steps, "--taps", "taps.toml"), cwd=train, check=True)
    assert trained(train / "seen") == trained(train / "whole")
    lines = [
        json.loads(line)
        for path in (train / "logs").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    seen = [(line["iteration"], line["count"]) for line in lines if "iteration" in line]
    assert seen == [(i, 4 * (24 if i % 3 < 2 else 16)) for i in range(0, 30000, 1000)]
