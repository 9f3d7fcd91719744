"""The op that runs its block in the first run in a scope."""

from __future__ import annotations

import numpy as np
import pytest

import opstep
from opstep import layers, ops


def counting(persistable: bool = True) -> opstep.Program:
    """Fills `start` once with the next number of `source`, and adds it to `sum` in each run."""
    program = opstep.Program("counting")
    with opstep.program_guard(program, opstep.Program()):
        block = program.global_block()
        done = block.create_var("done", [], "bool", persistable=persistable)
        for name in ("start", "source"):
            block.create_var(name, [2], persistable=True)
        inside = program.create_block()
        ops.increment(inside.var("source"), out=inside.var("source"))
        ops.assign(inside.var("source"), out=inside.var("start"))
        program.rollback()
        ops.once(done, block=inside, done_out=done, name="begin")
        ops.add(block.var("start"), 1.0, out="sum")
    return program


def test_the_block_runs_in_the_first_run_only() -> None:
    program = counting()
    for scope in (opstep.Scope(), opstep.Scope()):
        scope.set("source", np.zeros(2, np.float32))
        for _ in range(3):
            assert program.run(fetch_list=["sum"], scope=scope)[0].tolist() == [2, 2]
        assert scope.find("source").tolist() == [1, 1]
        assert scope.find("done")


def test_what_the_block_reads_itself_must_be_there() -> None:
    scope = opstep.Scope()
    with pytest.raises(opstep.Error, match="'source' has no value yet: run the startup program"):
        counting().run(scope=scope)
    assert scope.names() == []


def test_memory_is_never_taken_for_a_value() -> None:
    program, scope = counting(), opstep.Scope()
    scope.set("source", np.zeros(2, np.float32))
    scope.set("done", True)
    with pytest.raises(opstep.Error, match="'start' has no value, although 'done' says"):
        program.run(scope=scope)
    assert scope.names() == ["done", "source"]
    scope.set("done", False)
    assert program.run(fetch_list=["sum"], scope=scope)[0].tolist() == [2, 2]


def test_a_block_that_fails_is_not_done() -> None:
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        block = program.global_block()
        done = block.create_var("done", [], "bool", persistable=True)
        for name in ("first", "second"):
            block.create_var(name, [2], persistable=True)
        inside = program.create_block()
        layers.fill([2], 1.0, out=inside.var("first"))
        ops.load(path="/nowhere/to/be/found.npy", shape=[2], out=inside.var("second"))
        program.rollback()
        ops.once(done, block=inside, done_out=done)
    scope = opstep.Scope()
    with pytest.raises(opstep.Error, match=r"^\[load\] cannot read"):
        program.run(scope=scope)
    assert scope.names() == []
    # What was there before is as the block left it, and it is not done.
    scope.set("done", False)
    scope.set("first", np.zeros(2, np.float32))
    with pytest.raises(opstep.Error, match=r"^\[load\] cannot read"):
        program.run(scope=scope)
    assert scope.names() == ["done", "first"] and not scope.find("done")


def test_wrong_use_is_one_sentence() -> None:
    with pytest.raises(opstep.Error, match=r"\[once\] done \('done'\) must be persistable"):
        counting(persistable=False).run(scope=opstep.Scope())
    program = opstep.Program()
    with opstep.program_guard(program, opstep.Program()):
        block = program.global_block()
        flags = [block.create_var(f"done_{i}", [i + 1], "bool", persistable=True) for i in (0, 1)]
        inside = program.create_block()
        program.rollback()
        with pytest.raises(opstep.Error, match=r"done is \[2\]: it must have one element"):
            ops.once(flags[1], block=inside, done_out=flags[1])
        other = block.create_var("other", [1], "bool", persistable=True)
        ops.once(flags[0], block=inside, done_out=other)
    with pytest.raises(opstep.Error, match="done_out is 'other' but must be done, 'done_0'"):
        program.run(scope=opstep.Scope())
