"""A script for `opstep debug` that acts like an executor with three ops, without being one.

Ops 1 and 3 are in the main block, op 2 is in the body of a `while`, which runs twice in each of two
runs. Op 3 makes a NaN in the second run.
"""

from __future__ import annotations

import asyncio
import fnmatch
import os
import sys
from pathlib import Path
from typing import Any

# It also runs as a script.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.markers import line_of
from harness.scripted_executor import ScriptedExecutor
from opstep_server.wire import debug_pb2 as pb

X = 1  # @matmul
Y = 2  # @add
Z = 3  # @log


def info(id: int, name: str, type: str) -> pb.OpInfo:
    return pb.OpInfo(
        id=id, name=name, type=type, listing_line=id,
        outputs=[pb.VarInfo(name=f"{name}.out", dtype="FLOAT32", dims=[-1, 2])],
        stack=[pb.SourceLine(file=__file__, line=line_of(__file__, type), function="net")],
    )  # fmt: skip


OPS = [info(1, "fc_0.matmul", "matmul"), info(2, "add_0", "add"), info(3, "log_0", "log")]
WHILE = pb.OpInfo(id=9, name="while_0", type="while")


class Train(ScriptedExecutor):
    def __init__(self) -> None:
        super().__init__(os.environ["OPSTEP_SERVER"], pid=os.getpid())
        self.resumed = asyncio.Event()
        self.paused = False
        self.stops = 0
        self.breakpoints: list[pb.Breakpoint] = []
        self.fault_filters = pb.SetFaultFilters()
        value = pb.Value(f=0.25)
        named = pb.NamedValue(name="X", variable="x", value=value)
        self.answers = {
            "set_breakpoints": self.set_breakpoints,
            "set_fault_filters": self.set_fault_filters,
            "resume": self.resume,
            "pause": self.pause,
            "list_ops": lambda c: {"ops": pb.Ops(ops=OPS[c.list_ops.start :], total=len(OPS))},
            "get_listing": lambda _: {"listing": pb.Listing(lines=[o.name for o in OPS], total=3)},
            "get_variables": lambda _: {"variables": pb.Variables(variables=[named], total=1)},
            "evaluate": lambda c: (
                {"value": value}
                if c.evaluate.expr.name != "nothing"
                else {"error": "there is no variable 'nothing'"}
            ),
        }

    def set_breakpoints(self, command: pb.Command) -> dict[str, Any]:
        self.breakpoints = list(command.set_breakpoints.breakpoints)
        return {
            "breakpoints": pb.BreakpointStatuses(statuses=[*map(self.status, self.breakpoints)])
        }

    def status(self, b: pb.Breakpoint) -> pb.BreakpointStatus:
        if "foo" in b.condition_text:
            why = "there is no variable 'foo' here"
            why = f"the condition '{b.condition_text}' cannot be used: {why}"
            return pb.BreakpointStatus(id=b.id, message=why)
        bound = [o for o in OPS if hits(b, o)]
        first = bound[0] if bound else None
        return pb.BreakpointStatus(id=b.id, verified=bool(bound), op_count=len(bound), first=first)

    def set_fault_filters(self, command: pb.Command) -> dict[str, Any]:
        self.fault_filters = command.set_fault_filters
        return {"done": pb.Done()}

    def resume(self, command: pb.Command) -> dict[str, Any]:
        self.mode = command.resume.mode
        self.resumed.set()
        return {"done": pb.Done()}

    def pause(self, command: pb.Command) -> dict[str, Any]:
        self.paused = True
        return {"done": pb.Done()}

    async def train(self) -> None:
        welcome = await self.connect()
        self.breakpoints = list(welcome.breakpoints.breakpoints)
        self.fault_filters = welcome.fault_filters
        self.mode = pb.Resume.CONTINUE
        event = pb.ProgramEvent(program=1, name="main", version=1, op_count=3, block_count=2)
        await self.send(program=event)
        for b in self.breakpoints:
            await self.send(breakpoint={"status": self.status(b)})
        await self.send(thread=pb.ThreadEvent(thread=1, name="MainThread"))
        if awaited := os.environ.get("SCRIPT_WAITS_FOR"):
            print("waiting", flush=True)
            while not os.path.exists(awaited):
                await asyncio.sleep(0.02)
        endless = "--endless" in sys.argv
        step = 0
        while endless or step < 2:
            step += 1
            print(f"run {step}", flush=True)
            await self.run_op(OPS[0], step)
            for iteration in range(2):
                await self.run_op(OPS[1], step, iteration)
            await self.run_op(OPS[2], step)
            await asyncio.sleep(0.01)
        await self.goodbye()

    async def run_op(self, op: pb.OpInfo, step: int, iteration: int | None = None) -> None:
        hit = [b.id for b in self.breakpoints if hits(b, op)]
        failed = [b for b in self.breakpoints if b.id in hit and "[99]" in b.condition_text]
        if failed:
            message = f"the condition of breakpoint {hit[0]} failed: index 99 is out of range"
            await self.halt(
                op, step, iteration, reason=pb.STOP_BREAKPOINT, breakpoints=hit, message=message
            )
        elif hit:
            self.breakpoints = [b for b in self.breakpoints if not (b.temporary and b.id in hit)]
            await self.halt(op, step, iteration, reason=pb.STOP_BREAKPOINT, breakpoints=hit)
        elif self.mode != pb.Resume.CONTINUE:
            await self.halt(op, step, iteration, reason=pb.STOP_STEP)
        elif self.paused:
            self.paused = False
            await self.halt(op, step, iteration, reason=pb.STOP_PAUSE)
        watched = any(f.kind == pb.FAULT_NAN for f in self.fault_filters.filters)
        if op.type == "log" and step == 2 and watched:
            message = "[log] made 3 NaN in log_0.out, first at [1, 7]"
            await self.halt(op, step, iteration, reason=pb.STOP_NAN, message=message, after=True)

    async def halt(
        self, op: pb.OpInfo, step: int, iteration: int | None, after: bool = False, **fields: Any
    ) -> None:
        place = {"program": 1, "program_name": "main", "step": step}
        source = {"file": __file__, "line": op.stack[0].line}
        top = pb.StackFrame(kind="OP", op=op, after=after, **place, **source)
        frames = [top]
        if iteration is not None:
            top.iteration = iteration
            frames.append(pb.StackFrame(kind="BLOCK", op=WHILE, iteration=iteration, **place))
        frames.append(pb.StackFrame(kind="RUN", **place))
        frames.append(pb.StackFrame(kind="PYTHON", function="train", file=__file__, line=1))
        self.stops += 1
        self.resumed.clear()
        await self.send(stopped=pb.Stopped(thread=1, stop=self.stops, frames=frames, **fields))
        resumed = asyncio.create_task(self.resumed.wait())
        await asyncio.wait([resumed, self._reader], return_when=asyncio.FIRST_COMPLETED)
        if not resumed.done():
            sys.exit("the debugger is gone")  # Nobody else would end us.


def hits(b: pb.Breakpoint, op: pb.OpInfo) -> bool:
    if "foo" in b.condition_text:
        return False
    if b.HasField("line"):
        return (b.line.file, b.line.line) == (op.stack[0].file, op.stack[0].line)
    if b.HasField("op"):
        return b.op.op == op.id
    if b.HasField("listing"):
        return b.listing.line == op.listing_line
    return b.pattern == op.type or fnmatch.fnmatchcase(op.name, b.pattern)


async def main() -> None:
    await Train().train()


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(int(os.environ.get("SCRIPT_CODE", "0")))
