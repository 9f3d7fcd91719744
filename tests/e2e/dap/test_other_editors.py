"""What nvim-dap, Helix and dape do, against the real adapter and real scripts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.dap_client import Session
from harness.editors import Dape, Editor, Helix, NvimDap
from harness.markers import line_of

pytestmark = pytest.mark.e2e

PLUGINS = Path(__file__).resolve().parents[3] / "ide_plugins"
EDITORS = pytest.mark.parametrize("kind", [NvimDap, Helix, Dape])
BOTH = """
import threading, numpy as np, opstep
from opstep import layers
def program(name):
    made = opstep.Program(name)
    with opstep.program_guard(made, opstep.Program("startup")):
        x = layers.data("x", shape=[2])
        y = layers.relu(x)  # @relu
    return made, y
first, second = program("first"), program("second")
known = threading.Barrier(2)
def work():
    exe, feed = opstep.Executor(), {"x": np.ones(2, np.float32)}
    exe.run(first[0], feed=feed, fetch_list=[first[1]], scope=opstep.Scope())
    known.wait()
    exe.run(second[0], feed=feed, fetch_list=[second[1]], scope=opstep.Scope())
workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print("done", flush=True)
"""


def launch(editor: Editor, script: Path, mark: str, *args: str) -> None:
    editor.launch({str(script): [line_of(script, mark)]}, program=str(script), args=list(args))


def line(editor: Editor, thread: int = 1) -> int:
    return int(editor.stacks[thread][0]["line"])


@EDITORS
def test_a_step_leaves_a_stack_to_look_at(kind: type[Editor], programs: Path) -> None:
    script = programs / "two_lines.py"
    with Session() as session:
        editor = kind(session)
        launch(editor, script, "first")
        editor.wait_for_stop()
        assert line(editor) == line_of(script, "first")
        editor.step("next")
        editor.wait_for_stop()
        assert line(editor) == line_of(script, "second")
        assert session.evaluate("y", editor.stacks[1][0]["id"])["result"].startswith("float32[4]")


@EDITORS
def test_a_restart_at_a_stop_stops_again(kind: type[Editor], programs: Path) -> None:
    script = programs / "two_lines.py"
    with Session() as session:
        editor = kind(session)
        launch(editor, script, "first")
        editor.wait_for_stop()
        for _ in range(2):
            session.request("restart")
            editor.wait_for_stop()
            assert line(editor) == line_of(script, "first")
            assert [each["id"] for each in session.request("threads")["threads"]] == [1]
        assert getattr(editor, "sent_on", 0) == 0
        editor.step("continue")
        editor.wait(lambda: editor.over)
        said = [m["body"]["output"] for m in session.history if m.get("event") == "output"]
        assert not [text for text in said if "connection" in text], said


@EDITORS
def test_pause_shows_where_it_is(kind: type[Editor], programs: Path, tmp_path: Path) -> None:
    script = programs / "forever.py"
    with Session() as session:
        editor = kind(session)
        editor.launch({}, program=str(script), args=["--until", str(tmp_path / "end")])
        editor.wait(lambda: session.count("thread") > 0)
        if isinstance(editor, Dape):
            editor.pause()
        else:
            session.request("pause", {"threadId": 1})
        editor.wait_for_stop()
        assert editor.stacks[1][0]["source"]["path"] == str(script)


def test_pause_without_a_thread_stops_whichever_runs(programs: Path, tmp_path: Path) -> None:
    with Session() as session:
        session.start(programs / "forever.py", "--until", str(tmp_path / "end"))
        session.event("thread")
        session.request("pause", {"threadId": 0})
        assert session.stopped("pause")["threadId"] == 1


def test_filters_that_are_set_before_a_session(programs: Path) -> None:
    """As the README for Neovim says it."""
    readme = (PLUGINS / "neovim" / "README.md").read_text()
    said = re.search(r"dap\.defaults\.opstep\.exception_breakpoints = \{(.*?)\}", readme)
    assert said is not None
    with Session() as session:
        editor = NvimDap(session)
        editor.filters = tuple(re.findall(r'"(\w+)"', said[1]))
        assert "nan" in editor.filters
        editor.launch({}, program=str(programs / "make_nan.py"))
        editor.wait_for_stop()
        assert session.request("exceptionInfo", {"threadId": 1})["exceptionId"] == "nan"


def test_all_threads_stopped_is_said_when_they_are(tmp_path: Path) -> None:
    script = tmp_path / "both.py"
    script.write_text(BOTH)
    with Session() as session:
        session.start(script, functions=[{"name": "relu", "condition": "1 == 1"}])
        # Each stops in its first run; the second one to come finds the other one standing.
        stops = [session.stopped(), session.stopped()]
        assert {stop["threadId"] for stop in stops} == {1, 2}
        assert stops[1]["allThreadsStopped"] is True
        # One goes on, and comes to its second program only behind the other one.
        alone = {"threadId": stops[0]["threadId"], "singleThread": True}
        session.request("continue", alone)
        session.request("continue", {"threadId": stops[1]["threadId"], "singleThread": True})
        third, fourth = session.stopped(), session.stopped()
        assert third["allThreadsStopped"] is False
        assert fourth["allThreadsStopped"] is True
        session.request("continue", {"threadId": fourth["threadId"]})
        assert session.ends() == 0


def test_a_stopped_thread_that_dies_goes_on_first(programs: Path) -> None:
    with Session() as session:
        editor = NvimDap(session)
        launch(editor, programs / "two_lines.py", "first")
        editor.wait_for_stop()
        session.request("terminate")
        editor.wait(lambda: editor.over)
        assert editor.stopped_thread is None
        names = [m["event"] for m in session.history if m["type"] == "event"]
        assert names.index("continued") < names.index("exited") < names.index("terminated")


@pytest.mark.parametrize("terminate", [True, False])
def test_a_client_that_leaves_hears_no_more_of_threads(programs: Path, terminate: bool) -> None:
    """Emacs asks for all threads whenever it hears of one, and finds the adapter gone."""
    with Session() as session:
        editor = NvimDap(session)
        launch(editor, programs / "two_lines.py", "first")
        editor.wait_for_stop()
        before = len(session.history)
        session.request("disconnect", {"terminateDebuggee": terminate})
        session.wait_for_end()
        while not session._ended:
            session._take(1)
        told = [m["event"] for m in session.history[before:] if m["type"] == "event"]
        assert not {"thread", "continued", "stopped"} & set(told), told
        assert "terminated" in told
