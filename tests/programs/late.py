"""One long run that the debugger comes into: what was before the loop uses memory again."""

import os
import threading
import time

server = os.environ.pop("OPSTEP_SERVER")

import numpy as np  # noqa: E402

import opstep  # noqa: E402
from opstep import layers  # noqa: E402

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[3])
    early = layers.exp(x, name="early")
    kept = layers.neg(early, name="kept")
    i = layers.fill([1], 0, "int64", name="i")
    limit = layers.assign(layers.fill([1], 1 << 60, "int64"), name="limit")
    running = layers.less_than(i, limit)
    loop = layers.While(running)
    with loop.block():
        layers.increment(i)  # @increment
        layers.less_than(i, limit, out=running)
    after = layers.mul(kept, kept, name="after")


def connect() -> None:
    # By then the loop runs, however busy the machine is.
    while time.process_time() < began + 0.3:
        time.sleep(0.01)
    opstep.debug.connect(server)


began = time.process_time()
threading.Thread(target=connect).start()
(result,) = opstep.Executor().run(main, {"x": np.zeros(3, np.float32)}, [after])
print(f"result {result.tolist()}")
