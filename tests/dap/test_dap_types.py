"""The protocol's types in the package are those of the published schema."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.dap_schema import capability_names
from opstep_server.dap.protocol import types


def test_the_types_are_generated_from_the_schema(root: Path) -> None:
    tool = root / "tools" / "gen_dap_types.py"
    check = subprocess.run([sys.executable, tool, "--check"], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_the_types_have_the_schemas_fields() -> None:
    assert set(types.Capabilities.__annotations__) == capability_names()
    assert types.StoppedEventBody.__annotations__["reason"].__forward_arg__ == "str"
