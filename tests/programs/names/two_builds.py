"""A program that is built after another one has run, and a third that never runs."""

import numpy as np

import opstep
from opstep import layers


def built(layer):
    program = opstep.Program("main")
    with opstep.program_guard(program, opstep.Program("startup")):
        return program, layer(layers.data("x", [1]))


def run(program, out):
    opstep.Executor().run(program, {"x": np.ones(1, np.float32)}, [out])


run(*built(lambda x: layers.relu(x)))  # @first
run(*built(lambda x: layers.tanh(x)))  # @second
built(lambda x: layers.exp(x))  # @unused
