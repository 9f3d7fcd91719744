"""`opstep ps`: the list of processes that a debugger can attach to."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shlex
import sys

from opstep_server import doorbell

_HEAD = ("PID", "POLICY", "ATTACHED", "COMMAND")


def ps(as_json: bool = False) -> int:
    running = asyncio.run(doorbell.running())
    if as_json:
        print(json.dumps([dataclasses.asdict(process) for process in running]))
        return 0
    rows = [_HEAD, *(_row(process) for process in running)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        print("  ".join([*cells, row[-1]]))
    if len(rows) == 1:
        print("no process of yours has an executor now", file=sys.stderr)
    return 0


def _row(process: doorbell.Running) -> tuple[str, str, str, str]:
    attached = "yes" if process.attached else "server" if process.server else "no"
    # Arguments may hold anything: no control character may reach the terminal.
    command = "".join(c if c.isprintable() else "?" for c in shlex.join(process.argv))
    return str(process.pid), process.policy, attached, command
