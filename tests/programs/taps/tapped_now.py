"""Imperative mode with taps: some training steps, the last of which meets a NaN; prints a digest.

With a folder as its second argument it taps itself.
"""

import hashlib
import sys
import time

import numpy as np

import opstep
from opstep import imperative, layers

steps = int(sys.argv[1])
model = imperative.Sequential(imperative.FC(4, act="relu"), imperative.FC(1))
sgd = opstep.optimizer.SGD(0.1)
rng = np.random.default_rng(0)
tap = opstep.debug.tap("relu", every=2, to=sys.argv[2], name="own") if sys.argv[2:] else None

with imperative.guard():
    for step in range(1, steps + 1):
        x = imperative.to_variable(rng.normal(size=(8, 3)).astype(np.float32))
        scaled = x * float(step)  # @scaled
        loss = layers.mean(model(scaled))
        sgd.minimize(loss, parameters=model.parameters())
    root = layers.sqrt(imperative.to_variable(np.array([4.0, -1.0], np.float32)))

if tap is not None:
    while tap.counts()["waiting"]:
        time.sleep(0.01)
    print(tap.counts()["delivered"], len(tap.ops) if isinstance(tap.ops, list) else tap.ops)
digest = hashlib.sha256(b"".join(p.numpy().tobytes() for p in model.parameters()))
print(digest.hexdigest())
