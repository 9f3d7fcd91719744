"""`opstep log view` and `opstep log report`: commands on the directory of a tap log."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

from opstep_server.cli.app import exit_codes
from opstep_server.cli.output import characters
from opstep_server.taps.log_files import row_choice
from opstep_server.taps.log_files.log_directory import DirectoryError
from opstep_server.taps.records import STATISTICS

VIEW_EPILOG = """\
The table follows the files as they grow. Keys: arrows and PgUp/PgDn move, Enter shows one source
with its plot and histogram, / filters, s and S choose the statistic, o and O the order, q ends.
Without a terminal, and with --once, the table is printed once. NO_COLOR turns colours off.

examples:
  opstep log view logs
  opstep log view logs --filter "conv* grad" --statistic l2 --order nan
  opstep log view logs --once | grep fc_0
"""


REPORT_EPILOG = """\
The page needs no network. Of long logs it shows a bounded number of points, in which smallest and
largest values survive; it says so. Where there are no JSON lines, Parquet files are read.

examples:
  opstep log report logs --html
  opstep log report logs --html /tmp/report.html
"""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers, by the words after `opstep`."""
    view = argparse.ArgumentParser(
        "opstep log view",
        description="Show what taps log to a directory, in this terminal, while they do.",
        epilog=VIEW_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_directory(view)
    view.add_argument(
        "--once", action="store_true", help="print the table once, as text for scripts"
    )
    view.add_argument(
        "--filter", metavar="WORDS", default="",
        help="only sources with all these words in tap, program, op, type, variable or process; "
        "* and ? stand for letters",
    )  # fmt: skip
    view.add_argument(
        "--statistic", metavar="NAME", default="mean", choices=STATISTICS,
        help=f"what is drawn: {', '.join(STATISTICS)}",
    )  # fmt: skip
    view.add_argument(
        "--order", metavar="ORDER", default="name", choices=row_choice.ORDERS,
        help=f"{', '.join(row_choice.ORDERS[:-1])} or {row_choice.ORDERS[-1]}",
    )  # fmt: skip
    report = argparse.ArgumentParser(
        "opstep log report",
        description="Write what taps logged to a directory as one page, with plots per op.",
        epilog=REPORT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_directory(report)
    report.add_argument(
        "--html", metavar="FILE", nargs="?", const="", required=True,
        help="the page; DIR/report.html if not given",
    )  # fmt: skip
    return {"log view": view, "log report": report}


def main(words: list[str]) -> int:
    """`words` begin with `log view` or `log report`."""
    characters.replace_unknown()
    args = parsers()[" ".join(words[:2])].parse_args(words[2:])
    try:
        return _report(args) if words[1] == "report" else _view(args)
    except DirectoryError as error:
        print(f"opstep: {error}", file=sys.stderr)
        return exit_codes.WRONG
    except BrokenPipeError:
        # Nobody reads our output (`| head`); Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.by_signal(signal.SIGPIPE)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="where taps log to")


def _view(args: argparse.Namespace) -> int:
    # Imported here: help and errors need no terminal.
    from opstep_server.cli.log import log_table
    from opstep_server.taps.log_files import log_directory
    from opstep_server.taps.log_files.tap_log import TapLog

    log_directory.check(args.directory)
    log = TapLog(args.directory)
    chosen = args.filter, args.order, args.statistic
    if args.once or not _full_screen():
        log_table.once(log, *chosen)
        return 0
    from opstep_server.cli.log.live.live_table import LiveTable

    return asyncio.run(LiveTable(log, *chosen).run())


def _full_screen() -> bool:
    """Whether there is a terminal that can do more than write lines."""
    able = os.environ.get("TERM", "") not in ("", "dumb", "unknown")
    return able and sys.stdout.isatty() and sys.stdin.isatty()


def _report(args: argparse.Namespace) -> int:
    from opstep_server.taps.log_files import log_directory
    from opstep_server.taps.report import report_writer

    log_directory.check(args.directory, parquet=True)
    told = sys.stderr.isatty()

    def progress(count: int) -> None:
        if told:
            sys.stderr.write(f"\r{count:,} records read")
            sys.stderr.flush()

    path = Path(args.html) if args.html else args.directory / "report.html"
    written = report_writer.write(args.directory, path, progress)
    if told:
        sys.stderr.write("\r\x1b[K")
    print(f"{path}: {written}")
    return 0
