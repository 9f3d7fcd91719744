"""A dataflow as lines of text: ops, variables, and drawings of their producers and readers."""

from __future__ import annotations

from collections.abc import Iterator

from opstep_server.cli.output import descriptions
from opstep_server.dataflow import Dataflow
from opstep_server.wire import debug_pb2 as pb


class DataflowText(Dataflow):
    def describe(self, variable: str) -> str:
        """`fc_0.out float32[16, 4]`, as far as it is known."""
        return f"{variable} {self._types[variable]}" if variable in self._types else variable

    def tell(self, op: pb.OpInfo) -> str:
        at = f", {descriptions.op_place(op)}" if op.stack else ""
        return f"#{op.id} {op.name} ({op.type}){at}"

    # ---- drawings: lines with branches, the op itself between the two halves ---------------------

    def above(self, op: pb.OpInfo, depth: int) -> Iterator[str]:
        """The inputs of the op: each is below its own producers."""
        for number, given in enumerate(op.inputs):
            first = number == 0
            producer = self.producer(given.variable, op)
            carried = self.carried(given.variable, op)
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
        """The outputs of the op and their readers."""
        for number, made in enumerate(op.outputs, 1):
            last = number == len(op.outputs)
            yield ("└─ " if last else "├─ ") + self.describe(made.name)
            for line in self.uses(made.name, depth, op):
                yield ("   " if last else "│  ") + line

    def uses(self, variable: str, depth: int, by: pb.OpInfo | None = None) -> Iterator[str]:
        """The readers of the value that the op wrote into the variable."""
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
        """When the reader gets the writer's value, as text; None: never."""
        sources = self.sources(variable, reader)
        if writer is None:
            return "" if not sources else None
        if writer in sources:
            return ""
        if writer == self.carried(variable, reader):
            return ", in the next iteration"
        if sources or not self.may_share(writer, reader):
            return None
        # An op that runs the writer's block takes the value from it.
        return "" if reader.id in self.around(writer) else ", in the next run"
