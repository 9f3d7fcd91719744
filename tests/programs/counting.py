"""Counts to --count in a loop, in each of --runs runs over a vector that grows by one each time."""

import argparse

import numpy as np

import opstep
from opstep import layers

parser = argparse.ArgumentParser()
parser.add_argument("--count", type=int, default=10)
parser.add_argument("--runs", type=int, default=1)
options = parser.parse_args()

main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None])
    total = layers.assign(x)  # @before
    i = layers.fill([1], 0, "int64")
    running = layers.less_than(i, options.count)
    loop = layers.While(running)
    with loop.block():
        layers.assign(layers.add(total, 1.0), out=total)  # @add
        layers.increment(i)  # @count
        layers.less_than(i, options.count, out=running)  # @again
    result = layers.reduce_sum(total)  # @after

exe = opstep.Executor()
exe.run(startup)
for run in range(options.runs):
    feed = {"x": np.zeros(run + 1, np.float32)}
    (value,) = exe.run(main, feed=feed, fetch_list=[result])
    print(f"result {float(value):g}", flush=True)
