"""Saved programs and models as debug targets: options, and the `opstep run` they become."""

from __future__ import annotations

import argparse
import os
import sys

from opstep_server.debugger import LaunchTarget

# Bytes that are in the beginning of every saved program, but never in Python source.
_BINARY = frozenset(range(9))


def is_saved(path: str) -> bool:
    """Whether it is a directory that save_model wrote or a program that Program.save wrote."""
    if os.path.isdir(path):
        return True
    if path.endswith(".py"):
        return False
    try:
        with open(path, "rb") as file:
            return not _BINARY.isdisjoint(file.read(256))
    except OSError:
        return False


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `opstep run`; its --batch is --batch-size here."""
    group = parser.add_argument_group("of a saved program or model, anywhere among the arguments")
    for flag, metavar, what in _VALUES:
        group.add_argument(flag, metavar=metavar, action="append", default=[], help=what)
    for flag, what in _FLAGS:
        group.add_argument(flag, action="store_true", help=what)


_VALUES = (
    ("--feed", "NAME=FILE.npy", "the value of a feed; may be repeated"),
    ("--batch-size", "N", "the sizes of random feeds that the program leaves open (1)"),
    ("--seed", "N", "of the random values (0)"),
    ("--fetch", "NAME", "a variable to show, beside what a model gives; may be repeated"),
    ("--out", "DIR", "write what was fetched to DIR as NAME.npy, do not show it"),
    ("--repeat", "N", "run N times"),
    ("--startup", "FILE", "a program that is run once before: it fills parameters"),
    ("--params", "FILE", "a safetensors file with values of persistable variables"),
    ("--set", "NAME=VALUE", "another value of a setting; may be repeated"),
    ("--steps", "N", "how many iterations the first loop over data makes"),
    ("--data", "[NAME=]FILE.rec", "read this record file, in the first loop or NAME's"),
    ("--checkpoint", "FILE", "the file from which an interrupted loop goes on"),
)
_FLAGS = (
    ("--random", "random values for the other feeds"),
    ("--allow-files", "let the ops of a program file read and write the files that they name"),
)


def given(args: argparse.Namespace) -> list[str]:
    """The given options as arguments for `opstep run`."""
    words: list[str] = []
    for flag, _, _ in _VALUES:
        for value in _value(args, flag):
            words.append(f"{'--batch' if flag == '--batch-size' else flag}={value}")
    return [*words, *(flag for flag, _ in _FLAGS if _value(args, flag))]


def _value(args: argparse.Namespace, flag: str) -> list[str]:
    value = getattr(args, flag.removeprefix("--").replace("-", "_"))
    return value if isinstance(value, list) else ["yes"] * value


def problem(args: argparse.Namespace) -> str:
    """An error that can be seen before the start; "" for none."""
    for text in args.feed:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            return f"'{text}' is not a feed: write --feed NAME=FILE.npy"
        if not os.path.isfile(path):
            return f"there is no file {path} to feed {name} from"
    for path in [*args.startup, *args.params]:
        if not os.path.isfile(path):
            return f"there is no file {path}"
    for flag, least in (("batch_size", 1), ("repeat", 1), ("steps", 1), ("seed", None)):
        for text in getattr(args, flag):
            if not text.isdecimal() or (least and int(text) < least):
                return f"'{text}' is not a number for --{flag.replace('_', '-')}"
    return ""


def target(args: argparse.Namespace) -> LaunchTarget:
    # A file in the current folder must not be imported as one of our modules.
    safe = {"PYTHONSAFEPATH": "1"} if sys.version_info >= (3, 11) else {}
    return LaunchTarget("opstep", ("run", *given(args), args.file), module=True, env=safe)
