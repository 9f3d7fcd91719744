"""Kinds of sinks: each is there, says what it takes, and is imported only when it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from opstep_server.taps.sinks import kinds
from opstep_server.taps.sinks.base import Sink, SinkError

HEAVY = ("pyarrow", "tensorboard", "safetensors", "opentelemetry.sdk")


def python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_every_kind_says_what_it_is(kind: str, root: Path):
    found = kinds.load(kind)
    assert issubclass(found, Sink)
    assert found.kind == kind
    assert found.doc
    assert all(key.doc and key.type in (str, int, float, bool, bytes) for key in found.keys)
    assert bool(found.extra) == bool(found.module)
    if found.extra:
        extra = found.extra.removeprefix("opstep-server[").removesuffix("]")
        project = (root / "debug_server" / "pyproject.toml").read_text()
        assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


def test_nothing_is_imported_before_it_is_used():
    code = f"""
import sys
from opstep_server.taps.sinks import kinds
for kind in kinds.KINDS:
    kinds.load(kind)
print([name for name in {HEAVY} if name in sys.modules])
"""
    assert python(code) == "[]\n"


@pytest.mark.parametrize(
    ("kind", "package"),
    [("tensorboard", "tensorboard"), ("parquet", "pyarrow"), ("otel", "opentelemetry")],
)
def test_a_missing_package_is_said_with_the_command(kind: str, package: str):
    code = f"""
import sys
class Nobody:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{package}":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Nobody())
from opstep_server.taps.sinks import base, kinds
try:
    kinds.load("{kind}")
except base.SinkError as error:
    print(error)
"""
    command = f'pip install "opstep-server[{kind}]"'
    assert python(code) == f"the sink '{kind}' needs the package {package}: {command}\n"


def test_other_kinds_are_refused():
    with pytest.raises(
        SinkError, match=r"'parket' is not a kind of sink: did you mean 'parquet'\?"
    ):
        kinds.load("parket")
    with pytest.raises(
        SinkError, match=r"'x' is not a kind of sink: there are jsonl, tensorboard, "
    ):
        kinds.load("x")
