"""Trains on the digits, with a loop inside, then prints a digest of all parameters and losses.

With --until it trains anew, from the same first parameters, until that file is there; each training
must end with the same digest.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np

import opstep
from opstep import layers

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=400)
parser.add_argument("--until", type=Path)
options = parser.parse_args()

data = np.load(Path(opstep.datasets.__file__).parent / "digits.npz")
images = (data["images"].reshape(len(data["images"]), 64) / 16).astype(np.float32)
labels = data["labels"].astype(np.int64).reshape(-1, 1)

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 64])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    hidden = layers.fc(x, size=32, act="relu")
    hidden = layers.fc(hidden, size=32, act="tanh")
    logits = layers.fc(hidden, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    opstep.optimizer.SGD(learning_rate=0.1).minimize(loss)

    # Beside it a block that runs several times in each run, so that pauses also fall into a loop.
    total = layers.assign(logits)
    count = layers.fill([1], 0, dtype="int64")
    limit = layers.fill([1], 5, dtype="int64")
    going = count < limit
    loop = layers.While(going)
    with loop.block():
        layers.assign(layers.tanh(total + logits), out=total)
        layers.increment(count)
        layers.assign(count < limit, out=going)

exe = opstep.Executor()
exe.run(startup)
scope = opstep.global_scope()
first = {name: scope.find(name).copy() for name in scope.names()}


def train() -> str:
    for name, value in first.items():
        scope.set(name, value)
    random = np.random.default_rng(0)
    digest = hashlib.sha256()
    for _ in range(options.steps):
        rows = random.integers(0, len(images), 64)
        values = exe.run(
            main, feed={"x": images[rows], "label": labels[rows]}, fetch_list=[loss, total]
        )
        for value in values:
            digest.update(value.tobytes())
    for name in scope.names():
        digest.update(name.encode() + scope.find(name).tobytes())
    return digest.hexdigest()


digests = {train()}
while options.until and not options.until.exists():
    digests.add(train())
print("digest", *digests, flush=True)
