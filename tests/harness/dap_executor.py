"""Stands in for an executor in tests of the protocol: launched as "the script", it dials the debug
server, speaks debug.proto over the real socket, and walks through a program of three ops.

Each run is: fc_0.matmul; while_0, whose body log_0 runs twice. In run 2 log_0 makes a NaN.
The variable x can be read and changed; `never` is an expression that never ends.
Usage: scripted_executor.py [--runs N] [--pause-each S] [--exit CODE] [--no-agent] [--mark FILE]
[--until FILE]
"""

from __future__ import annotations

import argparse
import itertools
import os
import queue
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc

# It runs as a script.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.markers import line_of
from opstep_server.connection import PROTOCOL
from opstep_server.wire import debug_pb2 as pb, program_pb2

HERE = str(Path(__file__).resolve())


def _op(id: int, name: str, type: str, block: int, marker: str, dims: list[int]) -> pb.OpInfo:
    return pb.OpInfo(
        id=id,
        name=name,
        type=type,
        block=block,
        listing_line=id,
        outputs=[pb.VarInfo(name=f"{name}.out", dtype=program_pb2.FLOAT32, dims=dims)],
        stack=[pb.SourceLine(file=HERE, line=line_of(HERE, marker), function="build")],
    )


MATMUL = _op(1, "fc_0.matmul", "matmul", 0, "matmul", [4, 3])  # @matmul
WHILE = _op(2, "while_0", "while", 0, "while", [])  # @while
LOG = _op(3, "log_0", "log", 1, "log", [-1])  # @log
WHILE.blocks.add(block=1, name="body")
MATMUL.inputs.add(slot="X", variable="x")
LOG.stack.add(file=HERE, line=line_of(HERE, "caller"), function="model")  # @caller
OPS = [MATMUL, WHILE, LOG]
LISTING = [
    "matmul fc_0.matmul(x, w) -> fc_0.out float32[4, 3]",
    "while while_0 { block 1 }",
    "  log",
]


def tensor(dims: list[int], first: float = 0.0, shown: int = 8) -> pb.Value:
    count = 1
    for size in dims:
        count *= size
    numbers = [first + n for n in range(min(count, shown))]
    summary = pb.TensorSummary(count=count, min=first, max=first + count - 1, mean=1.5, std=0.5)
    data = struct.pack(f"<{len(numbers)}f", *numbers)
    return pb.Value(
        tensor=pb.Tensor(dtype=program_pb2.FLOAT32, dims=dims, summary=summary, data=data)
    )


class Agent:
    """The main thread runs ops and waits in `_stop`; one thread reads commands; gRPC writes."""

    def __init__(self, address: str) -> None:
        self._out: queue.Queue[pb.FromExecutor | None] = queue.Queue()
        self._changed = threading.Condition()
        self._breakpoints: list[pb.Breakpoint] = []
        self._fault_filters = pb.SetFaultFilters()
        self._mode: pb.Resume | None = None
        self._pause = False
        self._stopped_at: list[pb.StackFrame] | None = None
        self._stops = 0
        self._detached = False
        self._from: list[pb.StackFrame] = []
        self._visits: dict[int, int] = {}
        self._x = bytearray(struct.pack("<12f", *range(12)))
        channel = grpc.insecure_channel(address)
        attach = channel.stream_stream(
            "/opstep.proto.DebugServer/Attach",
            request_serializer=pb.FromExecutor.SerializeToString,
            response_deserializer=pb.ToExecutor.FromString,
        )
        self._send(
            hello=pb.Hello(protocol=PROTOCOL, pid=os.getpid(), argv=sys.argv, opstep_version="0")
        )
        self._replies = attach(iter(self._out.get, None))
        welcome = next(self._replies).welcome
        self._breakpoints = list(welcome.breakpoints.breakpoints)
        self._fault_filters = welcome.fault_filters
        self._pause, self._entry = False, welcome.stop_on_entry
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._send(
            program=pb.ProgramEvent(
                program=1,
                name="main",
                version=1,
                op_count=3,
                block_count=2,
                planned_bytes=1 << 20,
                compile_ms=1.25,
            )
        )
        for breakpoint in self._breakpoints:
            self._send(breakpoint=pb.BreakpointEvent(status=self._status(breakpoint)))
        self._send(thread=pb.ThreadEvent(thread=1, name="MainThread"))

    def goodbye(self) -> None:
        """Leaves once the server has got the goodbye, or is gone."""
        self._send(goodbye=pb.Goodbye())
        self._out.put(None)
        self._reader.join()

    # ---- ops -------------------------------------------------------------------------------------

    def op(self, frames: list[pb.StackFrame], makes_nan: bool = False) -> None:
        with self._changed:
            if self._detached:
                return
            hits = [b.id for b in self._breakpoints if self._hit(b, frames)]
            if hits:
                self._stop(frames, pb.STOP_BREAKPOINT, hits)
            elif self._entry:
                self._stop(frames, pb.STOP_ENTRY)
            elif self._pause:
                self._stop(frames, pb.STOP_PAUSE)
            elif self._mode is not None and self._step_ends(frames):
                self._stop(frames, pb.STOP_STEP)
            if makes_nan and any(f.kind == pb.FAULT_NAN for f in self._fault_filters.filters):
                after = [pb.StackFrame.FromString(f.SerializeToString()) for f in frames]
                after[0].after = True
                self._stop(
                    after,
                    pb.STOP_NAN,
                    message="[log] made 1 NaN in log_0.out, first at [0]",
                    fault=pb.Fault(kind=pb.FAULT_NAN, variable=LOG.outputs[0], count=1, index=[0]),
                )

    def _step_ends(self, frames: list[pb.StackFrame]) -> bool:
        assert self._mode is not None
        deeper = len(frames) - len(self._from)
        if self._mode.mode == pb.Resume.CONTINUE:
            return False
        if self._mode.mode == pb.Resume.OUT:
            return deeper < 0
        return self._mode.mode == pb.Resume.INTO or deeper <= 0

    def _hit(self, b: pb.Breakpoint, frames: list[pb.StackFrame]) -> bool:
        if not self._status(b).verified or self._bound(b) != frames[0].op:
            return False
        # The only form of condition needed here: step == N.
        compare = b.condition.compare
        if compare.rest and compare.rest[0].i != frames[-3].step:
            return False
        self._visits[b.id] = self._visits.get(b.id, 0) + 1
        if b.HasField("hits") and self._visits[b.id] != b.hits.count:
            return False
        if b.HasField("log"):
            parts = [pb.LogPart(text=piece.text) for piece in b.log.pieces]
            record = pb.LogRecord(breakpoint=b.id, thread=1, op=frames[0].op.name, parts=parts)
            self._send(logs=pb.Logs(records=[record]))
        return not b.HasField("log")

    def _bound(self, b: pb.Breakpoint) -> pb.OpInfo | None:
        for op in OPS:
            at = op.stack[0]
            if (b.line.file, b.line.line) == (at.file, at.line) or b.pattern in (op.name, op.type):
                return op
            if b.listing.program_name == "main" and b.listing.line == op.listing_line:
                return op
            if b.op.op == op.id or b.data.variable == op.outputs[0].name:
                return op
        return None

    def _status(self, b: pb.Breakpoint) -> pb.BreakpointStatus:
        op = self._bound(b)
        if op is None:
            return pb.BreakpointStatus(id=b.id, message="no op was made there")
        return pb.BreakpointStatus(id=b.id, verified=True, op_count=1, first=op, first_program=1)

    def _stop(
        self,
        frames: list[pb.StackFrame],
        reason: int,
        hits: list[int] | None = None,
        message: str = "",
        fault: pb.Fault | None = None,
    ) -> None:
        self._pause = self._entry = False
        self._mode = None
        self._stops += 1
        self._stopped_at = frames
        self._send(
            stopped=pb.Stopped(
                thread=1,
                stop=self._stops,
                reason=reason,  # type: ignore[arg-type]
                breakpoints=hits or [],
                message=message,
                frames=frames,
                fault=fault,
            )
        )
        while self._mode is None and not self._detached:
            self._changed.wait()
        self._from, self._stopped_at = frames, None

    # ---- commands --------------------------------------------------------------------------------

    def _send(self, **message: object) -> None:
        self._out.put(pb.FromExecutor(**message))  # type: ignore[arg-type]

    def _read(self) -> None:
        try:
            for message in self._replies:
                if message.HasField("heartbeat"):
                    self._send(heartbeat=pb.Heartbeat())
                elif message.HasField("command"):
                    self._command(message.command)
        except grpc.RpcError:
            pass
        with self._changed:
            self._detached = True
            self._changed.notify()

    def _command(self, command: pb.Command) -> None:
        kind = command.WhichOneof("command")
        reply = pb.Reply(command=command.id, done=pb.Done())
        with self._changed:
            if kind == "set_breakpoints":
                self._breakpoints = list(command.set_breakpoints.breakpoints)
                statuses = [self._status(b) for b in self._breakpoints]
                reply.breakpoints.CopyFrom(pb.BreakpointStatuses(statuses=statuses))
            elif kind == "set_fault_filters":
                self._fault_filters = command.set_fault_filters
            elif kind == "pause":
                self._pause = True
            elif kind == "list_ops":
                reply.ops.CopyFrom(pb.Ops(ops=OPS[command.list_ops.start :], total=3))
            elif kind == "get_listing":
                reply.listing.CopyFrom(
                    pb.Listing(lines=LISTING[command.get_listing.start - 1 :], total=3)
                )
            elif kind == "get_variables":
                self._variables(command.get_variables, reply)
            elif kind == "evaluate":
                self._evaluate(command.evaluate, reply)
            elif kind == "assign":
                self._assign(command.assign, reply)
            elif kind == "read_bytes":
                read = command.read_bytes
                data = bytes(self._x[read.offset : read.offset + read.count])
                reply.bytes.CopyFrom(pb.Bytes(data=data, total=len(self._x)))
            elif kind == "write_bytes":
                write = command.write_bytes
                self._x[write.offset : write.offset + len(write.data)] = write.data
            elif kind == "list_names":
                names = pb.Names(
                    variables=["x", "fc_0.out", "w_3", "w@grad", "log_0.out"],
                    slots=["X"],
                    attributes=["axes"],
                )
                reply.names.CopyFrom(names)
            elif kind == "find_variable":
                name = _root(command.find_variable.expr)
                if name in ("x", "X", "fc_0.out", "w_3", "w@grad", "log_0.out"):
                    reply.found.variable = name.lower()
                else:
                    reply.found.unknown = f"there is no variable '{name}' here"
            if not (kind == "evaluate" and command.evaluate.expr.name == "never"):
                self._send(reply=reply)
            if kind == "resume":
                self._mode = command.resume
            elif kind == "detach":
                self._detached = True
                self._out.put(None)
            self._changed.notify()

    def _variables(self, asked: pb.GetVariables, reply: pb.Reply) -> None:
        scopes = {
            pb.SCOPE_INPUTS: [pb.NamedValue(name="X", variable="x", value=tensor([4, 3]))],
            pb.SCOPE_OUTPUTS: [
                pb.NamedValue(
                    name="out", variable="fc_0.out", value=pb.Value(absent="not written yet")
                )
            ],
            pb.SCOPE_ATTRIBUTES: [
                pb.NamedValue(
                    name="axes",
                    value=pb.Value(list=pb.ValueList(values=[pb.Value(i=0), pb.Value(i=1)])),
                )
            ],
            pb.SCOPE_PARAMETERS: [
                pb.NamedValue(name=f"w_{n}", variable=f"w_{n}", value=tensor([2])) for n in range(7)
            ],
        }
        found = scopes.get(asked.scope, [])
        # Short pages, to test that they are combined.
        page = found[asked.start : asked.start + min(asked.count or 3, 3)]
        reply.variables.CopyFrom(pb.Variables(variables=page, total=len(found)))

    def _assign(self, asked: pb.Assign, reply: pb.Reply) -> None:
        """The only form needed here: x[row] = number."""
        if _root(asked.target) != "x" or _depth(asked.target) != 1:
            reply.error = "only a row of x can be changed here"
            return
        row = asked.target.index.subscripts[0].index.i
        new = asked.value.f or asked.value.i
        self._x[12 * row : 12 * row + 12] = struct.pack("<3f", new, new, new)
        reply.value.CopyFrom(tensor([3], float(new)))

    def _evaluate(self, asked: pb.Evaluate, reply: pb.Reply) -> None:
        if asked.expr.HasField("call") and asked.expr.call.function in ("size", "dtype", "shape"):
            self._about(asked.expr.call, reply)
            return
        dims = {"x": [4, 3], "big": [1_000_000_000, 2]}.get(_root(asked.expr))
        if dims is None:
            reply.error = f"there is no variable '{_root(asked.expr)}' here"
            return
        dims = dims[_depth(asked.expr) :]
        value = tensor(dims)
        for n in range(asked.start, asked.start + asked.count):
            child = tensor(dims[1:], float(n)) if len(dims) > 1 else pb.Value(f=float(n))
            value.tensor.children.append(child)
        reply.value.CopyFrom(value)

    def _about(self, asked: pb.Expr.Call, reply: pb.Reply) -> None:
        large = _root(asked.args[0]) == "big"
        shape = pb.ValueList(values=[pb.Value(i=n) for n in ([10**9, 2] if large else [4, 3])])
        answers = {
            "size": pb.Value(i=2 * 10**9 if large else 12),
            "dtype": pb.Value(s="float32"),
            "shape": pb.Value(list=shape),
        }
        reply.value.CopyFrom(answers[asked.function])


def _root(expr: pb.Expr) -> str:
    if expr.HasField("call"):
        assert expr.call.function == "var"
        return expr.call.args[0].s
    return _root(expr.index.value) if expr.HasField("index") else expr.name


def _depth(expr: pb.Expr) -> int:
    return 1 + _depth(expr.index.value) if expr.HasField("index") else 0


def stacks(run: int) -> Iterator[list[pb.StackFrame]]:
    kind = pb.StackFrame
    outer = [
        kind(
            kind=kind.RUN,
            program=1,
            program_name="main",
            step=run,
            file=HERE,
            line=line_of(HERE, "run"),
        ),
        kind(kind=kind.PYTHON, file=HERE, line=line_of(HERE, "run"), function="main"),
        kind(kind=kind.PYTHON, file="/usr/lib/python3/dist-packages/x.py", line=1, function="f"),
    ]

    def frame(op: pb.OpInfo, what: int = kind.OP, iteration: int = 0) -> pb.StackFrame:
        return kind(
            kind=what,  # type: ignore[arg-type]
            op=op,
            program=1,
            program_name="main",
            block=op.block,
            iteration=iteration,
            file=op.stack[0].file,
            line=op.stack[0].line,
        )

    yield [frame(MATMUL), *outer]
    yield [frame(WHILE), *outer]
    for iteration in range(2):
        caller = frame(LOG, kind.MADE, iteration)
        caller.line, caller.function = LOG.stack[1].line, LOG.stack[1].function
        body = frame(WHILE, kind.BLOCK, iteration)
        yield [frame(LOG, kind.OP, iteration), caller, body, *outer]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pause-each", type=float, default=0.0)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--no-agent", action="store_true")
    parser.add_argument("--until", help="runs go on until that file is there")
    parser.add_argument("--mark", help="a file to write when all runs are done")
    options = parser.parse_args()
    print("hello from the script", os.environ.get("GREETING", ""))
    server = os.environ.get("OPSTEP_SERVER")
    agent = Agent(server) if server and not options.no_agent else None
    last = itertools.count(1) if options.until else range(1, options.runs + 1)
    for run in last:
        if options.until and Path(options.until).exists():
            break
        for frames in stacks(run):
            if agent is not None:
                makes_nan = run == 2 and frames[0].op == LOG and frames[0].iteration == 1
                agent.op(frames, makes_nan)  # @run
            time.sleep(options.pause_each)
    print("all runs done")
    if options.mark:
        Path(options.mark).write_text("done")
    if agent is not None:
        agent.goodbye()
    return int(options.exit)


if __name__ == "__main__":
    sys.exit(main())
