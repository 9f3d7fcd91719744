"""The README's pictures of the terminal say what a run shows today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.patience import SECONDS


def test_the_pictures_are_of_today(root: Path):
    result = subprocess.run(
        [sys.executable, root / "tools" / "record_pictures.py", "--check"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr


def test_the_demo_ends_with_what_the_picture_shows(root: Path):
    picture = (root / "docs" / "find_the_nan.svg").read_text().replace("&#160;", " ")
    script = (root / "tools" / "demo.sh").read_text()
    (shown,) = [line for line in script.splitlines() if line.startswith("show opstep debug")]
    command = shown.removeprefix("show ").rstrip("\\ ").replace('"', "&#x27;")
    assert command in picture
