"""Microsoft's own test client for debug adapters, on node, with the adapter and a real script."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from harness.markers import line_of
from harness.patience import SECONDS

HERE = Path(__file__).parent
SCRIPT = HERE.parent / "programs" / "mlp.py"
SCENARIOS = re.findall(r"^  async '?(.+?)'?\(client\)", (HERE / "scenarios.js").read_text(), re.M)

pytestmark = pytest.mark.e2e


def test_the_scenarios_are_there() -> None:
    assert len(SCENARIOS) == 7


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_client_passes(scenario: str) -> None:
    package = HERE / "node_modules" / "@vscode" / "debugadapter-testsupport"
    assert package.is_dir(), "run npm --prefix tests/dap_client run deps first"
    line = line_of(SCRIPT, "hidden")
    command = ["node", "scenarios.js", scenario, sys.executable, str(SCRIPT), str(line)]
    ran = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=SECONDS * 4)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"passed: {scenario}" in ran.stdout
