"""Arguments, errors and exit codes of `opstep run`, `opstep show` and `opstep records`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from opstep._core import Error

RUN_EPILOG = """\
FILE is a Python script (then this is `python FILE ARGS…`), a directory that save_model wrote, or a
program that Program.save wrote.

examples:
  opstep run train.py --epochs 3
  opstep run --taps taps.toml train.py --epochs 3
  opstep run digits_model --feed x=images.npy
  opstep run digits_model --random --batch 32 --repeat 1000
  opstep run main.opstep --startup startup.opstep --random --repeat 50 --fetch mean_0.out
  opstep run train.opstep --data train.rec --set lr=0.01 --steps 5000 --out trained

exit code: that of a script; else 0, 1 when something went wrong, 2 for wrong arguments, 130 after
Ctrl-C
"""

SHOW_EPILOG = """\
FILE is a directory that save_model wrote, a program that Program.save wrote, or a file of tensors
(.safetensors, .npy). Nothing is run.

examples:
  opstep show digits_model
  opstep show main.opstep --dot | dot -Tsvg > main.svg
"""

RECORDS_EPILOG = """\
info shows fields and sizes, verify reads all of FILE and counts damaged records, convert writes a
record file from a .npz (the first axis of each array counts records) or a .csv of numbers whose
first line names the columns.

examples:
  opstep records info digits.rec
  opstep records verify digits.rec
  opstep records convert digits.npz digits.rec

exit code: 0, 1 when something is damaged or went wrong, 2 for wrong arguments
"""


def parser() -> argparse.ArgumentParser:
    """The arguments of these commands."""
    top = argparse.ArgumentParser(prog="opstep")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    raw = argparse.RawDescriptionHelpFormatter
    run = commands.add_parser(
        "run",
        help="run a script, a saved model or a saved program",
        description="Run a script, a saved model or a saved program.",
        usage="opstep run [options] FILE [args of a script]",
        epilog=RUN_EPILOG,
        formatter_class=raw,
    )
    run.add_argument("file", metavar="FILE", help="what to run")
    run.add_argument(
        "--feed", metavar="NAME=FILE.npy", action="append", default=[], type=_feed, dest="given",
        help="the value of a feed; may be repeated",
    )  # fmt: skip
    run.add_argument(
        "--random", action="store_true",
        help="random values for the other feeds: floats in [0, 1), integers 0 or 1",
    )  # fmt: skip
    run.add_argument(
        "--batch", metavar="N", type=_count, default=1,
        help="the sizes of random feeds that the program leaves open (1)",
    )  # fmt: skip
    run.add_argument(
        "--seed", metavar="N", type=int, default=0, help="seed of the random values (0)"
    )
    run.add_argument(
        "--fetch", metavar="NAME", action="append", default=[], dest="wanted",
        help="a variable to show, besides the results of a model; may be repeated",
    )  # fmt: skip
    run.add_argument(
        "--out",
        metavar="DIR",
        help="write fetched values to DIR as NAME.npy instead of showing them, and trained values "
        "as params.safetensors",
    )
    run.add_argument(
        "--repeat",
        metavar="N",
        type=_count,
        default=1,
        help="run N times and report the time",
    )
    run.add_argument(
        "--startup", metavar="FILE", help="a program to run once before FILE: it fills parameters"
    )
    run.add_argument(
        "--allow-files",
        action="store_true",
        help="let the ops of a program file read and write the files that they name",
    )
    run.add_argument(
        "--params", metavar="FILE",
        help="a safetensors file with values of persistable variables, such as a checkpoint",
    )  # fmt: skip
    _add_training(run)
    run.add_argument(
        "--taps", metavar="FILE", help="log values of ops as this file says; goes before a script"
    )
    show = commands.add_parser(
        "show",
        help="print a saved model or program as a listing or as a graph",
        description="Print a saved model or program as a listing or as a graph.",
        epilog=SHOW_EPILOG,
        formatter_class=raw,
    )
    show.add_argument("file", metavar="FILE", help="what to show")
    show.add_argument("--dot", action="store_true", help="a picture for Graphviz instead")
    _add_records(commands)
    return top


def _add_training(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--set", metavar="NAME=VALUE", action="append", default=[], type=_setting, dest="settings",
        help="another value of a setting, such as a learning rate; may be repeated",
    )  # fmt: skip
    loops = run.add_argument_group("programs with loops over readers, such as merged ones")
    loops.add_argument(
        "--steps", metavar="N", type=_count, help="how many iterations the first loop makes"
    )
    loops.add_argument(
        "--data", metavar="[NAME=]FILE.rec", action="append", default=[],
        help="read this record file: in the first loop, or the loop or reading op NAME; may be "
        "repeated for data in several files",
    )  # fmt: skip
    loops.add_argument(
        "--skip-damaged", action="store_true",
        help="skip and count damaged records; without it, damage is an error",
    )  # fmt: skip
    loops.add_argument(
        "--checkpoint", metavar="FILE",
        help="the file that Ctrl-C writes and the same command resumes from; deleted when the "
        "program has ended (NAME.checkpoint.safetensors in the current directory, for NAME.opstep)",
    )  # fmt: skip


def _add_records(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    records = commands.add_parser(
        "records",
        help="describe, verify or make a record file",
        description="Describe, verify or make a record file.",
        epilog=RECORDS_EPILOG,
        formatter_class=raw,
    )
    actions = records.add_subparsers(
        dest="action", metavar="ACTION", required=True, help="info, verify or convert"
    )
    for name, what in [
        ("info", "fields, number of records and sizes"),
        ("verify", "read everything and count damaged records"),
    ]:
        action = actions.add_parser(name, help=what, description=what)
        action.add_argument("file", metavar="FILE", help="a record file")
    convert = actions.add_parser(
        "convert", help="write a record file", description="Write a record file."
    )
    convert.add_argument("source", metavar="IN", help="a .npz or .csv file")
    convert.add_argument("out", metavar="OUT", help="the record file")
    convert.add_argument(
        "--codec", choices=["zlib", "none"], default="zlib", help="how chunks are compressed (zlib)"
    )


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words[:1] == ["run"]:
            taps, rest = _taps(words[1:])
            if rest and rest[0].endswith(".py"):
                from opstep.cli.run_command import run_script

                return run_script(rest[0], rest[1:], taps)
        top = parser()
        args = top.parse_args(words)
        if args.command == "show":
            from opstep.cli.show_command import show

            show(args.file, args.dot)
            return 0
        if args.command == "records":
            from opstep.cli import records_command

            return records_command.run(args)
        if args.file.endswith(".py"):
            top.error(f"a script comes first and has its own options: opstep run {args.file} ARGS")
        from opstep.cli.run_command import run

        return run(args)
    except Error as error:
        print(f"opstep: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nobody reads our output (`| head`); Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + signal.SIGPIPE


def _taps(words: list[str]) -> tuple[str | None, list[str]]:
    """The file of `--taps FILE` before a script, whose own options follow it; and the rest."""
    if words[:1] == ["--taps"] and len(words) > 1:
        return words[1], words[2:]
    if words and words[0].startswith("--taps="):
        return words[0].removeprefix("--taps="), words[1:]
    return None, words


def _feed(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"'{text}' is not a feed: write NAME=FILE.npy")
    return name, path


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"'{text}' is not a setting: write NAME=VALUE")
    return name, value


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 1 or more")
    return number
