"""What of the extension needs no VS Code: its unit tests, run by node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.mark.vscode
def test_units(extension: Path) -> None:
    command = ["npm", "--prefix", str(extension.parent), "run", "--silent", "test"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "# pass 0" not in done.stdout
