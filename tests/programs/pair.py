"""Two threads, each with a program of its own, that run until somebody ends them."""

import threading
import time

import numpy as np

import opstep
from opstep import layers


def work(name: str) -> None:
    main = opstep.Program(name)
    with opstep.program_guard(main, opstep.Program(f"{name}_startup")):
        x = layers.data("x", shape=[4])
        doubled = layers.add(x, x)  # @double
        squared = layers.mul(doubled, doubled)  # @square
    exe = opstep.Executor()
    with opstep.scope_guard(opstep.Scope()):
        while True:
            exe.run(main, feed={"x": np.ones(4, np.float32)}, fetch_list=[squared])
            time.sleep(0.001)


for name in ("left", "right"):
    threading.Thread(target=work, args=(name,), name=name).start()
