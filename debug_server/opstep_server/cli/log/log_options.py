"""Command-line options of `opstep log` and `opstep collect`."""

from __future__ import annotations

import argparse
from typing import Any

from opstep_server.taps.keys import BY_NAME, DEFAULT_BINS

LOG_EPILOG = """\
Without --to, records are printed. Ctrl-C ends it, takes its taps away and says how many records
there were. A process that is connected to a debug server is logged through that one. 'opstep log
view DIR' shows what was written.

examples:
  opstep log 4711 'conv*'
  opstep log 4711 'conv*' 'fc*' --histogram --every 100 --to logs
  opstep log 4711 --gradient-of fc_0.w --if 'isnan(out).any()' --to tensorboard:runs/nan
  opstep log 4711 --line train.py:41 --value 'out[0, :8]' --for 10m
  opstep log unix:/run/user/1000/opstep/server --taps taps.toml
  opstep log 4711 --list
  opstep log 4711 --remove 'conv*'
"""

COLLECT_EPILOG = """\
FILE is read again when it changes; one with a mistake leaves the old taps in force. Processes come
here by OPSTEP_SERVER=ADDRESS; 'opstep run --taps FILE' and OPSTEP_TAPS=FILE start one of their own.

examples:
  opstep collect --taps taps.toml --listen unix:/tmp/taps
"""

# Options with the same name as a tap's key: dest, metavar, converter.
KEYS = (
    ("name", "NAME", str),
    ("line", "FILE:N", str),
    ("variable", "NAME", str),
    ("gradient_of", "NAME", str),
    ("listing", "PROGRAM:N", str),
    ("op", "N", int),
    ("value", "EXPR", str),
    ("samples", "N", int),
    ("every", "N", int),
    ("first", "K", int),
    ("probability", "P", float),
    ("seed", "S", int),
    ("for", "10m", str),
    ("until", "DATE", str),
    ("count", "N", int),
    ("max_bytes", "SIZE", str),
)
FLAGS = ("gradients", "inputs", "outputs")


_LOG: dict[str, Any] = {
    "description": "Log values of ops of a running process, without stopping it.",
    "usage": "opstep log PID|ADDRESS [PATTERN ...] [options]",
    "epilog": LOG_EPILOG,
    "formatter_class": argparse.RawDescriptionHelpFormatter,
}


def parse_log(words: list[str]) -> argparse.Namespace:
    """Allows options between patterns, which a parser with subcommands cannot read."""
    parser = argparse.ArgumentParser("opstep log", **_LOG)
    _fill(parser)
    return parser.parse_intermixed_args(words)


def add_log(commands: Any) -> None:
    what = "log values of ops of a running process, without stopping it"
    _fill(commands.add_parser("log", help=what, **_LOG))


def _fill(log: argparse.ArgumentParser) -> None:
    log.add_argument(
        "place", metavar="PID|ADDRESS",
        help="a process of yours that 'opstep ps' lists, or where an 'opstep serve' or an "
        "'opstep collect' has executors dial it",
    )  # fmt: skip
    log.add_argument(
        "patterns", metavar="PATTERN", nargs="*", help="types of ops, or patterns over their names"
    )
    which = log.add_argument_group("which ops")
    what = log.add_argument_group("what of them")
    when = log.add_argument_group("when")
    group = {
        **dict.fromkeys(("name", "line", "variable", "gradient_of", "listing", "op"), which),
        **dict.fromkeys(("value", "samples", "max_bytes"), what),
    }
    for name, metavar, kind in KEYS:
        group.get(name, when).add_argument(
            f"--{name.replace('_', '-')}", dest=name, metavar=metavar, type=kind, help=_help(name)
        )
    which.add_argument("--gradients", action="store_true", help=_help("gradients"))
    what.add_argument("--stats", action="store_true", help="statistics; the default")
    what.add_argument(
        "--histogram", metavar="BINS", nargs="?", type=int, const=DEFAULT_BINS,
        help="a histogram, by default of 64 bins",
    )  # fmt: skip
    what.add_argument(
        "--full", action="store_true", help="all elements; statistics too only with --stats"
    )
    what.add_argument("--inputs", action="store_true", help=_help("inputs"))
    what.add_argument("--outputs", action="store_true", help=_help("outputs"))
    when.add_argument("--if", dest="condition", metavar="COND", help=_help("condition"))
    when.add_argument("--rate", dest="per_second", metavar="N/s", help=_help("per_second"))
    where = log.add_argument_group("where to, and other taps")
    where.add_argument(
        "--to", metavar="DIR|-|KIND:PATH", action="append", default=[],
        help="a directory, JSON lines on stdout, or a kind of sink; may be repeated",
    )  # fmt: skip
    where.add_argument("--taps", metavar="FILE", help="the taps and sinks of this file")
    where.add_argument(
        "--keep",
        action="store_true",
        help="leave the taps there at the end; nobody writes their records until a collector comes",
    )
    where.add_argument("--list", action="store_true", help="list the taps of all users")
    where.add_argument(
        "--remove", metavar="NAME|UID", action="append", default=[],
        help="remove these taps of any user; may be repeated",
    )  # fmt: skip
    where.add_argument("--token-file", metavar="FILE", help="a file with the token of ADDRESS")
    where.add_argument("--tls-ca", metavar="FILE", help="root certificates for ADDRESS, in PEM")


def add_collect(commands: Any) -> argparse.ArgumentParser:
    collect: argparse.ArgumentParser = commands.add_parser(
        "collect",
        help="the taps of a file, for processes that dial here",
        description="Set the taps of a file in processes that dial here, and write their records.",
        epilog=COLLECT_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    collect.add_argument(
        "--taps", metavar="FILE", help="taps and sinks; else programs ask for them"
    )
    collect.add_argument(
        "--listen", metavar="ADDRESS",
        help="where processes dial: unix:/path or host:port (a socket that only you can use)",
    )  # fmt: skip
    collect.add_argument("--check", action="store_true", help="only check whether FILE is valid")
    collect.add_argument(
        "--parent", metavar="PID", type=int, help="end when this process has ended"
    )
    collect.add_argument("--ready", type=int, help=argparse.SUPPRESS)
    return collect


def _help(name: str) -> str:
    return BY_NAME[name].doc.replace("`", "'").replace("%", "%%")
