"""Trains two layers on noise; prints the loss of each step and, at the end, writes --mark."""

import argparse
from pathlib import Path

import numpy as np

import opstep
from opstep import layers

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--mark", type=Path, help="a file to write the last loss into")
options = parser.parse_args()

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 8])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    hidden = layers.fc(x, size=4, act="relu")  # @hidden
    logits = layers.fc(hidden, size=3)  # @logits
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))  # @loss
    opstep.optimizer.SGD(learning_rate=0.1).minimize(loss)  # @minimize

random = np.random.default_rng(0)
exe = opstep.Executor()
exe.run(startup)
for _ in range(options.steps):
    images = random.standard_normal((16, 8), dtype=np.float32)
    labels = random.integers(0, 3, (16, 1))
    (value,) = exe.run(main, feed={"x": images, "label": labels}, fetch_list=[loss])  # @run
    print(f"loss {float(value):.6f}", flush=True)
if options.mark:
    options.mark.write_text(f"{float(value):.9g}")
