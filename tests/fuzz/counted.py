"""Fuzz: every line of a log point is shown or counted, with slow readers and under kills.

PYTHONPATH=tests python -m fuzz.counted --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import re
import select
import signal
import sys
import time
from pathlib import Path

from fuzz.dap_pipe import Client, Json
from harness.markers import line_of

PROGRAM = Path(__file__).resolve().parents[1] / "programs" / "counting.py"
DROPPED = re.compile(r"(\d+) log messages? (?:was|were) dropped")
READERS = ("fast", "slow", "behind")
ENDS = ("runs out", "detached", "disconnected", "killed")
# What a client says that does not know how many lines there were.
UNKNOWN = "neither shown nor counted"


def launched(client: Client, count: int) -> int:
    """The process, which counts to `count` at a log point."""
    client.answer(client.send("initialize", {"adapterID": "opstep"}))
    points = [{"line": line_of(PROGRAM, "count"), "logMessage": "line {out[0]}"}]
    client.send("setBreakpoints", {"source": {"path": str(PROGRAM)}, "breakpoints": points})
    arguments = ["--count", str(count)]
    client.send("launch", {"program": str(PROGRAM), "args": arguments, "python": sys.executable})
    client.send("configurationDone")
    return int(client.event("process")["body"]["systemProcessId"])


def wait_for_end(pid: int) -> None:
    """Until the process has ended; the adapter's child, not ours."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([descriptor], [], [], 300)
    os.close(descriptor)


def counted(client: Client) -> tuple[int, int]:
    """Lines that were shown, and those that were told as dropped."""
    shown = dropped = 0
    for text in client.outputs():
        if text.startswith("line "):
            shown += 1
        elif found := DROPPED.search(text):
            dropped += int(found[1])
    return shown, dropped


def highest(client: Client) -> int:
    numbers = [int(t.split()[1]) for t in client.outputs() if t.startswith("line ")]
    assert numbers == sorted(numbers), "lines out of order"
    return max(numbers, default=0)


def one(reader: str, end: str, count: int, choose: random.Random) -> tuple[int, int]:
    """One run; what was shown and dropped. Raises AssertionError when something is uncounted."""
    with Client() as client:
        pid = launched(client, count)
        if end == "runs out" and reader == "behind":
            wait_for_end(pid)
        elif end != "runs out":
            client.until(lambda each: _line(each))
            for _ in range(choose.randrange(50)):
                # A short run may be over, and then nothing more comes.
                if not over(client):
                    client.read(choose.choice((100, 1 << 16)))
            if end == "killed":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            else:
                stays = {"terminateDebuggee": end == "disconnected"}
                client.answer(client.send("disconnect", stays))
                if end == "detached":
                    wait_for_end(pid)
        if end in ("runs out", "killed"):
            while not over(client):
                assert client.read(300 if reader == "slow" else 1 << 16)
                if reader == "slow" and choose.random() < 0.01:
                    time.sleep(0.005)
            client.answer(client.send("disconnect"))
    shown, dropped = counted(client)
    if end == "runs out":
        assert shown + dropped == count, (reader, end, shown, dropped, count)
    else:
        assert highest(client) <= shown + dropped <= count
        # A process that was killed cannot say how many there were: the client is told that.
        if end != "detached" and shown + dropped < count:
            assert any(UNKNOWN in text for text in client.outputs()), (reader, end, shown, dropped)
    return shown, dropped


def over(client: Client) -> bool:
    return any(each.get("event") == "terminated" for each in client.messages[-50:])


def _line(message: Json) -> bool:
    return message.get("event") == "output" and message["body"]["output"].startswith("line ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    choose = random.Random(options.seed)
    end_at = time.monotonic() + options.seconds
    runs = 0
    while time.monotonic() < end_at:
        reader, end = choose.choice(READERS), choose.choice(ENDS)
        count = choose.choice((1, 1000, 20_000, 200_000, 1_000_000))
        shown, dropped = one(reader, end, count, choose)
        runs += 1
        print(f"{reader}, {end}, {count} hits: {shown} shown, {dropped} dropped", flush=True)
    print(f"{runs} runs, seed {options.seed}: nothing uncounted")


if __name__ == "__main__":
    main()
