"""Logs what a server under load computes: taps are added, changed and removed while it runs.

    python demo.py [--requests 300] [--to DIR]

Exits with 1 when an answer differs by one byte from what it is without taps.
"""

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent

FIRST = """
[sinks.files]
kind = "jsonl"
path = "log"

[[tap]]
name = "convolutions"
ops = "conv*"
what = ["stats", "histogram"]
every = 10
"""

# Another tap, and the first one more often.
CHANGED = (
    FIRST.replace("every = 10", "every = 2")
    + """
[[tap]]
name = "answers"
ops = "softmax"
what = ["stats", "samples"]
samples = 10
"""
)


@contextlib.contextmanager
def started(*words: str, end: signal.Signals) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.send_signal(end)
        process.wait(20)


def line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return line.strip()
    raise SystemExit(f"the process ended before it said '{text}'")


def load(address: str, requests: int) -> dict[str, object]:
    command = [sys.executable, str(HERE / "load.py"), address, "--requests", str(requests)]
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert isinstance(told, dict)
    return told


def records(folder: Path) -> dict[str, int]:
    """The number of records of each tap."""
    found: dict[str, int] = {}
    for file in sorted((folder / "log").glob("records-*.jsonl")):
        for line in file.read_text().splitlines():
            tap = json.loads(line)["tap"]
            found[tap] = found.get(tap, 0) + 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=300, help="requests in each phase (300)")
    parser.add_argument("--to", type=Path, help="where the log is kept (nowhere)")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = args.to or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        server = stack.enter_context(started(str(HERE / "server.py"), end=signal.SIGINT))
        address = line_with(server, "serving at").split()[-1]

        def phase(name: str) -> object:
            told = load(address, args.requests)
            time.sleep(0.5)  # records gather for a moment before they are sent
            print(f"{name:22} p50 {told['p50_ms']} ms, p99 {told['p99_ms']} ms, "
                  f"answers {told['digest']}, records {records(folder)}", flush=True)  # fmt: skip
            return told["digest"]

        digests = {phase("without taps")}
        taps = folder / "taps.toml"
        taps.write_text(FIRST)
        words = ("-m", "opstep_server", "log", str(server.pid), "--taps", str(taps))
        with started(*words, end=signal.SIGINT):
            wait_for(lambda: load(address, 10) and records(folder).get("convolutions", 0) > 0)
            digests.add(phase("a tap was added"))
            taps.write_text(CHANGED)
            wait_for(lambda: load(address, 10) and records(folder).get("answers", 0) > 0)
            digests.add(phase("changed, another added"))
        digests.add(phase("all were removed"))
    same = len(digests) == 1
    print("all answers are the same bytes" if same else "ANSWERS DIFFER")
    return 0 if same else 1


def wait_for(condition: object) -> None:
    end = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        if time.monotonic() > end:
            raise SystemExit("nothing was logged within 30 s")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
