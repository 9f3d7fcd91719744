"""Six models learn what they are for in both modes, to the same parameters bit for bit."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import datasets, imperative

FOLDER = Path(__file__).parents[2] / "examples" / "both_modes"
MODELS = ["mlp", "conv_net", "residual_net", "lstm", "transformer", "gan"]


def run(name: str, *args: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, dict[str, Any]]:
    """What the example prints, and what it leaves."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *args])
    monkeypatch.syspath_prepend(str(FOLDER))
    imperative.seed(0)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        left = runpy.run_path(str(FOLDER / f"{name}.py"))
    return printed.getvalue(), left


def parameters(left: dict[str, Any], scope: opstep.Scope) -> dict[str, np.ndarray]:
    """Of all its layers, also what training does not change."""
    found = {}
    for name, layer in left.items():
        if isinstance(layer, imperative.Layer):
            layer.share(scope)
            found |= {f"{name}.{key}": value for key, value in layer.state_dict().items()}
    return found


def test_all_examples_are_here() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*MODELS, "switch"}


@pytest.mark.parametrize("name", MODELS)
def test_it_learns_the_same_in_both_modes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example that does not reach the quality that it states ends with an error."""
    results = []
    for args in ([], ["--imperative"]):
        with opstep.scope_guard(opstep.Scope()):
            printed, left = run(name, *args, monkeypatch=monkeypatch)
            results.append((printed, parameters(left, opstep.global_scope())))
        assert isinstance(left["train"], left["both_modes"].__globals__["Compiled"]) != bool(args)
    (printed, compiled), (printed_now, now) = results
    assert printed == printed_now
    assert "loss" in printed
    assert len(compiled) >= 4
    assert compiled.keys() == now.keys()
    for key, value in compiled.items():
        assert value.tobytes() == now[key].tobytes(), key


def test_the_how_to_is_true() -> None:
    text = (FOLDER.parents[1] / "docs" / "both_modes.md").read_text()
    made: dict[str, Any] = {}
    with opstep.scope_guard(opstep.Scope()), contextlib.redirect_stdout(io.StringIO()):
        for cell in text.split("```python\n")[1:]:
            exec(cell.split("```")[0], made)
        (after,) = made["exe"].run(
            made["main"], {"x": made["words"], "label": made["labels"]}, [made["loss"]]
        )
    assert after < made["value"]
    layers_told = set(re.findall(r"`(\w+)\([^`]*\)`(?=[, |])", text.split("## Layers")[1]))
    classes = {
        name
        for name, thing in vars(imperative).items()
        if isinstance(thing, type) and issubclass(thing, imperative.Layer)
    }
    assert layers_told == classes - {"Layer"}


def test_an_example_that_learned_too_little_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(SystemExit, match="that is less than 95%"),
        opstep.scope_guard(opstep.Scope()),
    ):
        run("mlp", "1", monkeypatch=monkeypatch)


def trained(name: str, by_turns: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[bytes], Any]:
    """The losses and parameters of an example whose first steps are taken in these modes: c for
    compiled, i for imperative."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.syspath_prepend(str(FOLDER))
    source = (FOLDER / f"{name}.py").read_text()
    made: dict[str, Any] = {"__name__": name}
    imperative.seed(0)
    exec(source.split("# %% The training")[0], made)
    compiled = made["train"]
    line_by_line = made["both_modes"].__globals__["LineByLine"](compiled.function)
    digits = name == "residual_net"
    data = datasets.digits(batch=32) if digits else datasets.sequences(symbols=6, batch=32)
    losses = []
    with opstep.scope_guard(opstep.Scope()):
        for number, (mode, batch) in enumerate(zip(by_turns, data, strict=False)):
            losses.append((compiled if mode == "c" else line_by_line)(**batch).tobytes())
            if number == 0:
                if compiled.step is None:
                    compiled.step = compiled.build(batch)
                made["net"].share()
                made["adam"].share()
        made["net"].share()
        return losses, made["net"].state_dict()


@pytest.mark.parametrize("name", ["residual_net", "transformer"])
def test_the_mode_changes_at_every_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters, running means, dropout's counters and what the optimizer keeps are shared."""
    losses, state = trained(name, "cccccc", monkeypatch)
    assert len(set(losses)) == 6
    for by_turns in ("cicici", "icicci"):
        mixed_losses, mixed = trained(name, by_turns, monkeypatch)
        assert mixed_losses == losses
        for key, value in state.items():
            assert mixed[key].tobytes() == value.tobytes(), key
