"""`opstep log`: taps in a running process, set from this terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fnmatch
import os
import signal
import sys
from dataclasses import replace

from opstep_server import access, doorbell
from opstep_server.cli.app import exit_codes
from opstep_server.cli.log.log_options import parse_log
from opstep_server.cli.log.option_settings import settings
from opstep_server.cli.log.record_lines import LinesSink
from opstep_server.cli.output import characters, descriptions
from opstep_server.debugger import Debugger, DebuggerError, Event, ExecutorLost, ExecutorProcess
from opstep_server.model import ExecutorJoined, ExecutorMoved
from opstep_server.tap_api import who
from opstep_server.taps import removal
from opstep_server.taps.settings import Settings
from opstep_server.taps.tap_reports import TapReports
from opstep_server.taps.watched_file import WatchedFile
from opstep_server.wire import debug_pb2 as pb

POLL_SECONDS = 0.25
# How long a server may take to pass on its processes.
FIRST_SECONDS = 2.0
_WHO = who("opstep log")
_HEAD = ("NAME", "UID", "OPS", "PRODUCED", "DELIVERED", "SET BY", "STATE")


def main(words: list[str]) -> int:
    characters.replace_unknown()
    args = parse_log(words)
    try:
        return asyncio.run(_Log(args).run())
    except DebuggerError as error:
        _tell(str(error))
        return exit_codes.WRONG
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exit_codes.by_signal(signal.SIGINT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.by_signal(signal.SIGPIPE)


class _Log:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._reports = TapReports(_tell, early=True, anew=True)
        self._ended = asyncio.Event()
        # The process to log; None: all of a server.
        self._pid = int(args.place) if args.place.isdecimal() else None
        self._executor: ExecutorProcess | None = None
        self._directories: list[str] = []
        self._file: WatchedFile | None = None

    async def run(self) -> int:
        args = self._args
        if self._pid is None and ":" not in args.place:
            raise DebuggerError(await _no_process(args.place))
        wanted = None if args.list or args.remove else self._wanted()
        self._debugger = Debugger(present=False)
        self._debugger.subscribe(self._take)
        try:
            guest = await self._reach()
            if args.remove:
                return await self._remove(args.remove)
            if args.list:
                return await self._list()
            assert wanted is not None
            if args.keep and guest:
                raise DebuggerError(
                    "--keep: what is set through a debug server goes with whoever set it; write it "
                    "into the server's own file of taps"
                )
            return await self._log(wanted)
        finally:
            await self._debugger.close()

    def _wanted(self) -> Settings:
        args = self._args
        if not args.taps:
            return settings(args, self._bases())
        if args.patterns or args.to:
            raise DebuggerError(f"{args.taps} says what is logged where to: leave out the rest")
        self._file = WatchedFile(args.taps, _tell)
        return self._file.settings

    async def _reach(self) -> bool:
        """Waits for the process, or those of the server; returns whether it is through a server."""
        address = self._args.place
        if self._pid is not None:
            known = [each for each in await doorbell.running() if each.pid == self._pid]
            address = known[0].server if known else ""
            if not address or address.startswith("unix:"):
                self._executor = await self._debugger.attach_pid(self._pid)
                return self._debugger.is_guest(self._executor)
        place = access.dial_place(address, self._args.token_file, self._args.tls_ca)
        came = asyncio.Event()

        def joined(event: Event) -> None:
            if isinstance(event, ExecutorJoined) and self._pid in (None, event.executor.pid):
                self._executor = event.executor if self._pid is not None else None
                came.set()

        unsubscribe = self._debugger.subscribe(joined)
        await self._debugger.visit(place, self._server_gone)
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(came.wait(), FIRST_SECONDS)
        unsubscribe()
        if self._pid is not None and self._executor is None:
            raise DebuggerError(
                f"the debug server at {address} did not pass on process {self._pid}"
            )
        return True

    def _bases(self) -> list[str]:
        """The folders for relative source files: the current folder, and that of the process."""
        bases = [os.getcwd()]
        if self._pid is not None:
            with contextlib.suppress(OSError):
                bases.append(os.readlink(f"/proc/{self._pid}/cwd"))
        return bases

    # ---- logging ---------------------------------------------------------------------------------

    async def _log(self, wanted: Settings) -> int:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._ended.set)
        await self._set(wanted)
        while not self._ended.is_set() and not self._over():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), POLL_SECONDS)
            self._look()
            if self._file is not None and (changed := self._file.look()) is not None:
                await self._set(changed)
        await self._finish()
        # Messages on the standard output must not mix with records.
        out = sys.stdout if self._directories else sys.stderr
        for line in self._reports.table():
            print(line, file=out)
        if self._reports.all_lost:
            _tell("all records were lost")
            return exit_codes.LOST
        return 0

    async def _set(self, wanted: Settings) -> None:
        for tap in wanted.taps:
            tap.message.with_server |= not self._args.keep
        jsonl = [each.path for each in wanted.sinks if each.kind == "jsonl"]
        self._directories = [path for path in jsonl if path != "-"]
        await self._debugger.set_taps(
            # Two users of the same file have separate taps.
            replace(wanted, server=""),
            who=_WHO,
            tell=self._sink_tells,
            sinks=[] if wanted.sinks else [("stdout", LinesSink())],
            only=self._executor,
        )

    def _look(self) -> None:
        executors = {each.id: each for each in self._debugger.executors}
        for id, status in self._debugger.taps:
            if id in executors:
                self._reports.note(executors[id], [status])
        self._reports.poll()
        self._reports.write(self._directories)

    def _over(self) -> bool:
        """Whether all taps have ended; with a server, others may still come."""
        # Others may log through this one, also the user who removed its taps.
        needed = self._reports.ended_by(removal.REMOVED) and not self._debugger.is_alone
        return self._reports.ended and self._pid is not None and not needed

    async def _finish(self) -> None:
        executors = {each.id: each for each in self._debugger.executors}
        if self._args.keep:
            last = [
                (executor.id, status)
                for executor, told in await self._debugger.list_taps()
                for status in told.statuses
            ]
        else:
            last = await self._debugger.stop_taps()
        mine = {status.uid for _, status in self._debugger.taps}
        for id, status in last:
            if id in executors and status.uid in mine:
                self._reports.note(executors[id], [status])
        self._reports.tell_rest()
        if not self._args.keep:
            await self._debugger.set_taps(Settings(), who=_WHO)
        await self._debugger.close_taps()
        await self._reports.write_last(self._directories)

    def _take(self, event: Event) -> None:
        self._reports.take(event)
        if isinstance(event, ExecutorMoved) and event.executor is self._executor:
            self._executor = event.now
            _tell(event.message)
        if isinstance(event, ExecutorLost) and event.executor is self._executor:
            _tell(event.message or f"process {event.executor.pid} has ended, or left")
            self._ended.set()

    def _server_gone(self, message: str) -> None:
        _tell(message)
        self._ended.set()

    def _sink_tells(self, text: str) -> None:
        if "Broken pipe" in text:
            self._ended.set()  # Nobody reads any more (`| head`).
        else:
            _tell(text)

    # ---- taps of other users ---------------------------------------------------------------------

    async def _list(self) -> int:
        # On a server each process has its own taps.
        many = self._pid is None
        rows: list[tuple[str, ...]] = [("PROCESS", *_HEAD) if many else _HEAD]
        for executor, told in await self._debugger.list_taps():
            if self._executor in (None, executor):
                process = (f"{executor.hello.host}:{executor.pid}",) if many else ()
                rows += [(*process, *_row(status)) for status in told.statuses]
        for line in descriptions.table(rows, indent=""):
            print(line)
        return 0

    async def _remove(self, names: list[str]) -> int:
        found: dict[str, str] = {}
        known: list[str] = []
        for executor, told in await self._debugger.list_taps():
            for status in told.statuses if self._executor in (None, executor) else ():
                known.append(status.name)
                if status.uid in names or any(fnmatch.fnmatch(status.name, one) for one in names):
                    found[status.uid] = status.name
        if not found:
            there = ", ".join(sorted(set(known))) or "none"
            raise DebuggerError(f"there is no tap {' or '.join(names)}: there are {there}")
        await self._debugger.drop_taps(list(found), _WHO, self._executor)
        print(f"removed {', '.join(found.values())}")
        return 0


async def _no_process(word: str) -> str:
    """The error for a word, mostly the pattern, in the place of the process."""
    known = [each.pid for each in await doorbell.running()]
    pid = str(known[0]) if len(known) == 1 else "PID"
    return (
        f"'{word}' is neither a process nor the address of a server: write 'opstep log {pid} "
        f"{word}'" + ("" if known[1:] == [] and known else ", 'opstep ps' lists the processes")
    )


def _row(status: pb.TapStatus) -> tuple[str, ...]:
    counts = status.counts
    state = f"ended: {status.ended}" if status.ended else status.message or "on"
    return (
        status.name, status.uid, str(status.op_count), f"{counts.produced:,}",
        f"{counts.delivered:,}", status.who, state,
    )  # fmt: skip


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        print(f"opstep: {text}", file=sys.stderr, flush=True)
