"""Two threads that run the same program in turns, each with values of its own."""

import threading

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[2])
    y = layers.relu(x)  # @relu
    z = layers.exp(y)

turns = [threading.Event(), threading.Event()]


def work(mine: int) -> None:
    exe, scope = opstep.Executor(), opstep.Scope()
    for _ in range(3):
        turns[mine].wait()
        turns[mine].clear()
        values = np.full(2, mine + 1, np.float32)
        exe.run(main, feed={"x": values}, fetch_list=[z], scope=scope)
        turns[1 - mine].set()


workers = [threading.Thread(target=work, args=[i], name=f"worker {i + 1}") for i in range(2)]
for worker in workers:
    worker.start()
turns[0].set()
for worker in workers:
    worker.join()
print("done", flush=True)
