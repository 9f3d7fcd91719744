"""What is typed and what is seen, on real runs: each file in tests/transcripts is one of them.

The first line is the shell's, each `(opstep) …` a command, all else what is shown. A line of `...`
stands for any lines. With --batch the commands are -ex options, otherwise they come from a pipe,
which goes on after a wrong one. With OPSTEP_UPDATE=1 the files that differ are written anew, and
their tests are skipped: read the diff.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.patience import SECONDS
from opstep_server.cli.commands.command_table import COMMANDS

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts"
FILES = sorted(TRANSCRIPTS.glob("*.txt"))
PROMPT = "(opstep) "
# Before the lines of 'commands'.
MORE = ">"
# What differs from run to run, and what stands for it.
VARYING = (
    (re.compile(r"(?<=process )\d+|(?<=attach )\d+"), "PID"),
    (re.compile(r"(?<=thread )\d{3,}"), "TID"),
)

pytestmark = pytest.mark.e2e


def typed(text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.startswith((PROMPT, MORE))]
    return [line.removeprefix(PROMPT).removeprefix(MORE) for line in lines]


def seen(text: str, folder: Path) -> str:
    """Runs the transcript's commands beside the programs of the tests; files go to `folder`."""
    first, _, _ = text.partition("\n")
    assert first.startswith("$ opstep "), "the first line starts opstep: '$ opstep debug loop.py'"
    _, word, *rest = shlex.split(first.removeprefix("$ "))
    batch = "--batch" in rest
    options = [part for command in typed(text) if batch for part in ("-ex", command)]
    result = subprocess.run(
        [sys.executable, "-m", "opstep_server", word, *options, *rest],
        cwd=TRANSCRIPTS.parent / "programs",
        env={**os.environ, "TMP": str(folder), "XDG_STATE_HOME": str(folder)},
        input="" if batch else "".join(f"{command}\n" for command in typed(text)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    shown = result.stdout.replace(str(folder), "$TMP")
    for pattern, name in VARYING:
        shown = pattern.sub(name, shown)
    return f"{first}\n{shown}exit code {result.returncode}\n"


def matches(wanted: str, shown: str) -> bool:
    pattern = re.escape(wanted).replace(re.escape("...\n"), "(?:.*\n)*?")
    return re.fullmatch(pattern, shown) is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path, tmp_path: Path):
    text = path.read_text()
    shown = seen(text.replace("$TMP", str(tmp_path)), tmp_path).replace(str(tmp_path), "$TMP")
    if matches(text, shown):
        return
    if os.environ.get("OPSTEP_UPDATE"):
        path.write_text(shown)
        pytest.skip(f"{path.name} is written anew: read the diff")
    assert shown == text


def test_every_command_is_in_a_transcript():
    words = {line.split()[0] for path in FILES for line in typed(path.read_text()) if line}
    unused = [c.name for c in COMMANDS if not words & {c.name, *c.aliases}]
    assert unused == [], f"type them in a file of tests/transcripts: {', '.join(unused)}"
