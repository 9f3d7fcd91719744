"""Linear regression as one program: it reads its data, trains and tests by itself.

As ../linear_regression.py, the lower half of a handwritten digit from its upper half, but with no
Python in the loop: `exe.run` is called once.
"""

import sys
import tempfile

import numpy as np

import opstep
from opstep import datasets, layers, pictures, readers, records

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 100)
BAR = 0.33  # share of the variance that must be explained, on test images

# %% The data as record files, 1,437 images to learn from and 360 to test with.
folder = tempfile.TemporaryDirectory()
halves = {}
for part in ("train", "test"):
    (images,) = (batch["x"].reshape(-1, 64) for batch in datasets.digits(part, batch=1437))
    halves[part] = images[:, :32], images[:, 32:]
    fields = {"x": ("float32", [32]), "y": ("float32", [32])}
    with records.Writer(f"{folder.name}/{part}.rec", fields) as writer:
        writer.write_batch(x=halves[part][0], y=halves[part][1])
train = readers.records(f"{folder.name}/train.rec").shuffle(1437).batch(96).repeat(EPOCHS)
test = readers.records(f"{folder.name}/test.rec").batch(360)


# %% The program.
def network(x, y):
    guess = layers.fc(x, size=32)
    loss = layers.mean(layers.square_error_cost(guess, y))
    rate = opstep.lr.CosineDecay(0.02, steps=EPOCHS * 15)
    opstep.optimizer.Adam(rate).minimize(loss)
    return loss


main, startup = opstep.Program("linear_regression"), opstep.Program("startup")
with opstep.program_guard(main, startup), (loop := train.iterate()) as (x, y):
    loss = network(x, y)
    with loop.every(10 * 15):
        losses = loop.fetch(loop.evaluate(test, loss), name="test_loss")
main

# %% The training: one run.
exe = opstep.Executor()
exe.run(startup)
(values,) = exe.run(main, fetch_list=[losses])
pictures.curve(values, title="test loss, every 10 passes")

# %% The result.
truth = halves["test"][1]
last = values[-1] if len(values) else np.inf
explained = 1 - last * truth.size / ((truth - truth.mean(axis=0)) ** 2).sum()
print(f"explained variance {explained:.1%}")
if not explained >= BAR:
    sys.exit(f"that is less than {BAR:.0%}")
