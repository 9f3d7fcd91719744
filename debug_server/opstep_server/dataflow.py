"""The dataflow of a program: which ops write and read each variable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from opstep_server import values
from opstep_server.debugger import DebuggerError, ProgramRef
from opstep_server.wire import debug_pb2 as pb


class Edge(NamedTuple):
    """Variables that go from one op to another of the same block."""

    maker: int
    reader: int
    variables: list[str]


class Dataflow:
    def __init__(self, program: ProgramRef, ops: Sequence[pb.OpInfo]) -> None:
        self.program = program
        # In the order of the listing, which is the order of running.
        self.ops = list(ops)
        self._by_id = {op.id: op for op in ops}
        self._writers: defaultdict[str, list[pb.OpInfo]] = defaultdict(list)
        self._readers: defaultdict[str, dict[int, list[str]]] = defaultdict(dict)
        self._types: dict[str, str] = {}
        # By block: the op that runs it.
        self._runs = {each.block: op for op in ops for each in op.blocks}
        for op in ops:
            for made in op.outputs:
                self._writers[made.name].append(op)
                self._types[made.name] = values.type_name(made.dtype, made.dims)
            for given in op.inputs:
                self._readers[given.variable].setdefault(op.id, []).append(given.slot)

    def op(self, number: int) -> pb.OpInfo:
        if number not in self._by_id:
            raise DebuggerError(
                f"{self.program.event.name} has no op #{number}: 'info ops' shows them"
            )
        return self._by_id[number]

    def has(self, variable: str) -> bool:
        return variable in self._writers or variable in self._readers

    def writers(self, variable: str) -> list[pb.OpInfo]:
        return self._writers.get(variable, [])

    def readers(self, variable: str) -> list[tuple[pb.OpInfo, list[str]]]:
        """The ops that read the variable, each with its slots for it."""
        found = self._readers.get(variable, {})
        return [(self._by_id[number], slots) for number, slots in found.items()]

    def producer(self, variable: str, reader: pb.OpInfo | None = None) -> pb.OpInfo | None:
        """The op whose value the reader gets, the nearest of several; without a reader, the last.

        None for a variable that has its value before the run begins.
        """
        if reader is not None and (sources := self.sources(variable, reader)):
            return sources[0]
        ours = [
            op
            for op in self.writers(variable)
            if op.id not in self._readers.get(variable, {})
            and (reader is None or self.may_share(op, reader))
        ]
        return ours[-1] if ours else None

    def sources(self, variable: str, reader: pb.OpInfo) -> list[pb.OpInfo]:
        """The ops above the reader that may have written what it gets, the nearest first."""
        around = self.around(reader)
        found: list[pb.OpInfo] = []
        for op in reversed(self.writers(variable)):
            if op.listing_line >= reader.listing_line or op.id in around:
                continue
            if not self.may_share(op, reader):
                continue
            if any(op.id in self.around(inner) for inner in found):
                continue  # An op of its blocks wrote it, and may have been skipped.
            found.append(op)
            if op.block == reader.block or op.block in self._blocks(around):
                break  # This op always runs.
        return found

    def carried(self, variable: str, reader: pb.OpInfo) -> pb.OpInfo | None:
        """The op that writes it in the previous iteration of a loop around the reader."""
        inside = {reader.block, *self._blocks(self.around(reader))} - {0}
        later = [
            op
            for op in self.writers(variable)
            if op.block in inside and op.listing_line >= reader.listing_line and op != reader
        ]
        return later[-1] if later else None

    def around(self, op: pb.OpInfo) -> set[int]:
        """The ops that run the block of this op and the blocks around that."""
        found: set[int] = set()
        block = op.block
        while block in self._runs and self._runs[block].id not in found:
            found.add(self._runs[block].id)
            block = self._runs[block].block
        return found

    def may_share(self, one: pb.OpInfo, other: pb.OpInfo) -> bool:
        """Whether a name means the same to both: one block is in the other, or the same."""
        one_sees = {one.block, *self._blocks(self.around(one))}
        other_sees = {other.block, *self._blocks(self.around(other))}
        return one.block in other_sees or other.block in one_sees

    def _blocks(self, ops: set[int]) -> set[int]:
        """The blocks that the ops are in."""
        return {self._by_id[number].block for number in ops}

    def edges(self) -> list[Edge]:
        """Edges from the nearest op above; a value made in an op's block comes from that op."""
        found: dict[tuple[int, int], list[str]] = {}
        for op in self.ops:
            for given in op.inputs:
                maker = self._beside(given.variable, op)
                if maker is not None:
                    names = found.setdefault((maker, op.id), [])
                    if given.variable not in names:
                        names.append(given.variable)
        return [Edge(maker, reader, names) for (maker, reader), names in found.items()]

    def _beside(self, variable: str, reader: pb.OpInfo) -> int | None:
        """The op of the reader's block that makes its value, itself or in a block."""
        for source in self.sources(variable, reader):
            for number in (source.id, *self.around(source)):
                if self._by_id[number].block == reader.block:
                    return number
        return None

    def in_block(self, block: int) -> list[pb.OpInfo]:
        return [op for op in self.ops if op.block == block]
