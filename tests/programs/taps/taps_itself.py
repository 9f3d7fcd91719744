"""Sets taps on itself; prints what it knows of them, as JSON."""

import json
import sys
import time

import numpy as np

import opstep
from opstep import layers

folder = sys.argv[1]
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[4])
    y = layers.tanh(x)
    z = layers.reduce_sum(y)
exe = opstep.Executor()


def run(times: int) -> None:
    for _ in range(times):
        exe.run(main, feed={"x": np.ones(4, np.float32)}, fetch_list=[z])


def settled(tap: opstep.debug.Tap) -> dict[str, int]:
    while tap.counts()["waiting"]:
        time.sleep(0.01)
    return tap.counts()


run(1)
tap = opstep.debug.tap("tanh", to=folder, name="mine")
run(100)
told = {"first": settled(tap), "ops": tap.ops, "message": tap.message}
tap.change(every=10, what=["stats", "histogram"])
run(100)
told["changed"] = settled(tap)
with opstep.debug.tap(variable=z.name, to=folder, count=np.int64(3)) as other:
    run(10)
    told["other"] = settled(other)
    told["ended"] = other.message
tap.remove()
run(10)
told["errors"] = []
for wrong in (
    lambda: tap.counts(),
    lambda: opstep.debug.tap("tanh", evry=3, to=folder),
    lambda: opstep.debug.tap("tanh"),
    lambda: opstep.debug.tap("tanh", to=folder, count=object()),
):
    try:
        wrong()
    except opstep.Error as error:
        told["errors"].append(str(error))
print(json.dumps(told))
