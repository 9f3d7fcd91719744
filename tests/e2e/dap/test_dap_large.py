"""A program with more ops than one answer of the executor holds, in a folder with two names."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.dap_client import Session

pytestmark = pytest.mark.e2e

OPS = 1200
SCRIPT = f"""
import numpy as np, opstep
from opstep import layers
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    y = layers.data("x", shape=[4])
    for _ in range({OPS}):
        y = layers.tanh(y)
opstep.Executor().run(main, feed={{"x": np.ones(4, np.float32)}}, fetch_list=[y])
"""


def test_nothing_is_left_out(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    (folder / "large.py").write_text(SCRIPT)
    with Session() as session:
        session.start(folder / "large.py", stopOnEntry=True)
        thread = session.stopped("entry")["threadId"]
        for path in (folder, link):
            wanted = {"source": {"path": str(path / "large.py")}, "line": 1, "endLine": 20}
            found = session.request("breakpointLocations", wanted)["breakpoints"]
            assert found == [{"line": 6}, {"line": 8}]
        nowhere = {"source": {"path": "/nowhere.py"}, "line": 1}
        assert session.request("breakpointLocations", nowhere) == {"breakpoints": []}
        frame = session.top(thread)["id"]
        block = session.variables(session.scopes(frame)["Block"])
        assert len([name for name in block if name.startswith("tanh_")]) == OPS
