"""`make bench`: side by side with the peers, in one run, with one thread and with two.

Prints a table (name, ours, peer, ratio, bar, met) and writes the rows to build/bench.json.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

from table import Row, show, write

# Each group runs in its own processes, one for each number of threads: libraries read the number
# when they start.
THREADS = {
    "chain": (1,),
    "mlp": (1, 2),
    "convnet": (1, 2),
    "matmul": (1, 2),
    "conv_shapes": (1, 2),
    "loops": (1,),
    "building": (1,),
    "imperative": (1,),
    "imperative_memory": (1,),
    "dap_steps": (1,),
    "terminal": (1,),
    "transfer": (1,),
    "watching": (1,),
    "taps": (1,),
    "serving": (1,),
    "hook_cost": (1,),
    "tap_stats": (1,),
}
VARIABLES = ("OPSTEP_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def measure(group: str, threads: int) -> list[Row]:
    """The rows of one group, from a child process."""
    env = os.environ | dict.fromkeys(VARIABLES, str(threads))
    command = [sys.executable, __file__, "--child", group]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    rows = [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]
    if len(THREADS[group]) == 1:
        return rows
    text = "1 thread" if threads == 1 else f"{threads} threads"
    return [replace(row, name=f"{row.name}, {text}") for row in rows]


def child(group: str) -> int:
    rows: list[Row] = importlib.import_module(group).rows()
    print(json.dumps([asdict(row) for row in rows]))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="*", help=f"a pattern over the groups: {', '.join(THREADS)}"
    )
    parser.add_argument("--child", choices=list(THREADS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child)
    chosen = [name for name in THREADS if fnmatch.fnmatch(name, args.only)]
    if not chosen:
        parser.error(f"no group matches '{args.only}'; there are {', '.join(THREADS)}")
    rows: list[Row] = []
    for name in chosen:
        for threads in THREADS[name]:
            text = f"{name}, {threads} thread{'s' if threads > 1 else ''}"
            print(f"measuring {text} …", file=sys.stderr, flush=True)
            rows += measure(name, threads)
    print(show(rows))
    path = Path(__file__).resolve().parent.parent / "build" / "bench.json"
    write(rows, path)
    missed = [row.name for row in rows if row.met is False]
    if missed:
        print(f"bars missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
