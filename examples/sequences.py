"""A recurrent network over sequences of different lengths: does the first symbol come again?"""

import sys

import opstep
from opstep import datasets, layers, metrics, pictures

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 12)
BAR = 0.95
SYMBOLS, HIDDEN = 4, 24

# %% The data: 1,024 sequences of 3 to 8 symbols to learn from, and 500 others to test with.
data = {"steps": 8, "shortest": 3, "symbols": SYMBOLS}
train = datasets.sequences(1024, **data, seed=1, batch=64, shuffle=0)
test = datasets.sequences(500, **data, seed=2, batch=500)

# %% The model.
main, startup = opstep.Program("sequences"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None], dtype="int64", lod_level=1)
    label = layers.data("label", shape=[None, 1], dtype="int64")
    symbols = layers.embedding(x, [SYMBOLS, 8])
    # Every step of a sequence sees the first one.
    first = layers.sequence_expand(layers.sequence_first_step(symbols), symbols)
    rnn = layers.Recurrent()
    with rnn.step():
        inputs = layers.concat([rnn.step_input(symbols), rnn.step_input(first)], axis=1)
        before = rnn.memory(shape=[HIDDEN])
        hidden = layers.fc(layers.concat([inputs, before], axis=1), size=HIDDEN, act="tanh")
        rnn.update(before, hidden)
    rnn()
    scores = layers.fc(rnn.final[0], size=2)  # of each sequence's own last step
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
    opstep.optimizer.Adam(0.01).minimize(loss)
judge = main.clone(for_test=True)
judge

# %% The training.
exe = opstep.Executor()
exe.run(startup)
losses = []
for epoch in range(1, EPOCHS + 1):
    for batch in train:
        (loss_now,) = exe.run(main, batch, [loss])
        losses.append(loss_now)
    if epoch % 4 == 0:
        print(f"epoch {epoch:2}: loss {loss_now:.4f}")
pictures.curve(losses, title="loss")

# %% The accuracy on test sequences.
accuracy = metrics.Accuracy()
for batch in test:
    (given,) = exe.run(judge, batch, [scores])
    accuracy.append(given, batch["label"])
print(f"test accuracy {accuracy.value:.1%}")
if not accuracy.value >= BAR:
    sys.exit(f"that is less than {BAR:.0%}")
accuracy
