"""The command `opstep`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Until a session handles it, Ctrl-C ends us like any program, without a traceback.
        # Therefore everything else is imported below.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from opstep_server.cli.app import subcommands

    return subcommands.run_subcommand(list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
