"""The settings of taps and sinks from the options of `opstep log`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence

from opstep_server.cli.log.log_options import FLAGS, KEYS
from opstep_server.taps import config, keys
from opstep_server.taps.settings import Settings, SinkSettings, TapSettings


def settings(args: argparse.Namespace, bases: Sequence[str]) -> Settings:
    """The requested settings; raises ConfigError. `bases` are folders of relative source files."""
    sinks: list[SinkSettings] = []
    for place in args.to:
        sinks += config.sinks_to(place, os.getcwd(), full=args.full)
    return Settings(
        sinks=tuple({each.name: each for each in sinks}.values()), taps=_taps(args, bases)
    )


def _taps(args: argparse.Namespace, bases: Sequence[str]) -> tuple[TapSettings, ...]:
    said: dict[str, object] = {name: getattr(args, name) for name, _, _ in KEYS}
    said.update(condition=args.condition, per_second=args.per_second)
    said.update({name: True for name in FLAGS if getattr(args, name)})
    what = [name for name in ("stats", "full") if getattr(args, name)]
    if args.histogram is not None:
        what.append("histogram")
        said["bins"] = args.histogram
    if args.samples is not None:
        what.append("samples")
    said["what"] = what or None
    said = {name: value for name, value in said.items() if value is not None}
    # Each place is a separate tap.
    places = [("ops", pattern) for pattern in args.patterns]
    places += [(key.name, said.pop(key.name)) for key in keys.PLACES if key.name in said]
    if "name" in said and len(places) > 1:
        raise config.ConfigError("--name: give one place, or no name")
    each = [{**said, name: value} for name, value in places] or [said]
    try:
        return tuple(config.tap(one, bases, _at, ()) for one in each)
    except config.ConfigError as error:
        # The option already names the key.
        text = re.sub(r"^(--[a-z-]+|PATTERN): [a-z_]+: ", r"\1: ", str(error))
        raise config.ConfigError(text) from None


def _at(path: tuple[str | int, ...]) -> str:
    """The option for the key."""
    names = {"condition": "--if", "per_second": "--rate", "ops": "PATTERN", "bins": "--histogram"}
    if not path:
        return ""
    return names.get(str(path[0]), f"--{str(path[0]).replace('_', '-')}") + ": "
