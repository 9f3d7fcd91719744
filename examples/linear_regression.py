"""Linear regression on real data: the lower half of a handwritten digit from its upper half.

Each image has 8×8 pixels; the 32 below are roughly a linear function of the 32 above.
The learned function is compared with the exact solution of least squares.
"""

import sys

import numpy as np

import opstep
from opstep import datasets, layers, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 150)
BAR = 0.33  # share of the variance that must be explained, on test images

# %% The data: images in shuffled order, 1,437 to learn from and 360 to test with.
digits, _ = datasets.digits("all", batch=1797)()
images = digits["x"].reshape(-1, 64)
upper, lower = images[:, :32], images[:, 32:]

# %% The model.
main, startup = opstep.Program("linear_regression"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 32])
    y = layers.data("y", shape=[None, 32])
    guess = layers.fc(x, size=32)
    loss = layers.mean(layers.square_error_cost(guess, y))
    opstep.optimizer.Adam(opstep.lr.CosineDecay(0.02, steps=EPOCHS * 15)).minimize(loss)
test = main.clone(for_test=True)
test

# %% The training.
exe = opstep.Executor()
exe.run(startup)
step = opstep.compile(main, feeds=[x, y], fetches=[loss])
losses = []
for epoch in range(1, EPOCHS + 1):
    for at in range(0, 1437 - 95, 96):
        (loss_now,) = step(upper[at : at + 96], lower[at : at + 96])
        losses.append(loss_now)
    if epoch % 50 == 0:
        print(f"epoch {epoch:3}: loss {loss_now:.5f}")
pictures.curve(losses, title="loss")


# %% The result on test images.
def explained(guesses):
    """1 for perfect guesses, 0 for always guessing the mean."""
    truth = lower[1437:]
    return 1 - ((guesses - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum()


(guesses,) = exe.run(test, {"x": upper[1437:], "y": lower[1437:]}, [guess])
learned = explained(guesses)
ones = np.ones((len(upper), 1))
solution, *_ = np.linalg.lstsq(np.hstack([upper, ones])[:1437], lower[:1437], rcond=None)
exact = explained(np.hstack([upper, ones])[1437:] @ solution)
print(f"explained variance {learned:.1%}, by the exact solution {exact:.1%}")
if not learned >= BAR:
    sys.exit(f"that is less than {BAR:.0%}")
pictures.images(np.hstack([upper[1437:], guesses]).reshape(-1, 8, 8), limit=12)
