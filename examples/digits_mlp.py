"""Train a small network to read handwritten digits, 8×8 pixels each."""

import sys

import opstep
from opstep import datasets, layers, pictures

BAR = 0.95

# %% The data: images in shuffled order, 1,437 to learn from and 360 to test with.
train, _ = datasets.digits("train", batch=1437)()
held_out, _ = datasets.digits("test", batch=360)()
train_images, test_images = train["x"].reshape(-1, 64), held_out["x"].reshape(-1, 64)
train_labels, test_labels = train["label"], held_out["label"]
pictures.images(train["x"], train_labels)

# %% The network, and beside it the program that gives its parameters their first values.
main, startup = opstep.Program("digits"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 64])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    hidden = layers.fc(x, size=32, act="relu")
    logits = layers.fc(hidden, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    accuracy = layers.accuracy(logits, label)
    opstep.optimizer.SGD(learning_rate=0.2).minimize(loss)
main

# %% The same network without training steps, to test with. It finds the parameters by their names.
test = main.clone(for_test=True)
pictures.graph(test)

# %% The training.
exe = opstep.Executor()
exe.run(startup)
losses = []
for epoch in range(1, 31):
    for at in range(0, len(train_images) - 31, 32):
        batch = {"x": train_images[at : at + 32], "label": train_labels[at : at + 32]}
        loss_now, accuracy_now = exe.run(main, feed=batch, fetch_list=[loss, accuracy])
        losses.append(loss_now)
    if epoch % 5 == 0:
        right, scores = exe.run(
            test, feed={"x": test_images, "label": test_labels}, fetch_list=[accuracy, logits]
        )
        print(f"epoch {epoch:2}: loss {loss_now:.4f}, test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
pictures.curve(losses, title="loss")

# %% Predictions for test images.
pictures.images(held_out["x"], scores.argmax(axis=1), truth=test_labels)
