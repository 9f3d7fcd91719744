"""The commands in the documents, and a folder with the files that they use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from harness.patience import SECONDS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "ide_plugins/*/README.md", "examples/**/README.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)
# A command in a block of code, with its environment before it.
_COMMAND = re.compile(r"(?:\$ )?((?:[A-Z_]+=\S+ )*(?:opstep|python) .*)")
_COMMENT = re.compile(r"\s{2,}#.*")
_TYPED = re.compile(r"\(opstep\) (.+)")

# `python train.py` for ever with --forever, otherwise a few runs; line 41 makes ops.
TRAIN = """
import argparse
import sys
import threading
import numpy as np
import opstep
from opstep import layers
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--forever", action="store_true")
options = parser.parse_args()
exe = opstep.Executor()
main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 1, 8, 8])
    label = layers.data("label", shape=[None, 1], dtype="int64")
    image = layers.reshape(layers.conv2d(x, 2, 3, act="relu"), [-1, 72])
@    hidden = layers.fc(image, size=8, act="relu")
    scores = layers.fc(hidden, size=10)
    loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
    opstep.optimizer.SGD(learning_rate=0.1).minimize(loss)
random = np.random.default_rng(0)
feed = {
    "x": random.standard_normal((4, 1, 8, 8), dtype=np.float32),
    "label": random.integers(0, 10, (4, 1)),
}
exe.run(startup)
over = threading.Event()
if options.forever:
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("ready", flush=True)
# Not as fast as it can: others need the machine too.
while options.forever and not over.wait(0.005):
    exe.run(main, feed, [loss])
for _ in range(0 if options.forever else options.epochs):
    exe.run(main, feed, [loss])
"""
# Makes the logs for 'opstep log view' and 'report'.
ALL_TAPS = """
[sinks.main]
kind = "jsonl"
path = "logs"

[[tap]]
ops = "*"
"""
# Saved programs, a model and records, as the README makes them.
MAKE = """
import numpy as np
import opstep
from opstep import layers
random = np.random.default_rng(0)
images = random.standard_normal((64, 8), dtype=np.float32)
labels = random.integers(0, 10, (64, 1))
np.save("images.npy", images)
np.savez("digits.npz", x=images, label=labels)
main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    x = layers.data("x", shape=[None, 8])
    logits = layers.fc(layers.fc(x, size=4, act="relu"), size=10)
    layers.mean(logits)
opstep.Executor().run(startup)
opstep.save_model("digits_model", feeds=[x], fetches=[logits], program=main)
main.save("main.opstep")
startup.save("startup.opstep")
"""
MAKE_TRAINING = """
import opstep
from opstep import layers
main, startup = opstep.Program("main"), opstep.Program("startup")
with opstep.program_guard(main, startup):
    rate = layers.setting("lr", 0.05)
    train = opstep.readers.records("train.rec").shuffle(1000, seed=7).batch(32).repeat(20)
    with (loop := train.iterate(name="train")) as (x, label):
        scores = layers.fc(layers.fc(x, size=4, act="relu"), size=10)
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, label))
        opstep.optimizer.Adam(rate).minimize(loss)
        losses = loop.fetch(loss, every=100, name="loss")
opstep.merge(startup, main).save("train.opstep")
"""


def commands() -> list[tuple[str, str]]:
    """(document:line, command) of each command in a block of code, once."""
    found: dict[str, str] = {}
    for path, number, line in _lines():
        if match := _COMMAND.fullmatch(line.strip()):
            found.setdefault(_COMMENT.sub("", match[1]), f"{path.relative_to(ROOT)}:{number}")
    return [(place, command) for command, place in found.items()]


def typed() -> list[tuple[str, str]]:
    """(document:line, typed text) at the debugger's prompt."""
    return [
        (f"{path.relative_to(ROOT)}:{number}", match[1])
        for path, number, line in _lines()
        if (match := _TYPED.fullmatch(line.strip()))
    ]


def _lines() -> list[tuple[Path, int, str]]:
    """The lines between fences."""
    lines = []
    for path in DOCUMENTS:
        inside = False
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if line.lstrip().startswith("```"):
                inside = not inside
            elif inside:
                lines.append((path, number, line))
    return lines


def taps_file() -> str:
    """The file of taps in docs/taps.md."""
    return (ROOT / "docs" / "taps.md").read_text().partition("```toml\n")[2].partition("```")[0]


def make_folder(folder: Path) -> None:
    before, _, after = TRAIN.lstrip("\n").partition("@")
    lines = before.splitlines()
    text = "\n".join([*lines[:5], *[""] * (40 - len(lines)), *lines[5:]]) + "\n" + after
    assert text.splitlines()[40].strip().startswith("hidden =")
    (folder / "train.py").write_text(text)
    (folder / "taps.toml").write_text(taps_file())
    (folder / "all.toml").write_text(ALL_TAPS)
    for script in (MAKE, "", MAKE_TRAINING):
        if script:
            subprocess.run([sys.executable, "-c", script], cwd=folder, check=True, timeout=SECONDS)
        else:
            opstep = Path(sys.executable).with_name("opstep")
            for name in ("digits.rec", "train.rec"):
                subprocess.run(
                    [opstep, "records", "convert", "digits.npz", name],
                    cwd=folder, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL,
                )  # fmt: skip
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=folder, check=True, timeout=SECONDS, capture_output=True,
    )  # fmt: skip
    random = np.random.default_rng(0)
    token = folder / "token"
    token.write_text(random.bytes(16).hex() + "\n")
    token.chmod(0o600)
    (folder / "key.pem").chmod(0o600)
