"""Checks `taps.toml`, a program's requests and a command's options; makes taps and sinks.

All three are the same dictionaries. An error is one sentence that begins with its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from opstep_server import expr
from opstep_server.taps import keys, quantities
from opstep_server.taps.quantities import shown
from opstep_server.taps.settings import (
    DEFAULT_MEMORY,
    At,
    ConfigError,
    Settings,
    SinkSettings,
    TapSettings,
    check_known,
    read_value,
)
from opstep_server.taps.sinks import kinds
from opstep_server.taps.sinks.base import Key, SinkError
from opstep_server.taps.tap_message import tap
from opstep_server.taps.toml_lines import Lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "ConfigError",
    "Settings",
    "SinkSettings",
    "TapSettings",
    "parse",
    "read",
    "sinks_to",
    "tap",
]

MAX_FILE = 1 << 20
_TOP = ("server", "sinks", "tap", "limits")
# Kinds with a place on the network, and the key that names it.
_LISTENING = {"prometheus": "listen", "otel": "endpoint"}


def read(path: str) -> Settings:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_FILE:
        raise ConfigError(f"{path} is larger than {MAX_FILE >> 20} MiB: is it the right file?")
    try:
        return parse(data.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: this is not UTF-8 text") from None


def parse(text: str, path: str = "taps.toml") -> Settings:
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax(str(error), text, path)) from None
    except RecursionError:
        raise ConfigError(f"{path}:1: it is nested too deeply") from None
    lines = Lines(text)
    return settings(
        found, os.path.dirname(os.path.abspath(path)), lambda p: f"{path}:{lines.of(p)}: "
    )


def settings(found: Mapping[str, object], base: str, at: At) -> Settings:
    """The settings of a whole file."""
    check_known(found, _TOP, (), "taps.toml", at)
    server = found.get("server", "")
    if not isinstance(server, str) or not server.isprintable() or len(server) > 200:
        raise ConfigError(f"{at(('server',))}{shown(server)} is not a name for a server")
    sinks = tuple(
        sink(name, what, base, lambda path, name=name: at(("sinks", name, *path)))  # type: ignore[misc]
        for name, what in _table(found, "sinks", at).items()
    )
    _check_paths(sinks, at)
    tables = found.get("tap", [])
    if not isinstance(tables, list):
        raise ConfigError(f"{at(('tap',))}a tap begins with [[tap]], in two pairs of brackets")
    names = [each.name for each in sinks]
    taps: list[TapSettings] = []
    for index, one in enumerate(tables):
        here: At = lambda path, index=index: at(("tap", index, *path))  # type: ignore[misc]  # noqa: E731
        made = tap(one, (base,), here, names)
        if made.name in (each.name for each in taps):
            raise ConfigError(
                f"{here(('name',))}there is another tap '{made.name}': give each a name of its own"
            )
        taps.append(made)
    if taps and not sinks:
        raise ConfigError(f'{at(("tap", 0))}there is no sink: add [sinks.main] with kind = "jsonl"')
    limits = _table(found, "limits", at)
    check_known(limits, [key.name for key in keys.LIMIT_KEYS], ("limits",), "[limits]", at)
    memory = DEFAULT_MEMORY
    if "memory" in limits:
        memory = read_value(
            limits["memory"], quantities.size, at(("limits", "memory")) + "memory: "
        )
    return Settings(server, sinks, tuple(taps), memory)


# ---- sinks ---------------------------------------------------------------------------------------


def sink(name: str, what: object, base: str, at: At) -> SinkSettings:
    if not isinstance(what, Mapping):
        raise ConfigError(f'{at(())}a sink is a table: write [sinks.{name}] and kind = "jsonl"')
    kind = what.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(
            f"{at(('kind',))}the sink has no kind: there are {', '.join(kinds.KINDS)}"
        )
    try:
        made = kinds.load(kind)
    except SinkError as error:
        raise ConfigError(f"{at(('kind',))}{error}") from None
    own = {key.name: key for key in made.keys}
    check_known(what, ["kind", "path", *own], (), f"a sink of kind {kind}", at)
    values = {key.name: key.default for key in made.keys}
    for key in (own[word] for word in what if word in own):
        values[key.name] = _setting(key, what[key.name], f"{at((key.name,))}{key.name}: ")
    path = what.get("path", "" if "path" in own else kind)
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"{at(('path',))}{shown(path)} is not a path")
    found = SinkSettings(name, kind, _inside(path, base, f"{at(('path',))}path: "), values)
    try:
        found.make()  # The sink checks its own settings.
    except SinkError as error:
        raise ConfigError(f"{at(())}{error}") from None
    return found


def _check_paths(sinks: Sequence[SinkSettings], at: At) -> None:
    """Two sinks with the same files would remove each other's files."""
    seen: dict[tuple[str, str], str] = {}
    for each in sinks:
        if each.kind != "jsonl" or each.path == "-":
            continue
        place = each.kind, os.path.realpath(each.path)
        if (other := seen.setdefault(place, each.name)) != each.name:
            raise ConfigError(
                f"{at(('sinks', each.name, 'path'))}sink {other} writes to {each.path} too: "
                "give each a path of its own"
            )


def sinks_to(place: str, base: str, *, full: bool = False) -> list[SinkSettings]:
    """The sinks of `--to DIR`, `--to -`, `--to KIND:PATH`; a directory gets whole tensors too."""
    kind, colon, path = place.partition(":")
    if not place or (colon and kind.isidentifier() and kind not in kinds.KINDS):
        hint = expr.suggest(kind, kinds.KINDS) or "write a directory, '-' or KIND:PATH"
        raise ConfigError(f"'{place}' is not a place for records: {hint}")
    said: dict[str, dict[str, object]]
    if colon and kind in kinds.KINDS:
        said = {place: {"kind": kind, "path": _whole(path, base)}}
        if kind in _LISTENING and path:
            said = {place: {"kind": kind, _LISTENING[kind]: path}}
    else:
        said = {place: {"kind": "jsonl", "path": _whole(place, base)}}
        if full and place != "-":
            said[f"{place}/tensors"] = {"kind": "tensors", "path": _whole(f"{place}/tensors", base)}
    return [sink(name, what, base, lambda _: f"{place}: ") for name, what in said.items()]


def _whole(path: str, base: str) -> str:
    return path if path == "-" else os.path.abspath(os.path.join(base, path))


def _inside(path: str, base: str, where: str) -> str:
    """Relative paths stay below the settings' folder, also through links."""
    if path in ("", "-") or os.path.isabs(path):
        return path
    whole = os.path.join(base, path)
    real, root = os.path.realpath(whole), os.path.realpath(base)
    if ".." in Path(path).parts or os.path.commonpath([real, root]) != root:
        raise ConfigError(
            f"{where}'{path}' leaves the directory {base}: write an absolute path if that is meant"
        )
    return os.path.normpath(whole)


def _setting(key: Key, value: object, where: str) -> object:
    if key.type is bytes:
        if value == key.default:
            return value  # It may be 0, for no limit.
        return read_value(value, quantities.size, where)
    if key.type is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, key.type) or (isinstance(value, bool) and key.type is not bool):
        names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise ConfigError(f"{where}{shown(value)} is not {names.get(key.type, key.type.__name__)}")
    return value


def _table(found: Mapping[str, object], name: str, at: At) -> Mapping[str, object]:
    table = found.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{at((name,))}{name} is a table: write [{name}]")
    return table


def _syntax(message: str, text: str, path: str) -> str:
    """`taps.toml:3: invalid value (column 8)`."""
    what, _, place = message.rpartition(" (at ")
    line, column = text.count("\n") + 1, ""
    if place.startswith("line "):
        numbers = place.removeprefix("line ").rstrip(")").split(", column ")
        line, column = int(numbers[0]), f" (column {numbers[1]})"
    elif not what:
        what = message
    return f"{path}:{line}: {what[:1].lower()}{what[1:]}{column}"
