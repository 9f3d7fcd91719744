"""The extension's unit tests, which need no VS Code: node runs them."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_units(extension: Path) -> None:
    command = ["npm", "--prefix", str(extension.parent), "run", "--silent", "test"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "# pass 0" not in done.stdout
