"""A classifier of sequences of different lengths, trained as one program.

As ../sequences.py: does the first symbol come again? A record has one sequence; the reader puts
them together into ragged batches.
"""

import sys
import tempfile

import opstep
from opstep import datasets, layers, pictures, readers, records

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 12)
BAR = 0.95
SYMBOLS, HIDDEN = 4, 24

# %% The data: 1,024 sequences of 3 to 8 symbols to learn from, and 500 others to test with.
folder = tempfile.TemporaryDirectory()
for name, count, seed in (("train", 1024, 1), ("test", 500, 2)):
    data = datasets.sequences(count, steps=8, shortest=3, symbols=SYMBOLS, seed=seed, batch=count)
    fields = {"x": ("int64", [None]), "label": ("int64", [1])}
    with records.Writer(f"{folder.name}/{name}.rec", fields) as writer:
        for batch in data:
            for sequence, label in zip(batch["x"], batch["label"], strict=True):
                writer.write(x=sequence, label=label)
train = readers.records(f"{folder.name}/train.rec").shuffle(1024).batch(64).repeat(EPOCHS)
test = readers.records(f"{folder.name}/test.rec").batch(250)


# %% The program.
def network(x, label):
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
    return loss, layers.accuracy(scores, label)


main, startup = opstep.Program("sequences"), opstep.Program("startup")
with opstep.program_guard(main, startup), (loop := train.iterate()) as (x, label):
    loss, accuracy = network(x, label)
    with loop.every(4 * 16):
        rights = loop.fetch(loop.evaluate(test, accuracy), name="test_accuracy")
main

# %% The training: one run.
exe = opstep.Executor()
exe.run(startup)
(accuracies,) = exe.run(main, fetch_list=[rights])
for number, share in enumerate(accuracies, 1):
    print(f"epoch {4 * number:2}: test accuracy {share:.1%}")
if not (len(accuracies) and accuracies[-1] >= BAR):
    sys.exit(f"that is less than {BAR:.0%}")
pictures.curve(accuracies, title="test accuracy, every 4 passes")
