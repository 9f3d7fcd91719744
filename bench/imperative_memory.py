"""Memory that training steps need in imperative mode beside PyTorch eager: the growth of a process
after its imports, with a process for each model and library."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import peers
from table import Row

BATCH, HIDDEN, STEPS = 1024, 2048, 5
STATUS = Path("/proc/self/status")


def _mlp(library: str) -> peers.Run:
    import imperative
    import mlp

    random = np.random.default_rng(0)
    images = random.random((BATCH, 784), dtype=np.float32)
    labels = random.integers(0, 10, (BATCH, 1))
    if library == peers.TORCH:
        return mlp._torch(HIDDEN, images, labels)
    return imperative.step_of(imperative.mlp_of(HIDDEN), images, labels)


def _convnet(library: str) -> peers.Run:
    import convnet
    import imperative

    network = convnet.networks()[1]
    if library == peers.TORCH:
        return network.torch()
    return imperative.step_of(imperative.convnet_of(network), network.images, network.labels)


MODELS: dict[str, Callable[[str], peers.Run]] = {
    f"784-{HIDDEN}-{HIDDEN}-10, batch {BATCH:,}": _mlp,
    "conv net, 32×32, batch norm": _convnet,
}


def _megabytes(field: str) -> float:
    found = re.search(rf"^{field}:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def measure(library: str, model: str) -> float:
    """Megabytes at the peak of some steps beyond those after the imports."""
    import imperative  # noqa: F401

    if library == peers.TORCH:
        peers.torch()
    gc.collect()
    before = _megabytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    run = MODELS[model](library)
    for _ in range(STEPS):
        run()
    return _megabytes("VmHWM") - before


def rows() -> list[Row]:
    result = []
    for model in MODELS:
        sizes = []
        for library in ("opstep", peers.TORCH):
            command = [sys.executable, __file__, library, model]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            sizes.append(float(done.stdout))
        ours, theirs = sizes
        name = f"imperative, memory of a training step, {model}"
        ratio = theirs / ours
        result.append(Row(name, ours, "MB", peers.TORCH, theirs, ratio, ">= 1x", ratio >= 1))
    return result


if __name__ == "__main__":
    print(measure(*sys.argv[1:]))
