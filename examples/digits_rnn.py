"""A recurrent network that reads handwritten digits row by row: 8 steps of 8 pixels each."""

import sys

import opstep
from opstep import datasets, layers, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 20)
BAR = 0.95

# %% The data: images in shuffled order, 1,437 to learn from and 360 to test with.
digits, _ = datasets.digits("all", batch=1797)()
images, labels = digits["x"].reshape(-1, 8, 8), digits["label"]

# %% The network.
main, startup = opstep.Program("digits_rnn"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 8, 8])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    rows = layers.transpose(x, [1, 0, 2])  # steps first
    rnn = layers.Recurrent()
    with rnn.step():
        row = rnn.step_input(rows)
        before = rnn.memory(shape=[64])
        hidden = layers.fc(layers.concat([row, before], axis=1), size=64, act="tanh")
        rnn.update(before, hidden)
        rnn.output(hidden)
    hiddens = rnn()
    logits = layers.fc(hiddens[-1], size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    accuracy = layers.accuracy(logits, label)
    rate = opstep.lr.LinearWarmup(opstep.lr.CosineDecay(0.01, steps=EPOCHS * 44), steps=50)
    opstep.optimizer.Adam(rate, grad_clip=opstep.clipping.ClipByGlobalNorm(1.0)).minimize(loss)
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
    if epoch % 5 == 0:
        print(f"epoch {epoch:2}: loss {loss_now:.4f}")
pictures.curve(losses, title="loss")

# %% Predictions for test images.
held_out = {"x": images[1437:], "label": labels[1437:]}
right, scores = exe.run(test, held_out, [accuracy, logits])
print(f"test accuracy {right:.1%}")
if right < BAR:
    sys.exit(f"that is less than {BAR:.0%}")
pictures.images(images[1437:], scores.argmax(axis=1), truth=labels[1437:])
