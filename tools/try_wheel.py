"""Try wheels in an empty virtual environment: install them, train, debug, attach and log.

    try_wheel.py --folder DIR PYTHON WHEEL...                  both wheels, with the executor
    try_wheel.py --folder DIR PYTHON WHEEL --executor PYTHON   opstep-server alone, attached to
                                                               processes of a Python with opstep

Needs the standard library only: nothing of the checkout is in the environment.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SECONDS = 180.0  # a guard against hangs

TRAIN = """\
import sys
import numpy as np
import opstep
from opstep import layers

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 8])
    y = layers.data("y", shape=[None, 1])
    hidden = layers.fc(x, size=16, act="relu")
    guess = layers.fc(hidden, size=1)
    loss = layers.mean(layers.square_error_cost(guess, y))
    opstep.optimizer.SGD(learning_rate=0.05).minimize(loss)

rng = np.random.default_rng(0)
inputs = rng.standard_normal((64, 8)).astype(np.float32)
wanted = inputs.sum(axis=1, keepdims=True)
exe = opstep.Executor()
exe.run(startup)
losses = []
while len(losses) < 100 or sys.argv[1:] == ["forever"]:
    (value,) = exe.run(main, feed={"x": inputs, "y": wanted}, fetch_list=[loss])
    losses.append(float(value))
    if len(losses) % 100 == 0:
        print(f"step {len(losses)}: loss {losses[0]:.4f} -> {value:.4f}", flush=True)
    del losses[100 if len(losses) > 1000 else len(losses):]
assert losses[-1] < losses[0] / 4, losses
main.save("main.opstep")
"""

NAN = """\
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main):
    x = layers.data("x", shape=[2])
    bad = layers.log(x)
opstep.Executor().run(main, feed={"x": np.float32([1, -1])}, fetch_list=[bad])
"""

OWNERS = """\
import importlib.metadata as metadata
def files(name):
    found = {str(file) for file in metadata.files(name) if "dist-info" not in str(file)}
    assert found, name
    return found
shared = files("opstep") & files("opstep-server")
assert not shared, shared
assert metadata.version("opstep") == metadata.version("opstep-server")
"""


class Failed(Exception):
    """What a try found, in words."""


class Trial:
    """An empty environment, a folder of scripts, and the processes that run in it."""

    def __init__(self, python: str, wheels: list[str], folder: Path) -> None:
        self.wheels = [str(Path(wheel).resolve()) for wheel in wheels]
        self.base = python
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        self.cwd = folder / "work"
        # Nothing of the caller's environment may help.
        hidden = ("PYTHON", "OPSTEP_", "VIRTUAL_ENV", "XDG_RUNTIME_DIR")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
        self.env |= {"XDG_RUNTIME_DIR": str(folder / "run"), "PYTHONUNBUFFERED": "1"}

    def install(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.cwd.mkdir(parents=True)
        (self.folder / "run").mkdir(mode=0o700)
        self.run([self.base, "-m", "venv", str(self.folder / "venv")])
        pip = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check"]
        self.run([*pip, "install", *self.wheels])
        self.run([*pip, "check"])
        (self.cwd / "train.py").write_text(TRAIN)
        (self.cwd / "nan.py").write_text(NAN)

    def run(self, command: list[str], code: int = 0, **more: str) -> str:
        """The output of a command that must end with `code`."""
        env = {**self.env, **more}
        done = subprocess.run(
            command, cwd=self.cwd, env=env, timeout=10 * SECONDS, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        if done.returncode != code:
            words = " ".join(command)
            raise Failed(f"{words}: exit code {done.returncode}, not {code}\n{done.stdout}")
        return done.stdout

    def python(self, *words: str) -> str:
        return self.run([str(self.bin / "python"), *words])

    def opstep(self, *words: str, code: int = 0) -> str:
        return self.run([str(self.bin / "opstep"), *words], code)

    @contextlib.contextmanager
    def running(self, command: list[str], **more: str) -> Iterator[Process]:
        process = Process(command, self.cwd, {**self.env, **more})
        try:
            yield process
        finally:
            process.end()


class Process:
    """A process and the lines that it writes."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        self.pid = self._process.pid
        self.text = ""
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def until(self, pattern: str) -> str:
        """The next line that has `pattern`."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no line with '{pattern}' came in time:\n{self.text}") from None
            if line is None:
                raise Failed(f"it ended without a line with '{pattern}':\n{self.text}")
            self.text += line
            if re.search(pattern, line):
                return line

    def rest(self, code: int = 0) -> str:
        """All that it wrote, when it has ended with `code`."""
        try:
            found = self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"it does not end:\n{self.text}") from None
        while (line := self._lines.get()) is not None:
            self.text += line
        if found != code:
            raise Failed(f"exit code {found}, not {code}:\n{self.text}")
        return self.text

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Adapter:
    """As much of a client of the debug adapter as is needed here."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._count = 0
        self._messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while header := self._process.stdout.readline():
            length = int(header.split(b":")[1])
            self._process.stdout.readline()
            self._messages.put(json.loads(self._process.stdout.read(length)))
        self._messages.put(None)

    def send(self, command: str, **arguments: object) -> None:
        assert self._process.stdin is not None
        self._count += 1
        request = {"seq": self._count, "type": "request", "command": command}
        body = json.dumps({**request, "arguments": arguments}).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self._process.stdin.flush()

    def until(self, name: str) -> dict[str, Any]:
        """The body of the next event or response with that name."""
        while True:
            try:
                message = self._messages.get(timeout=SECONDS)
            except queue.Empty:
                raise Failed(f"the adapter sent no '{name}' in time") from None
            if message is None:
                raise Failed(f"the adapter ended before '{name}'")
            if name in (message.get("event"), message.get("command")):
                if message.get("success") is False:
                    raise Failed(f"{name}: {message}")
                body: dict[str, Any] = message.get("body") or {}
                return body

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def expect(text: str, *patterns: str) -> None:
    for pattern in patterns:
        if not re.search(pattern, text):
            raise Failed(f"'{pattern}' is not in:\n{text}")


def commands(*words: str) -> list[str]:
    return [each for word in words for each in ("-ex", word)]


# ---- with the executor ---------------------------------------------------------------------------


def own_files(trial: Trial) -> None:
    trial.python("-c", OWNERS)
    expect(trial.opstep("--version"), r"^opstep \d+\.\d+")


def train(trial: Trial) -> None:
    expect(trial.python("train.py"), "step 100: loss")
    expect(trial.opstep("show", "main.opstep"), "matmul")
    expect(trial.opstep("run", "train.py"), "step 100: loss")


def debug(trial: Trial) -> None:
    script = commands("break train.py:10", "run", "where", "inputs", "next", "print hidden.shape")
    shown = trial.opstep("debug", "--batch", *script, "train.py")
    expect(shown, r"train\.py:10", r"\[64, 8\]", r"hidden\.shape = \[64, 16\]")
    script = commands("catch nan", "run", "where")
    expect(trial.opstep("debug", "--batch", *script, "nan.py", code=1), r"NaN", r"nan\.py:8")


def attach(trial: Trial) -> None:
    with trial.running([str(trial.bin / "python"), "train.py", "forever"]) as process:
        process.until("step 100:")
        expect(trial.opstep("ps"), rf"\b{process.pid}\b")
        script = commands("break matmul", "continue", "where", "print X.shape", "delete")
        shown = trial.opstep("attach", "--batch", *script, str(process.pid))
        expect(shown, r"X\.shape = \[64, 8\]")
        process.until("step")  # it goes on


def log(trial: Trial) -> None:
    with trial.running([str(trial.bin / "python"), "train.py", "forever"]) as process:
        process.until("step 100:")
        words = ["log", str(process.pid), "relu", "--stats", "--every", "10", "--count", "5"]
        expect(trial.opstep(*words, "--to", "records"), "5 records")
        expect(trial.opstep("log", "view", "records"), r"relu .*\b5\b")
        process.until("step")


# ---- the debug server alone ----------------------------------------------------------------------


def executor_commands(trial: Trial) -> None:
    for words in (["run", "train.py"], ["show", "main.opstep"], ["records"]):
        said = trial.opstep(*words, code=2)
        expect(said, rf"^opstep: 'opstep {words[0]}' needs the executor.*\n$")


@contextlib.contextmanager
def token(trial: Trial) -> Iterator[tuple[str, str, dict[str, str]]]:
    """A free TCP address, a token file, and the environment for an executor that dials it."""
    path = trial.cwd / "token"
    path.touch(mode=0o600)
    path.write_text("0123456789abcdef0123456789abcdef")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    env = {"OPSTEP_SERVER": address, "OPSTEP_TOKEN_FILE": str(path), "OPSTEP_WAIT": str(SECONDS)}
    yield address, str(path), env


def attach_over_tcp(trial: Trial, executor: str) -> None:
    with token(trial) as (address, path, env):
        script = commands("break matmul", "continue", "where", "print X.shape", "delete")
        words = ["attach", "--listen", address, "--token-file", path, "--batch", *script]
        with trial.running([executor, "train.py", "forever"], **env) as process:
            expect(trial.opstep(*words), r"X\.shape = \[64, 8\]")
            process.until("step 100:")


def adapter(trial: Trial, executor: str) -> None:
    with token(trial) as (address, path, env):
        client = Adapter([str(trial.bin / "opstep"), "dap"], trial.cwd, trial.env)
        try:
            client.send("initialize", adapterID="opstep")
            if not client.until("initialize").get("supportsConfigurationDoneRequest"):
                raise Failed("the adapter's capabilities lack supportsConfigurationDoneRequest")
            client.send("attach", listen=address, tokenFile=path)
            client.until("initialized")
            client.send("setFunctionBreakpoints", breakpoints=[{"name": "matmul"}])
            client.until("setFunctionBreakpoints")
            client.send("configurationDone")
            with trial.running([executor, "train.py", "forever"], **env) as process:
                thread = client.until("stopped")["threadId"]
                client.send("stackTrace", threadId=thread)
                expect(str(client.until("stackTrace")["stackFrames"]), "matmul")
                client.send("disconnect")
                client.until("disconnect")
                process.until("step 100:")
        finally:
            client.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("python")
    parser.add_argument("wheels", nargs="+")
    parser.add_argument(
        "--executor", default="", help="a Python with opstep; then the wheel is opstep-server"
    )
    parser.add_argument("--folder", type=Path, required=True, help="emptied first, kept afterwards")
    args = parser.parse_args()
    trial = Trial(args.python, args.wheels, args.folder.resolve())
    # Made absolute, without following the link that makes it an environment's.
    executor = os.path.abspath(args.executor)
    steps: list[tuple[str, Callable[[], None]]] = [("install", trial.install)]
    if args.executor:
        steps += [
            ("opstep run and show are refused", lambda: executor_commands(trial)),
            ("attach over TCP with a token", lambda: attach_over_tcp(trial, executor)),
            ("debug adapter", lambda: adapter(trial, executor)),
        ]
    else:
        steps += [
            ("no file belongs to both packages", lambda: own_files(trial)),
            ("train", lambda: train(trial)),
            ("opstep debug", lambda: debug(trial)),
            ("opstep attach", lambda: attach(trial)),
            ("opstep log", lambda: log(trial)),
        ]
    for name, step in steps:
        start = time.monotonic()
        try:
            step()
        except (Failed, subprocess.TimeoutExpired) as error:
            print(f"  {name}: FAILED\n{error}")
            return 1
        print(f"  {name}: ok, {time.monotonic() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
