"""Runs a chain of 1,000 small ops so many times; tells its taps' counts and memory as JSON.

flood.py RUNS
"""

import json
import sys

import numpy as np

import opstep
from opstep import _core, layers

OPS = 1000
runs = int(sys.argv[1])


def megabytes(name: str) -> float:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith(name))
    return int(line.split()[1]) / 1024


main = opstep.Program("flood")
with opstep.program_guard(main, opstep.Program("startup")):
    x = value = layers.data("x", shape=[4])
    for _ in range(OPS):
        value = value + x
step = opstep.compile(main, feeds=["x"], fetches=[value])
feed = np.ones(4, np.float32)
before = megabytes("VmRSS")
for _ in range(runs):
    step(x=feed)
told = {
    "taps": {tap["uid"]: tap["counts"] for tap in _core.debug_taps()},
    "runs": runs,
    "before": before,
    "peak": megabytes("VmHWM"),
}
print(json.dumps(told), flush=True)
