"""The models in README.md and docs/ run as they are written there."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opstep
from opstep import imperative, layers

_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_RANDOM = np.random.default_rng(0)


def blocks(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text())


def run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(text, "train.py", "exec", dont_inherit=True), names)
    return names


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    empty = opstep.Program(), opstep.Program()
    with opstep.scope_guard(opstep.Scope()), opstep.program_guard(*empty):
        yield


@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md"])
def test_first_model(root: Path, page: str) -> None:
    (text,) = blocks(root / page)
    assert run(text, {})["value"] < 2.4  # ten classes begin with 2.3 or a bit more


def test_shared_parameters(root: Path) -> None:
    shared, *_ = blocks(root / "docs" / "models.md")
    with opstep.scope_guard(opstep.Scope()):
        exe = opstep.Executor()
        made = run(shared, dict(globals(), exe=exe))
        for program in (made["first"], made["second"]):
            before = opstep.global_scope().find("encoder.w")
            exe.run(program, feed={"x": np.ones((2, 8), np.float32)})
            assert (opstep.global_scope().find("encoder.w") != before).any()


def test_sequences_and_saving(root: Path) -> None:
    _, sequences, save, load, inside = blocks(root / "docs" / "models.md")
    first, second, third = (_RANDOM.random((n, 16), dtype=np.float32) for n in (3, 1, 4))
    main, startup = opstep.Program("main"), opstep.Program("startup")
    exe = opstep.Executor()
    names = dict(globals(), main=main, exe=exe, first=first, second=second, third=third)
    with opstep.program_guard(main, startup):
        x = layers.data("x", shape=[None, 4])
        logits = layers.fc(x, size=2)
        loss = layers.mean(logits)
        opstep.optimizer.Adam(0.01).minimize(loss)
    exe.run(startup)
    run(save, dict(names, x=x, logits=logits, startup=startup))
    run(inside, dict(names, x=x, logits=logits, startup=startup))
    exe.run(main, feed={"x": np.ones((1, 4), np.float32)})
    with opstep.scope_guard(opstep.Scope()):
        assert len(run(load, names)["feeds"]) == 1
    assert Path("digits_model").is_dir() and Path("step100.safetensors").exists()

    main, startup = opstep.Program("texts"), opstep.Program("startup")
    head, _, tail = sequences.rpartition("\nexe.run")
    with opstep.program_guard(main, startup), opstep.scope_guard(opstep.Scope()):
        names["main"] = main
        run(head, names)
        exe.run(startup)
        scores, texts = run("result = exe.run" + tail, names)["result"]
    assert isinstance(scores, opstep.Ragged) and texts.shape == (3, 16)


def test_training(root: Path) -> None:
    by_hand, in_program = blocks(root / "docs" / "training.md")
    assert run(by_hand, {})["accuracy"].value > 0.8
    data = {"x": ("float32", [8]), "label": ("int64", [1])}
    with opstep.records.Writer("train.rec", fields=data) as writer:
        writer.write_batch(
            x=_RANDOM.random((64, 8), dtype=np.float32), label=_RANDOM.integers(0, 10, (64, 1))
        )
    with opstep.scope_guard(opstep.Scope()):
        few = in_program.replace("repeat(2000)", "repeat(100)")
        values = run(few, dict(globals()))["values"]
    assert len(values) and Path("train.opstep").exists()


def test_imperative(root: Path) -> None:
    train, own_op, twice = blocks(root / "docs" / "imperative.md")
    batch = _RANDOM.random((16, 8), dtype=np.float32), _RANDOM.integers(0, 10, (16, 1))
    names = run(train, dict(globals(), opstep=opstep, batches=[batch] * 3))
    with imperative.guard():
        names["x"] = imperative.to_variable(10 * batch[0])
        assert run(own_op, names)["y"].numpy().max() <= 6
        names["x"].stop_gradient = False
        critic = imperative.FC(1)
        adam = opstep.optimizer.Adam(0.01)
        critic(names["x"])
        twice = twice.replace("(penalty)", "(penalty, parameters=critic.parameters())")
        names |= {"critic": critic, "adam": adam}
        assert float(run(twice, names)["penalty"]) >= 0


def test_to_graph(root: Path) -> None:
    (text,) = blocks(root / "docs" / "to_graph.md")
    Path("train.py").write_text(text)  # to_graph reads the source
    linecache.clearcache()
    numbers = np.array([4.0, 9.0], np.float32)
    names = run(text, dict(globals(), numbers=numbers))
    np.testing.assert_allclose(np.asarray(names["root"](numbers)), [2, 3], atol=1e-3)
    assert Path("root_model").is_dir()
