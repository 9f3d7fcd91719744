"""Trains a small network for a number of steps; prints a digest of its parameters.

tapped.py [STEPS] [UNTIL]: so many steps, and on until the file UNTIL is there.
"""

import hashlib
import os
import sys

import numpy as np

import opstep
from opstep import layers

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
until = sys.argv[2] if len(sys.argv) > 2 else ""

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 16])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    hidden = layers.fc(x, size=32, act="relu")
    logits = layers.fc(hidden, size=4)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    opstep.optimizer.SGD(learning_rate=0.1).minimize(loss)

random = np.random.default_rng(0)
exe = opstep.Executor()
exe.run(startup)
feed = {
    "x": random.standard_normal((8, 16)).astype(np.float32),
    "label": random.integers(0, 4, (8, 1)),
}
done = 0
while done < steps or (until and not os.path.exists(until)):
    exe.run(main, feed=feed, fetch_list=[loss])
    done += 1

digest = hashlib.sha256()
scope = opstep.global_scope()
for name in scope.names():
    digest.update(name.encode() + scope.find(name).tobytes())
print("done", done, digest.hexdigest()[:16], flush=True)
