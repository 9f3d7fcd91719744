"""The cost of taps in a training step, beside PyTorch hooks that write the same statistics.

The step runs in this process; `opstep collect` is another process and writes TensorBoard files. The
cost of a run in which no tap is due, or whose taps are disabled, is lost in the noise of whole
steps: it is measured on a program with the same number of empty ops.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import mlp
import numpy as np
import peers
from table import Row

import opstep
from opstep import _core, layers

ALL_BAR, HUNDREDTH_BAR = 10.0, 0.2  # percent
DISABLED_BAR = 0.01  # percent: nothing, apart from noise
ROUNDS = 10
STATES = {"none": "", "disabled": "enabled = false", "hundredth": "every = 100", "all": "every = 1"}
OPS = 29  # of the step


class Collector:
    def __init__(self, folder: Path) -> None:
        self._taps = folder / "taps.toml"
        self._write("none")
        address = f"unix:{folder}/socket"
        command = [sys.executable, "-m", "opstep_server", "collect", "--taps", str(self._taps)]
        self._process = subprocess.Popen(
            [*command, "--listen", address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        opstep.debug.connect(address, wait=20)

    def set(self, state: str) -> None:
        """Waits until the agent has it."""
        self._write(state)
        wanted = [] if state == "none" else [state]
        end = time.monotonic() + 20
        while [tap["name"] for tap in _core.debug_taps()] != wanted:
            if time.monotonic() > end:
                raise RuntimeError(f"the taps of '{state}' were not set within 20 s")
            time.sleep(0.05)

    def close(self) -> None:
        opstep.debug.detach()
        self._process.terminate()
        self._process.wait(10)

    def _write(self, state: str) -> None:
        text = '[sinks.board]\nkind = "tensorboard"\npath = "board"\n'
        if state != "none":
            text += f'[[tap]]\nname = "{state}"\nops = "*"\n{STATES[state]}\n'
        new = self._taps.with_suffix(".new")
        new.write_text(text)
        os.replace(new, self._taps)


def _small() -> Callable[[], object]:
    main = opstep.Program("small")
    with opstep.program_guard(main, opstep.Program("startup")):
        x = value = layers.data("x", shape=[1])
        for _ in range(OPS):
            value = value + x
    step = opstep.compile(main, feeds=["x"], fetches=[value], scope=opstep.Scope())
    feed = np.ones(1, np.float32)

    def run() -> None:
        # Step 100 of each hundred is due: 99 are not.
        for _ in range(99):
            step(x=feed)

    def due() -> None:
        step(x=feed)

    run.due = due  # type: ignore[attr-defined]
    return run


def _in_turns(collector: Collector, step: Callable[[], object]) -> dict[str, float]:
    """Best time of a step in each state, and of a small program's run as `small …`."""
    small = _small()
    best: dict[str, float] = {}

    def measure(name: str, run: Callable[[], object], times: int) -> None:
        for _ in range(times):
            start = time.perf_counter()
            run()
            best[name] = min(best.get(name, float("inf")), time.perf_counter() - start)

    for _ in range(ROUNDS):
        for state in STATES:
            collector.set(state)
            for _ in range(3):
                step()
            if state in ("none", "all"):
                measure(state, step, 20)
            if state != "all":
                for _ in range(20):
                    measure(f"small {state}", small, 1)
                    small.due()  # type: ignore[attr-defined]
    return best


def _torch_hooks(images: np.ndarray, labels: np.ndarray, folder: Path) -> float:
    """How many percent hooks with the same statistics add to the same step."""
    torch = peers.torch()
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder))
    plain = mlp._torch(512, images, labels)
    torch.manual_seed(0)
    sizes = (784, 512, 512, 10)
    parts: list = []
    for a, b in itertools.pairwise(sizes):
        parts += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    model = torch.nn.Sequential(*parts[:-1])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, label = torch.from_numpy(images), torch.from_numpy(labels[:, 0])
    number = 0

    def write(name: str, value: object) -> None:
        with torch.no_grad():
            v = value.detach()
            told = {
                "min": v.min(),
                "max": v.max(),
                "mean": v.mean(),
                "std": v.std(unbiased=False),
                "l2": v.norm(),
                "zeros": (v == 0).sum(),
                "nan": v.isnan().sum(),
                "inf": v.isinf().sum(),
            }
            for key, scalar in told.items():
                writer.add_scalar(f"{name}/{key}", scalar.item(), number)

    for name, module in model.named_children():
        module.register_forward_hook(lambda m, i, out, n=name: write(f"{n}.out", out))
        module.register_full_backward_hook(lambda m, i, o, n=name: write(f"{n}.dout", o[0]))

    def hooked() -> float:
        nonlocal number
        number += 1
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), label)
        loss.backward()
        for name, parameter in model.named_parameters():
            write(f"{name}.grad", parameter.grad)
        optimizer.step()
        for name, parameter in model.named_parameters():
            write(name, parameter)
        return loss.item()

    # Few steps: one with hooks takes hundreds of times as long as one without.
    times = dict.fromkeys((plain, hooked), float("inf"))
    for _ in range(3):
        for run in times:
            run()
            for _ in range(3):
                start = time.perf_counter()
                run()
                times[run] = min(times[run], time.perf_counter() - start)
    writer.close()
    return (times[hooked] / times[plain] - 1) * 100


def rows() -> list[Row]:
    random = np.random.default_rng(0)
    images = random.random((mlp.BATCH, 784), dtype=np.float32)
    labels = random.integers(0, 10, (mlp.BATCH, 1))
    step = mlp._ours(512, images, labels)
    with tempfile.TemporaryDirectory() as folder:
        collector = Collector(Path(folder))
        try:
            best = _in_turns(collector, step)
        finally:
            collector.close()
        hooks = _torch_hooks(images, labels, Path(folder) / "torch")
    off = best["none"]
    everything = (best["all"] / off - 1) * 100
    disabled, a_run = (
        max(best[f"small {state}"] - best["small none"], 0) / 99
        for state in ("disabled", "hundredth")
    )
    hundredth = (a_run + (best["all"] - off) / 100) / off * 100
    peer = "PyTorch hooks and TensorBoard"
    return [
        Row("statistics of all ops, MLP step h=512", everything, "%", peer, hooks,
            bar=f"<= {ALL_BAR:g} %", met=everything <= ALL_BAR),
        Row("the same in every 100th step", hundredth, "%", peer, hooks / 100,
            bar=f"<= {HUNDREDTH_BAR:g} %", met=hundredth <= HUNDREDTH_BAR),
        Row("a tap that is disabled", disabled / off * 100, "%",
            bar=f"<= {DISABLED_BAR:g} % (0)", met=disabled / off * 100 <= DISABLED_BAR),
        Row("a run in which no tap is due", a_run * 1e9, "ns"),
    ]  # fmt: skip
