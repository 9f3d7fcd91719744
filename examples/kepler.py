"""A loop and a branch in plain Python, line by line and compiled: where planets are on orbits.

Kepler's equation, angle - e * sin(angle) = mean, is solved by Newton's method until it holds.
"""

import numpy as np

import opstep
from opstep import imperative, layers, pictures


# %% The function, written as for values.
def position(mean, eccentricity):
    if layers.reduce_max(eccentricity) > 0.8:  # from near the sun Newton's method may jump away
        angle = layers.fill_like(mean, np.pi)
    else:
        angle = mean
    turns = 0
    while True:
        wrong = angle - eccentricity * layers.sin(angle) - mean
        if layers.reduce_max(layers.abs(wrong)) < 1e-5:
            return angle, turns
        angle = angle - wrong / (1.0 - eccentricity * layers.cos(angle))
        turns += 1


# %% Line by line.
time = np.linspace(0.0, 6.0, 13, dtype=np.float32)
orbits = {"Mercury": 0.206, "Halley's comet": 0.967}
values = {}
with imperative.guard():
    for name, e in orbits.items():
        shape = np.full_like(time, e)
        angle, turns = position(imperative.to_variable(time), imperative.to_variable(shape))
        values[name] = angle.numpy()
        print(f"{name}: {turns} turns")
pictures.curve(values, title="angle")

# %% Compiled: the if and the while are ops of a program now.
compiled = opstep.to_graph(position)
same = True
for name, e in orbits.items():
    angle, turns = compiled(time, np.full_like(time, e))
    same &= angle.tobytes() == values[name].tobytes()
    print(f"{name}, compiled: {turns} turns")
print(f"the same bits: {same}")

# %% The program, for orbits of any number of planets: opstep.save_model would save it.
program = compiled.program(opstep.Spec([None]), opstep.Spec([None]))
program
