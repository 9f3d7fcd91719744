"""Train a small network to read handwritten digits, 8×8 pixels each."""

import sys
from pathlib import Path

import numpy as np

import opstep
from opstep import layers

BAR = 0.95

# The data: images in shuffled order, 1,437 to learn from and 360 to test with.
digits = np.load(Path(__file__).parent / "data" / "digits.npz")
order = np.random.default_rng(0).permutation(len(digits["labels"]))
images = digits["images"].reshape(-1, 64)[order].astype(np.float32) / 16
labels = digits["labels"].reshape(-1, 1)[order].astype(np.int64)
train_images, test_images = images[:1437], images[1437:]
train_labels, test_labels = labels[:1437], labels[1437:]

# The network, and beside it the program that gives its parameters their first values.
main, startup = opstep.Program("digits"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 64])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    hidden = layers.fc(x, size=32, act="relu")
    logits = layers.fc(hidden, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    accuracy = layers.accuracy(logits, label)
    opstep.optimizer.SGD(learning_rate=0.2).minimize(loss)

# The same network without training steps, to test with. It finds the parameters by their names.
test = main.clone(for_test=True)

exe = opstep.Executor()
exe.run(startup)
for epoch in range(1, 31):
    for at in range(0, len(train_images) - 31, 32):
        batch = {"x": train_images[at : at + 32], "label": train_labels[at : at + 32]}
        loss_now, accuracy_now = exe.run(main, feed=batch, fetch_list=[loss, accuracy])
    if epoch % 5 == 0:
        (right,) = exe.run(
            test, feed={"x": test_images, "label": test_labels}, fetch_list=[accuracy]
        )
        print(f"epoch {epoch:2}: loss {loss_now:.4f}, test accuracy {right:.1%}")
sys.exit(0 if right >= BAR else 1)
