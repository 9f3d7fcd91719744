"""Signals that come while an op runs."""

from __future__ import annotations

import subprocess
import sys

from harness.patience import SECONDS

SCRIPT = """
import signal
import numpy as np
import opstep
from opstep import layers

def handler(*_):
    global count
    count += 1

count = 0
main = opstep.Program()
with opstep.program_guard(main):
    x = layers.data("x", [400, 400])
    image = layers.data("image", [1, 16, 40, 40])
    filters = layers.data("filters", [16, 16, 3, 3])
    fetches = [layers.matmul(x, x), opstep.ops.conv(image, filters)]
feed = {
    "x": np.full((400, 400), 0.5, "float32"),
    "image": np.ones((1, 16, 40, 40), "float32"),
    "filters": np.ones((16, 16, 3, 3), "float32"),
}
exe = opstep.Executor()
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0003)
runs = 0
while runs < 200 or count <= 50:
    runs += 1
    product, convolved = exe.run(main, feed=feed, fetch_list=fetches)
    assert (product == 100).all() and (convolved == 144).all()
signal.setitimer(signal.ITIMER_REAL, 0)
print("handled")
"""


def test_handlers_run_and_nothing_breaks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.returncode, done.stdout.strip()) == (0, "handled"), done.stderr[-2000:]
