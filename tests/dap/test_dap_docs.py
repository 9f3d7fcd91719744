"""docs/dap.md names all that can be said in `launch`, and all filters."""

from __future__ import annotations

import re
from pathlib import Path

from opstep_server.dap.requests import exception_requests, launch_options


def test_every_launch_argument_is_documented(root: Path) -> None:
    page = (root / "docs" / "dap.md").read_text()
    code = Path(launch_options.__file__).read_text()
    read = set(re.findall(r'arguments\.\w+\("(\w+)"', code)) | {"program", "module"}
    rows = page.split("## launch")[1].split("##")[0]
    documented = {
        name
        for row in rows.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }
    assert documented == read


def test_every_exception_filter_is_documented(root: Path) -> None:
    page = (root / "docs" / "dap.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| exception filter"))
    for each in exception_requests._FILTERS:
        assert f"`{each['filter']}`" in row
