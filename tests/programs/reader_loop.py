"""A network trained by a loop of the program over a record file; the batches' last one is small."""

import argparse
import hashlib
import os
import tempfile

import numpy as np

import opstep
from opstep import layers, readers, records

parser = argparse.ArgumentParser()
parser.add_argument("--passes", type=int, default=2)
options = parser.parse_args()

rng = np.random.default_rng(4)
x = rng.normal(size=(40, 8)).astype(np.float32)
fields = {"x": ("float32", [8]), "y": ("float32", [1])}
folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "data.rec")
with records.Writer(path, fields) as writer:
    writer.write_batch(x=x, y=x.sum(axis=1, keepdims=True))

main, startup = opstep.Program("main"), opstep.Program("startup")
main.random_seed = 3
with opstep.program_guard(main, startup):
    train = readers.records(path).shuffle(40, seed=1).batch(16).repeat(options.passes)
    with (loop := train.iterate(name="train")) as (x, y):
        hidden = layers.fc(x, size=4, act="tanh")  # @hidden
        loss = layers.mean(layers.square_error_cost(layers.fc(hidden, size=1), y), name="loss")
        opstep.optimizer.Adam(0.05).minimize(loss)
        losses = loop.fetch(loss, name="loss")

exe = opstep.Executor()
exe.run(startup)
(values,) = exe.run(main, fetch_list=[losses])
digest = hashlib.sha256(values.tobytes())
scope = opstep.global_scope()
for name in scope.names():
    digest.update(name.encode() + scope.find(name).tobytes())
print("digest", digest.hexdigest(), len(values), flush=True)
