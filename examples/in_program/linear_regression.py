"""Linear regression as one program: it reads its data, trains and tests by itself.

As ../linear_regression.py, the lower half of a handwritten digit from its upper half, but with no
Python in the loop: `exe.run` is called once.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import opstep
from opstep import layers, readers, records

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
BAR = 0.33  # share of the variance that must be explained, on images not learned from

# The data as record files, 1,437 images to learn from and 360 to test with.
digits = np.load(Path(__file__).parents[1] / "data" / "digits.npz")
order = np.random.default_rng(0).permutation(len(digits["labels"]))
images = digits["images"].reshape(-1, 64)[order].astype(np.float32) / 16
upper, lower = images[:, :32], images[:, 32:]
folder = tempfile.TemporaryDirectory()
for name, rows in (("train", slice(1437)), ("test", slice(1437, None))):
    fields = {"x": ("float32", [32]), "y": ("float32", [32])}
    with records.Writer(f"{folder.name}/{name}.rec", fields) as writer:
        writer.write_batch(x=upper[rows], y=lower[rows])
train = readers.records(f"{folder.name}/train.rec").shuffle(1437).batch(96).repeat(EPOCHS)
test = readers.records(f"{folder.name}/test.rec").batch(360)


def network(x, y):
    guess = layers.fc(x, size=32)
    loss = layers.mean(layers.square_error_cost(guess, y))
    rate = opstep.lr.CosineDecay(0.02, steps=EPOCHS * 15)
    opstep.optimizer.Adam(rate).minimize(loss)
    return loss


main, startup = opstep.Program("linear_regression"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    with (loop := train.iterate()) as (x, y):
        loss = network(x, y)
        with loop.every(10 * 15):
            losses = loop.fetch(loop.evaluate(test, loss), name="test_loss")

exe = opstep.Executor()
exe.run(startup)
(values,) = exe.run(main, fetch_list=[losses])
if len(values):
    print("test loss", *(f"{value:.5f}" for value in values))
truth = lower[1437:]
last = values[-1] if len(values) else np.inf
explained = 1 - last * truth.size / ((truth - truth.mean(axis=0)) ** 2).sum()
print(f"explained variance {explained:.1%}")
sys.exit(0 if explained >= BAR else 1)
