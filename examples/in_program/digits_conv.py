"""A convolutional network that reads handwritten digits, trained as one program.

The loop, its evaluation after each pass and its end when the digits are read well enough are ops.
The program in train.opstep can be run without this file: `opstep run train.opstep`.
"""

import sys
import tempfile

import numpy as np

import opstep
from opstep import datasets, layers, pictures, readers, records

EPOCHS = next((int(word) for word in sys.argv[1:] if word.isdigit()), 12)
BAR = 0.98

# %% The data as record files, 1,437 images to learn from and 360 to test with.
folder = tempfile.TemporaryDirectory()
for part in ("train", "test"):
    fields = {"image": ("uint8", [8, 8]), "label": ("int64", [1])}
    with records.Writer(f"{folder.name}/{part}.rec", fields) as writer:
        for batch in datasets.digits(part):
            pixels = (batch["x"] * 16).astype(np.uint8).reshape(-1, 8, 8)
            writer.write_batch(image=pixels, label=batch["label"])


def prepared(image, label):
    """Changes each record, on the reader's thread."""
    pixels = layers.reshape(layers.cast(image, "float32"), [1, 8, 8]) / 16.0
    return {"x": pixels, "label": label}


train = readers.records(f"{folder.name}/train.rec").shuffle(500, seed=1).map(prepared)
train = train.batch(32, drop_last=True).repeat(EPOCHS)
test = readers.records(f"{folder.name}/test.rec").map(prepared).batch(90)


# %% The program.
def network(x, label):
    features = layers.conv2d(x, filters=16, kernel=3, padding="same", bias=False)
    features = layers.pool2d(layers.batch_norm(features, act="relu"), kernel=2)
    features = layers.conv2d(features, filters=32, kernel=3, padding="same", bias=False)
    features = layers.pool2d(layers.batch_norm(features, act="relu"), kernel=2)
    logits = layers.fc(layers.dropout(features, 0.3), size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(logits, label))
    rate = opstep.lr.CosineDecay(0.01, steps=EPOCHS * 44)
    opstep.optimizer.Adam(rate, grad_clip=opstep.clipping.ClipByGlobalNorm(5.0)).minimize(loss)
    return loss, layers.accuracy(logits, label)


main, startup = opstep.Program("digits_conv"), opstep.Program("startup")
with opstep.program_guard(main, startup), (loop := train.iterate()) as (x, label):
    loss, accuracy = network(x, label)
    losses = loop.fetch(loss, every=44, name="loss")
    with loop.every(44):
        right = loop.evaluate(test, accuracy)
        rights = loop.fetch(right, name="test_accuracy")
        loop.stop_when(layers.less_than(0.992, right))
main

# %% The training: one run, of a program that also gives the parameters their first values.
whole = opstep.merge(startup, main)
whole.save(f"{folder.name}/train.opstep")
exe = opstep.Executor()
passes, accuracies = exe.run(whole, fetch_list=[losses, rights])
for epoch, (value, share) in enumerate(zip(passes, accuracies, strict=True), 1):
    print(f"epoch {epoch:2}: loss {value:.4f}, test accuracy {share:.1%}")
if not (len(accuracies) and accuracies[-1] >= BAR):
    sys.exit(f"that is less than {BAR:.0%}")
pictures.curve({"loss": passes, "test accuracy": accuracies}, title="by passes")
