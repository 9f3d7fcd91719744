"""Edges between ops of a program, as its dataflow says."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opstep_server.dataflow import Dataflow
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.debugger import ProgramRef


def op(number: int, reads: str, makes: str, block: int = 0, runs: int = 0) -> pb.OpInfo:
    return pb.OpInfo(
        id=number,
        block=block,
        listing_line=number,
        inputs=[pb.SlotInfo(slot="X", variable=name) for name in reads.split()],
        outputs=[pb.VarInfo(name=name) for name in makes.split()],
        blocks=[pb.BlockInfo(block=runs, name="body")] if runs else [],
    )


def edges(*ops: pb.OpInfo) -> list[tuple[int, int, str]]:
    flow = Dataflow(cast("ProgramRef", None), ops)
    return [(maker, reader, " ".join(names)) for maker, reader, names in flow.edges()]


def test_an_edge_for_each_pair_of_ops() -> None:
    chain = op(1, "x", "a b"), op(2, "a", "c"), op(3, "b a a c", "d")
    assert edges(*chain) == [(1, 2, "a"), (1, 3, "b a"), (2, 3, "c")]


def test_a_variable_that_is_written_twice_is_read_from_its_nearest_maker() -> None:
    assert edges(op(1, "", "w"), op(2, "w", "w"), op(3, "w", "y")) == [(1, 2, "w"), (2, 3, "w")]


def test_what_a_block_makes_comes_from_the_op_that_runs_it() -> None:
    loop = (
        op(1, "", "a"),
        op(2, "a", "r", runs=1),
        op(3, "a", "b", block=1),
        op(4, "b", "r", block=1),
        op(5, "r", "z"),
    )
    assert edges(*loop) == [(1, 2, "a"), (3, 4, "b"), (2, 5, "r")]


def test_what_a_skipped_block_may_have_made_comes_from_its_op() -> None:
    branch = (
        op(1, "", "r"),
        op(2, "", "r", runs=1),
        op(3, "", "r", block=1),
        op(4, "r", "z"),
    )
    assert edges(*branch) == [(2, 4, "r")]
