"""A small convolutional network that reads handwritten digits, 8×8 pixels each."""

import sys

import opstep
from opstep import datasets, layers, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 12)
BAR = 0.98

# %% The data: images in shuffled order, 1,437 to learn from and 360 to test with.
digits, _ = datasets.digits("all", batch=1797)()
images, labels = digits["x"], digits["label"]

# %% The network.
main, startup = opstep.Program("digits_conv"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 1, 8, 8])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    features = layers.conv2d(x, filters=16, kernel=3, padding="same", bias=False)
    features = layers.pool2d(layers.batch_norm(features, act="relu"), kernel=2)
    features = layers.conv2d(features, filters=32, kernel=3, padding="same", bias=False)
    features = layers.pool2d(layers.batch_norm(features, act="relu"), kernel=2)
    logits = layers.fc(layers.dropout(features, 0.3), size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    accuracy = layers.accuracy(logits, label)
    rate = opstep.lr.CosineDecay(0.01, steps=EPOCHS * 44)
    opstep.optimizer.Adam(rate, grad_clip=opstep.clipping.ClipByGlobalNorm(5.0)).minimize(loss)
# Without its training step, dropout and the moments of single batches.
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
    if epoch % 4 == 0:
        print(f"epoch {epoch:2}: loss {loss_now:.4f}")
pictures.curve(losses, title="loss")

# %% Predictions for test images.
held_out = {"x": images[1437:], "label": labels[1437:]}
right, scores = exe.run(test, held_out, [accuracy, logits])
print(f"test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
pictures.images(images[1437:], scores.argmax(axis=1), truth=labels[1437:])

# %% The first convolution's filters, one a row.
main.global_block().var("conv2d_0.w")
