"""The roster: connected executors, their threads and their programs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from opstep_server.connection import Connection
from opstep_server.model import (
    DebuggerError,
    Event,
    ExecutorProcess,
    ProgramCompiled,
    ProgramRef,
    Thread,
    ThreadEnded,
    ThreadStarted,
)
from opstep_server.wire import debug_pb2 as pb


class Roster:
    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._executors: dict[Connection, ExecutorProcess] = {}
        self._threads: dict[int, Thread] = {}
        self._programs: dict[tuple[int, int], ProgramRef] = {}
        self._executor_ids = itertools.count(1)
        self._thread_ids: Iterator[int] = itertools.count(1)

    @property
    def executors(self) -> list[ExecutorProcess]:
        return list(self._executors.values())

    @property
    def threads(self) -> list[Thread]:
        return list(self._threads.values())

    @property
    def programs(self) -> list[ProgramRef]:
        return list(self._programs.values())

    def join(self, connection: Connection) -> ExecutorProcess:
        executor = ExecutorProcess(next(self._executor_ids), connection, connection.hello)
        self._executors[connection] = executor
        return executor

    def executor(self, connection: Connection) -> ExecutorProcess:
        return self._executors[connection]

    def stands(self, connection: Connection) -> bool:
        """Whether all threads of the executor are stopped."""
        executor = self._executors[connection]
        threads = [thread for thread in self.threads if thread.executor is executor]
        return bool(threads) and all(thread.stopped is not None for thread in threads)

    def leave(self, connection: Connection) -> ExecutorProcess:
        """Removes the executor with its threads and programs."""
        executor = self._executors.pop(connection)
        for thread in self.threads:
            if thread.executor is executor:
                self._end(thread)
        for key in [key for key in self._programs if key[0] == executor.id]:
            del self._programs[key]
        return executor

    def compiled(self, executor: ExecutorProcess, program: pb.ProgramEvent) -> None:
        # At the end, also when it is known already: programs are in the order of compilation.
        self._programs.pop((executor.id, program.program), None)
        self._programs[executor.id, program.program] = ProgramRef(executor, program)
        self._emit(ProgramCompiled(executor, program))

    def thread_event(self, executor: ExecutorProcess, event: pb.ThreadEvent) -> None:
        thread = self.wire_thread(executor, event.thread, event.name)
        if event.ended:
            self._end(thread)
        elif event.name:
            thread.name = event.name

    def wire_thread(self, executor: ExecutorProcess, wire_id: int, name: str = "") -> Thread:
        """The thread with this number in the executor; made when it is new."""
        for thread in self._threads.values():
            if thread.executor is executor and thread.wire_id == wire_id:
                return thread
        name = name or f"thread {wire_id}"
        thread = Thread(next(self._thread_ids), name, executor, wire_id)
        self._threads[thread.id] = thread
        self._emit(ThreadStarted(thread))
        return thread

    def count_anew(self) -> None:
        """Lets the next threads reuse the numbers of those that have ended."""
        self._thread_ids = itertools.filterfalse(self._threads.__contains__, itertools.count(1))

    def thread(self, id: int) -> Thread:
        if id not in self._threads:
            raise DebuggerError(f"there is no thread {id}")
        return self._threads[id]

    def stopped(self, id: int) -> tuple[Thread, pb.Stopped]:
        thread = self.thread(id)
        if thread.stopped is None:
            raise DebuggerError(f"thread {id} ({thread.name}) is running: pause it first")
        return thread, thread.stopped

    def _end(self, thread: Thread) -> None:
        thread.stopped = None
        del self._threads[thread.id]
        self._emit(ThreadEnded(thread))
