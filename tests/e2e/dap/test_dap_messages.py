"""Large messages: what can be read can be written back, what is too large is refused by itself."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from harness.dap_client import Failure, Session
from opstep_server.dap.protocol.framing import MAX_MESSAGE_BYTES
from opstep_server.dap.requests.memory_requests import MAX_READ

pytestmark = pytest.mark.e2e

BYTES = 8 << 20
SCRIPT = f"""
import numpy as np, opstep
from opstep import layers
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[{BYTES // 4}])
    y = layers.reduce_sum(layers.relu(x))
(total,) = opstep.Executor().run(
    main, feed={{"x": np.ones({BYTES // 4}, np.float32)}}, fetch_list=[y])
print("total", float(total), flush=True)
"""


def test_a_limit_that_fits_what_can_be_read() -> None:
    assert len(base64.b64encode(bytes(MAX_READ))) + 4096 < MAX_MESSAGE_BYTES


def test_large_messages_cost_no_session(tmp_path: Path) -> None:
    script = tmp_path / "large.py"
    script.write_text(SCRIPT)
    with Session() as session:
        session.start(script, functions=[{"name": "relu"}])
        session.stopped("function breakpoint")
        frame = session.top(1)["id"]
        memory = session.evaluate("x", frame)["memoryReference"]
        what = {"memoryReference": memory, "count": BYTES}
        read = base64.b64decode(session.request("readMemory", what)["data"])
        assert len(read) == BYTES
        twice = base64.b64encode(b"\0\0\0\x40" * (BYTES // 4)).decode()
        written = session.request("writeMemory", {"memoryReference": memory, "data": twice})
        assert written["bytesWritten"] == BYTES
        too_large = {"memoryReference": memory, "data": "A" * MAX_MESSAGE_BYTES}
        with pytest.raises(Failure, match=f"over the limit of {MAX_MESSAGE_BYTES} bytes"):
            session.response(session.send("writeMemory", too_large))
        assert session.evaluate("x[5]", frame)["result"] == "2"
        session.request("continue", {"threadId": 1})
        assert session.ends() == 0
        assert session.output == f"total {2.0 * (BYTES // 4)}\n"
