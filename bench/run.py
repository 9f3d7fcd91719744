"""`make bench`: side by side with the peers, in one run, one thread each.

Prints a table (name, ours, peer, ratio, bar, met) and writes the rows to build/bench.json.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from pathlib import Path

# Before any of the libraries starts its threads.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import building
import chain
import dap_steps
import hook_cost
import mlp
from table import Row, show, write

GROUPS = {
    "chain": chain.rows,
    "mlp": mlp.rows,
    "building": building.rows,
    "dap_steps": dap_steps.rows,
    "hook_cost": hook_cost.rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", default="*", help=f"a pattern over the groups: {', '.join(GROUPS)}"
    )
    args = parser.parse_args()
    chosen = [name for name in GROUPS if fnmatch.fnmatch(name, args.only)]
    if not chosen:
        parser.error(f"no group matches '{args.only}'; there are {', '.join(GROUPS)}")
    rows: list[Row] = []
    for name in chosen:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        rows += GROUPS[name]()
    print(show(rows))
    path = Path(__file__).resolve().parent.parent / "build" / "bench.json"
    write(rows, path)
    missed = [row.name for row in rows if row.met is False]
    if missed:
        print(f"bars missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
