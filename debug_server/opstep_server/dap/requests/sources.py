"""Listings as sources, and the lines of files on which ops were made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments, RequestError
from opstep_server.dap.protocol.request_rules import Run, request
from opstep_server.debugger import ExecutorProcess, ProgramRef
from opstep_server.wire import debug_pb2 as pb

if TYPE_CHECKING:
    from opstep_server.dap.adapter_session import AdapterSession

# Distinguishes a listing from a file, also when a client keeps its breakpoints for later.
SUFFIX = ".opstep"
MIME_TYPE = "text/x-opstep-listing"


class Sources:
    """A listing's number stands for one version of one program and is valid for the session."""

    def __init__(self, session: AdapterSession) -> None:
        self._session = session
        self._references: dict[tuple[int, int, int], int] = {}
        self._programs: dict[int, ProgramRef] = {}
        self._seen: set[tuple[int, int]] = set()
        # By executor and program: the version, and the lines of each file that made ops of it.
        self._lines: dict[tuple[int, int], tuple[int, dict[str, set[int]]]] = {}

    @property
    def any_program(self) -> bool:
        """Whether the session has had a program, even if it is gone."""
        return bool(self._references)

    def program(self, executor: ExecutorProcess, program: int) -> ProgramRef | None:
        for ref in self._session.debugger.programs:
            if ref.executor is executor and ref.event.program == program:
                return ref
        return None

    def listing(self, ref: ProgramRef) -> types.Source:
        key = (ref.executor.id, ref.event.program, ref.event.version)
        reference = self._references.setdefault(key, len(self._references) + 1)
        self._programs[reference] = ref
        return {
            "name": ref.event.name + SUFFIX,
            # Not a file, but VS Code does not list sources without a path.
            "path": ref.event.name + SUFFIX,
            "sourceReference": reference,
            "origin": f"listing of program {ref.event.name}",
        }

    def listing_source(self, program_name: str) -> types.Source:
        for ref in reversed(self._session.debugger.programs):
            if ref.event.name == program_name:
                return self.listing(ref)
        return {"name": program_name + SUFFIX}

    def program_of(self, source: Arguments) -> str | None:
        """The program whose listing this is; None for a file."""
        reference = source.integer("sourceReference", 0)
        if reference in self._programs:
            return self._programs[reference].event.name
        path = source.optional_string("path")
        name = path or source.string("name", "")
        if name.endswith(SUFFIX) and not (path and os.path.isabs(path) and os.path.exists(path)):
            return os.path.basename(name)[: -len(SUFFIX)]
        return None

    def compiled(self, executor: ExecutorProcess, program: pb.ProgramEvent) -> None:
        key = (executor.id, program.program)
        reason = "changed" if key in self._seen else "new"
        self._seen.add(key)
        source = self.listing(ProgramRef(executor, program))
        self._session.outbox.event("loadedSource", {"reason": reason, "source": source})

    def lost(self, executor: ExecutorProcess) -> None:
        """Its listings cannot be read any more."""
        for reference, ref in list(self._programs.items()):
            if ref.executor is executor:
                body = {"reason": "removed", "source": self.listing(ref)}
                self._session.outbox.event("loadedSource", body)
                del self._programs[reference]
        self._seen = {key for key in self._seen if key[0] != executor.id}
        self._lines = {key: made for key, made in self._lines.items() if key[0] != executor.id}

    @request(run=Run.INSPECTION)
    async def source_request(self, arguments: Arguments) -> types.SourceResponseBody:
        reference = arguments.integer("sourceReference", 0)
        if not reference and "source" in arguments:
            reference = arguments.object("source").integer("sourceReference", 0)
        ref = self._programs.get(reference)
        if ref is None:
            raise RequestError(f"there is no listing {reference} in this session")
        lines = await self._session.debugger.listing(ref)
        return {"content": "".join(f"{line}\n" for line in lines), "mimeType": MIME_TYPE}

    @request(run=Run.INSPECTION, supportsLoadedSourcesRequest=True)
    async def loadedSources_request(self, arguments: Arguments) -> types.LoadedSourcesResponseBody:
        sources = [self.listing(ref) for ref in self._session.debugger.programs]
        files: dict[str, None] = {}
        for ref in self._session.debugger.programs:
            files.update(dict.fromkeys(await self._made(ref)))
        sources += [{"name": os.path.basename(file), "path": file} for file in files]
        return {"sources": sources}

    @request(run=Run.INSPECTION, supportsBreakpointLocationsRequest=True)
    async def breakpointLocations_request(
        self, arguments: Arguments
    ) -> types.BreakpointLocationsResponseBody:
        source = arguments.object("source")
        first = arguments.line("line")
        last = arguments.line("endLine", first)
        program_name = self.program_of(source)
        path = "" if program_name is not None else _real(source.string("path"))
        lines: set[int] = set()
        for ref in self._session.debugger.programs:
            if program_name is None:
                for file, made in (await self._made(ref)).items():
                    lines |= made if _real(file) == path else set()
            elif ref.event.name == program_name:
                lines.update(op.listing_line for op in await self._session.debugger.ops(ref))
        shown = sorted(self._session.client.line(line) for line in lines)
        return {"breakpoints": [{"line": line} for line in shown if first <= line <= last]}

    async def _made(self, ref: ProgramRef) -> dict[str, set[int]]:
        """By file, the lines on which the program's ops were made."""
        key = ref.executor.id, ref.event.program
        version, lines = self._lines.get(key, (0, {}))
        if not lines or version != ref.event.version:
            lines = {}
            for op in await self._session.debugger.ops(ref):
                for at in op.stack:
                    lines.setdefault(at.file, set()).add(at.line)
            self._lines[key] = ref.event.version, lines
        return lines


def _real(path: str) -> str:
    """The canonical path of a file."""
    try:
        return os.path.realpath(path)
    except ValueError:
        return path  # A path with a NUL does not name a file.
