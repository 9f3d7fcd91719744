"""The dataflow of a program: which ops write and read each variable, and drawings of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from opstep_server import values
from opstep_server.cli.output import descriptions
from opstep_server.debugger import DebuggerError, ProgramRef
from opstep_server.wire import debug_pb2 as pb


class Dataflow:
    def __init__(self, program: ProgramRef, ops: Sequence[pb.OpInfo]) -> None:
        self.program = program
        # In the order of the listing, which is that of running.
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
        """Each with the slots in which it has the variable."""
        found = self._readers.get(variable, {})
        return [(self._by_id[number], slots) for number, slots in found.items()]

    def producer(self, variable: str, reader: pb.OpInfo | None = None) -> pb.OpInfo | None:
        """The op whose value the reader gets, the nearest of several; the last without a reader.

        None for what has its value from elsewhere when the run begins.
        """
        if reader is not None and (sources := self.sources(variable, reader)):
            return sources[0]
        ours = [
            op
            for op in self.writers(variable)
            if op.id not in self._readers.get(variable, {})
            and (reader is None or self._may_share(op, reader))
        ]
        return ours[-1] if ours else None

    def sources(self, variable: str, reader: pb.OpInfo) -> list[pb.OpInfo]:
        """The ops above the reader that may have written what it gets, the nearest first."""
        around = self._around(reader)
        found: list[pb.OpInfo] = []
        for op in reversed(self.writers(variable)):
            if op.listing_line >= reader.listing_line or op.id in around:
                continue
            if not self._may_share(op, reader):
                continue
            if any(op.id in self._around(inner) for inner in found):
                continue  # It wrote by an op of its blocks, which may have been skipped.
            found.append(op)
            if op.block == reader.block or op.block in self._blocks(around):
                break  # That one was not skipped.
        return found

    def _carried(self, variable: str, reader: pb.OpInfo) -> pb.OpInfo | None:
        """What writes it in the iteration before, in a loop around the reader."""
        inside = {reader.block, *self._blocks(self._around(reader))} - {0}
        later = [
            op
            for op in self.writers(variable)
            if op.block in inside and op.listing_line >= reader.listing_line and op != reader
        ]
        return later[-1] if later else None

    def _around(self, op: pb.OpInfo) -> set[int]:
        """The ops that run the block that the op is in, and those around it."""
        found: set[int] = set()
        block = op.block
        while block in self._runs and self._runs[block].id not in found:
            found.add(self._runs[block].id)
            block = self._runs[block].block
        return found

    def _may_share(self, one: pb.OpInfo, other: pb.OpInfo) -> bool:
        """Whether a name means the same to both: one block is in the other, or the same."""
        one_sees = {one.block, *self._blocks(self._around(one))}
        other_sees = {other.block, *self._blocks(self._around(other))}
        return one.block in other_sees or other.block in one_sees

    def _blocks(self, ops: set[int]) -> set[int]:
        """Those that the ops are in."""
        return {self._by_id[number].block for number in ops}

    def in_block(self, block: int) -> list[pb.OpInfo]:
        return [op for op in self.ops if op.block == block]

    def describe(self, variable: str) -> str:
        """`fc_0.out float32[16, 4]`, as far as it is known."""
        return f"{variable} {self._types[variable]}" if variable in self._types else variable

    def tell(self, op: pb.OpInfo) -> str:
        at = f", {descriptions.op_place(op)}" if op.stack else ""
        return f"#{op.id} {op.name} ({op.type}){at}"

    # ---- drawings: lines with branches, the op itself between the two halves ---------------------

    def above(self, op: pb.OpInfo, depth: int) -> Iterator[str]:
        """What feeds the op: each input stands below what feeds that."""
        for number, given in enumerate(op.inputs):
            first = number == 0
            producer = self.producer(given.variable, op)
            carried = self._carried(given.variable, op)
            if producer is not None and depth > 1:
                for line in self.above(producer, depth - 1):
                    yield ("   " if first else "│  ") + line
            text = f"{given.slot} = {self.describe(given.variable)}"
            if producer is not None:
                text += f" ← {self.tell(producer)}"
            if carried is not None:
                text += f"; then {self.tell(carried)}, in the iteration before"
            yield ("┌─ " if first else "├─ ") + text

    def below(self, op: pb.OpInfo, depth: int) -> Iterator[str]:
        """What the op makes, and who uses it."""
        for number, made in enumerate(op.outputs, 1):
            last = number == len(op.outputs)
            yield ("└─ " if last else "├─ ") + self.describe(made.name)
            for line in self.uses(made.name, depth, op):
                yield ("   " if last else "│  ") + line

    def uses(self, variable: str, depth: int, by: pb.OpInfo | None = None) -> Iterator[str]:
        """Who reads what the op wrote into the variable."""
        readers = [
            (op, slots, again)
            for op, slots in self.readers(variable)
            if op != by and (again := self._reach(variable, by, op)) is not None
        ]
        for number, (op, slots, again) in enumerate(readers, 1):
            last = number == len(readers)
            yield f"{'└─ ' if last else '├─ '}{', '.join(slots)} of {self.tell(op)}{again}"
            if depth > 1:
                for line in self.below(op, depth - 1):
                    yield ("   " if last else "│  ") + line

    def _reach(self, variable: str, writer: pb.OpInfo | None, reader: pb.OpInfo) -> str | None:
        """When the reader gets what the writer wrote; None: never."""
        sources = self.sources(variable, reader)
        if writer is None:
            return "" if not sources else None
        if writer in sources:
            return ""
        if writer == self._carried(variable, reader):
            return ", in the next iteration"
        if sources or not self._may_share(writer, reader):
            return None
        # An op that runs the writer's block and takes what it made.
        return "" if reader.id in self._around(writer) else ", in the next run"
