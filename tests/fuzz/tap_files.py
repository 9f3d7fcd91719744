"""Fuzz: tap logs with changed bytes. Every line that is intact is read, nothing raises.

PYTHONPATH=tests python -m fuzz.tap_files --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from harness.log_folder import FakeLog
from harness.wild_messages import Wild
from opstep_server.cli.log.log_table import told
from opstep_server.taps.log_files.tap_log import TapLog
from opstep_server.taps.report.report_data import collect

STEPS, SOURCES = 3, 2
LINES = STEPS * SOURCES


class Directory:
    """A small log whose files are put back after each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        log = FakeLog(path, sources=SOURCES, histograms=True)
        log.steps(STEPS)
        log.counts(produced=LINES, delivered=LINES, waiting=0)
        self.files = {file.name: file.read_bytes() for file in sorted(path.iterdir())}

    def check(self, name: str, data: bytes) -> None:
        """Raises when what is intact is not read, or anything else goes wrong."""
        (self.path / name).write_bytes(data)
        try:
            log = TapLog(self.path)
            log.read_all()
            list(told(log))
            found = collect(self.path)
        finally:
            (self.path / name).write_bytes(self.files[name])
        if name.startswith("records"):
            # The end of a line says that it is whole: the last one may still be being written.
            intact = set(self.files[name].splitlines()) & set(data.split(b"\n")[:-1])
            assert log.records >= len(intact), (name, data)
            assert found.records >= len(intact), (name, data)
        else:
            assert log.records == found.records == LINES, (name, data)


def each_byte(directory: Directory, name: str, stride: int = 1) -> int:
    """All bytes one after the other: one bit turned, and the file cut there."""
    whole = directory.files[name]
    places = range(0, len(whole), stride)
    for at in places:
        turned = bytearray(whole)
        turned[at] ^= 1 << at % 8
        directory.check(name, bytes(turned))
        directory.check(name, whole[:at])
    return 2 * len(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wild, choose = Wild(options.seed), random.Random(options.seed)
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        directory = Directory(Path(folder) / "log")
        cases = sum(each_byte(directory, name, 7) for name in directory.files)
        while time.monotonic() < end:
            name = choose.choice(list(directory.files))
            directory.check(name, wild.changed(directory.files[name]))
            cases += 1
    print(f"{cases} changed files, seed {options.seed}: what is intact was read")


if __name__ == "__main__":
    main()
