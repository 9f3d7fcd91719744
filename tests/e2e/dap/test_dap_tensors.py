"""The requests of the tensor view, against what NumPy makes of the same tensors."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.dap_client import Session

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

SCRIPT = """
import sys
import numpy as np, opstep
from opstep import layers

fed = dict(np.load(sys.argv[1]))
main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    inputs = [layers.data(n, shape=list(a.shape), dtype=str(a.dtype)) for n, a in fed.items()]
    out = layers.tanh(inputs[0])
    cube = inputs[0]
opstep.Executor().run(main, feed=fed, fetch_list=[out])
"""


def fed() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    cube = rng.normal(size=(3, 5, 40)).astype(np.float32)
    bad = cube.copy()
    bad[1, 2, 3], bad[2, 0, 0], bad[2, 4, 39] = np.nan, np.inf, -np.inf
    return {
        "data": cube,
        "bad": bad,
        "wide": rng.normal(size=(7, 3000)),
        "whole": np.array([[-(2**62) - 1, 0], [7, 2**53 + 1]], np.int64),
        "bits": rng.integers(0, 2, 90).astype(bool),
        "none": np.zeros((0, 4), np.float32),
    }


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("tensors")
    np.savez(folder / "fed.npz", **fed())
    (folder / "script.py").write_text(SCRIPT)
    with Session() as session:
        session.start(folder / "script.py", str(folder / "fed.npz"), functions=[{"name": "tanh"}])
        session.stopped()
        yield session


def tensor(session: Session, expression: str, **more: Any) -> Json:
    return session.request("opstepTensor", {"expression": expression, **more})


def cut(session: Session, expression: str, **more: Any) -> np.ndarray:
    body = session.request("opstepSlice", {"expression": expression, **more})
    flat = np.frombuffer(base64.b64decode(body["data"]), "<f4")
    return flat.reshape(body["rows"], body["columns"])


@pytest.mark.parametrize("name", ["data", "bad", "wide", "whole"])
def test_the_figures_are_numpys(stopped: Session, name: str) -> None:
    array = fed()[name]
    body = tensor(stopped, name, bins=10)
    assert body["shape"] == list(array.shape) and body["bytes"] == array.nbytes
    assert body["dtype"] == str(array.dtype)
    finite = array[np.isfinite(array)].astype(np.float64)
    summary = body["summary"]
    expected = [finite.min(), finite.max(), finite.mean(), finite.std()]
    assert [summary[k] for k in ("min", "max", "mean", "std")] == pytest.approx(expected, 1e-5)
    assert summary["nan"] == np.isnan(array).sum() and summary["inf"] == np.isinf(array).sum()
    assert summary["zeros"] == (array == 0).sum() and summary["count"] == array.size
    histogram = body["histogram"]
    counts, edges = np.histogram(finite, 10)
    assert histogram["counts"] == counts.tolist()
    assert [histogram["low"], histogram["high"]] == pytest.approx([edges[0], edges[-1]])
    assert body.get("firstBad") == ([1, 2, 3] if name == "bad" else None)


def test_truth_values_and_what_is_empty_have_figures_too(stopped: Session) -> None:
    bits = fed()["bits"]
    histogram = tensor(stopped, "bits")["histogram"]
    assert histogram == {"low": -0.5, "high": 1.5, "counts": [90 - bits.sum(), bits.sum()]}
    none = tensor(stopped, "none")
    assert none["summary"] == {"count": 0, "zeros": 0, "nan": 0, "inf": 0}
    assert "histogram" not in none
    assert cut(stopped, "none").shape == (0, 4)
    one = tensor(stopped, "data[0, 0, 0]")
    assert one["shape"] == [] and one["summary"]["mean"] == pytest.approx(fed()["data"][0, 0, 0])
    assert cut(stopped, "data[0, 0, 0]") == fed()["data"][0, 0, 0]


def test_any_two_axes_make_a_slice(stopped: Session) -> None:
    cube = fed()["data"]
    assert (cut(stopped, "data", at=[2, 0, 0]) == cube[2]).all()
    assert (cut(stopped, "data", rows=0, columns=2, at=[0, 3, 0]) == cube[:, 3]).all()
    assert (cut(stopped, "data", rows=2, columns=0, at=[0, 3, 0]) == cube[:, 3].T).all()
    some = cut(stopped, "data", rowStart=1, rowCount=2, columnStart=30, columnCount=100)
    assert (some == cube[0, 1:3, 30:]).all()
    assert (cut(stopped, "bits") == fed()["bits"]).all()


def test_what_is_too_large_is_strided(stopped: Session) -> None:
    wide = fed()["wide"].astype(np.float32)
    asked = {"expression": "wide", "maxRows": 3, "maxColumns": 700}
    body = stopped.request("opstepSlice", asked)
    assert (body["rowStep"], body["columnStep"]) == (3, 5)
    assert (cut(stopped, **asked) == wide[::3, ::5]).all()
    assert cut(stopped, "wide", maxColumns=10**6).shape == (7, 1000)


def test_texts_have_all_digits(stopped: Session) -> None:
    def texts(name: str, **more: Any) -> list[str]:
        asked = {"expression": name, "text": True, **more}
        return list(stopped.request("opstepSlice", asked)["texts"])

    assert texts("whole") == [str(-(2**62) - 1), "0", "7", str(2**53 + 1)]
    assert texts("bits")[:3] == [str(bit) for bit in fed()["bits"][:3]]
    wide = texts("wide", columnCount=20)
    assert [float(text) for text in wide] == fed()["wide"][:, :20].ravel().tolist()
    bad = texts("bad", at=[2, 0, 0], columnCount=1)
    assert bad[0] == "inf" and np.float32(bad[1]) == fed()["bad"][2, 1, 0]


def test_two_tensors_are_compared(stopped: Session) -> None:
    body = tensor(stopped, "data", against="bad")
    assert (body["summary"]["nan"], body["summary"]["inf"]) == (1, 2)
    assert body["summary"]["zeros"] == 3 * 5 * 40 - 3
    difference = cut(stopped, "data * 3", against="data", at=[1, 0, 0])
    assert difference == pytest.approx(2 * fed()["data"][1], rel=1e-5)
    asked = {"expression": "data", "against": "wide"}
    assert stopped.fails("opstepTensor", asked).sentence == (
        "data has the shape [3, 5, 40] but wide has [7, 3000]: "
        "only tensors of one shape can be compared"
    )


def test_names_of_python_work_in_its_frames(stopped: Session) -> None:
    thread = stopped.request("threads")["threads"][0]["id"]
    script = next(f for f in stopped.stack(thread) if f["name"] == "<module>")
    assert tensor(stopped, "cube", frameId=script["id"])["shape"] == [3, 5, 40]


def test_a_tensor_is_saved(stopped: Session, tmp_path: Path) -> None:
    for name, array in fed().items():
        path = tmp_path / f"{name}.npy"
        body = stopped.request("opstepSave", {"expression": name, "path": str(path)})
        assert body == {"path": str(path), "bytes": path.stat().st_size}
        np.testing.assert_array_equal(np.load(path), array)
    assert len(os.listdir(tmp_path)) == len(fed())
    path = tmp_path / "one.npy"
    stopped.request("opstepSave", {"expression": "data[0, 0, 0]", "path": str(path)})
    assert np.load(path) == fed()["data"][0, 0, 0]
    asked = {"expression": "data", "path": str(path)}
    assert "is there already" in stopped.fails("opstepSave", asked).sentence
    stopped.request("opstepSave", {**asked, "overwrite": True})
    assert np.load(path).shape == fed()["data"].shape
    asked = {"expression": "data", "path": str(tmp_path / "none" / "x.npy")}
    assert "there is no folder" in stopped.fails("opstepSave", asked).sentence
    asked = {"expression": "data", "path": "x.npy"}
    assert "absolute" in stopped.fails("opstepSave", asked).sentence


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"rows": 1, "columns": 1}, "rows and columns are both axis 1"),
        ({"rows": 3}, "there are 3 axes"),
        ({"at": [0, 0]}, "at has 2 indices"),
        ({"at": [3, 0, 0]}, "index 3 is not within axis 0 of size 3"),
        ({"at": [True, 0, 0]}, "at[0] must be an integer"),
        ({"expression": "nowhere"}, "nowhere"),
        ({"expression": "out"}, "out"),
    ],
)
def test_a_wrong_slice_is_one_sentence(stopped: Session, more: Json, sentence: str) -> None:
    told = stopped.fails("opstepSlice", {"expression": "data", **more}).sentence
    assert sentence in told and "\n" not in told
