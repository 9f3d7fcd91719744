"""Runs a small program again and again, in --threads threads, until the file --until is there."""

import argparse
import threading
import time
from pathlib import Path

import numpy as np

import opstep
from opstep import layers

parser = argparse.ArgumentParser()
parser.add_argument("--until", type=Path, required=True)
parser.add_argument("--threads", type=int, default=0)
options = parser.parse_args()

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[4])
    y = layers.tanh(x)  # @tanh
    z = layers.reduce_sum(y)  # @sum


def work() -> None:
    exe = opstep.Executor()
    while not options.until.exists():
        exe.run(main, feed={"x": np.ones(4, np.float32)}, fetch_list=[z])  # @run
        time.sleep(0.001)


started = time.monotonic()
opstep.Executor().run(main, feed={"x": np.ones(4, np.float32)}, fetch_list=[z])  # @first
print(f"first run {time.monotonic() - started:.3f}", flush=True)
workers = [threading.Thread(target=work) for _ in range(options.threads)]
for worker in workers:
    worker.start()
try:
    if not workers:
        work()
    for worker in workers:
        worker.join()
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("done", flush=True)
