"""Softmax regression: one layer that reads handwritten digits, 8×8 pixels each."""

import sys

import opstep
from opstep import datasets, layers, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 40)
BAR = 0.95

# %% The data: images in shuffled order, 1,437 to learn from and 360 to test with.
digits, _ = datasets.digits("all", batch=1797)()
images, labels = digits["x"].reshape(-1, 64), digits["label"]

# %% The network.
main, startup = opstep.Program("softmax_regression"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 64])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    logits = layers.fc(x, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    accuracy = layers.accuracy(logits, label)
    opstep.optimizer.Momentum(
        opstep.lr.PolynomialDecay(0.2, steps=EPOCHS * 44), weight_decay=1e-4
    ).minimize(loss)
test = main.clone(for_test=True)
test

# %% The training.
exe = opstep.Executor()
exe.run(startup)
step = opstep.compile(main, feeds=[x, label], fetches=[loss])
losses = []
for epoch in range(1, EPOCHS + 1):
    for at in range(0, 1437 - 31, 32):
        (loss_now,) = step(images[at : at + 32], labels[at : at + 32])
        losses.append(loss_now)
    if epoch % 10 == 0:
        print(f"epoch {epoch:2}: loss {loss_now:.4f}")
pictures.curve(losses, title="loss")

# %% The weights of each digit, as an image: where it is light, ink speaks for the digit.
weights = opstep.global_scope().find("fc_0.w")
pictures.images(weights.T.reshape(10, 8, 8), range(10))

# %%
(right,) = exe.run(test, {"x": images[1437:], "label": labels[1437:]}, [accuracy])
print(f"test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
