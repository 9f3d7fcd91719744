"""A function with a loop and a branch that depend on values, compiled by to_graph, then saved."""

import sys

import numpy as np

import opstep
from opstep import layers


def settled(x):
    turns = 0
    while layers.reduce_max(layers.abs(x)) > 1.0:  # @while
        x = x * 0.5  # @halve
        turns += 1
    if x.sum() > 0:  # @if
        y = layers.exp(x)  # @yes
    else:
        y = layers.tanh(x)  # @no
    return y, turns


compiled = opstep.to_graph(settled)
x = np.array([3.0, -1.0, 8.0], np.float32)
for sign in (1.0, -1.0):
    y, turns = compiled(x * np.float32(sign))  # @call
    print(f"turns {turns}, {y.sum():.6f}", flush=True)
if len(sys.argv) > 1:
    program = compiled.program(x)
    opstep.save_model(sys.argv[1], program.feeds, program.fetches, program=program)
