"""`taps.toml`, what a program asks for, and options of a command: checked, to taps and sinks.

All three are the same dictionaries. What is wrong is one sentence that begins with its place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opstep_server import expr
from opstep_server.model import DebuggerError
from opstep_server.taps import keys, quantities
from opstep_server.taps.keys import TapKey
from opstep_server.taps.quantities import shown
from opstep_server.taps.sinks import kinds
from opstep_server.taps.sinks.base import Key, Sink, SinkError
from opstep_server.taps.toml_lines import Lines, Path as KeyPath
from opstep_server.wire import debug_pb2 as pb

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_FILE = 1 << 20
DEFAULT_MEMORY = 64_000_000
_TOP = ("server", "sinks", "tap", "limits")


class ConfigError(DebuggerError):
    """One sentence, with its place before it."""


# The words before a message, for the key that it is about.
At = Callable[[KeyPath], str]


@dataclass(frozen=True)
class SinkSettings:
    name: str
    kind: str
    # Absolute; "-" for the standard output.
    path: str
    settings: Mapping[str, object]

    def make(self) -> Sink:
        return kinds.load(self.kind)(Path(self.path), dict(self.settings))


@dataclass(frozen=True)
class TapSettings:
    name: str
    # Without uid and who.
    message: pb.Tap
    # Names of sinks; empty: all.
    to: tuple[str, ...] = ()


@dataclass(frozen=True)
class Settings:
    server: str = ""
    sinks: tuple[SinkSettings, ...] = ()
    taps: tuple[TapSettings, ...] = ()
    # What waits for one sink, in bytes.
    memory: int = DEFAULT_MEMORY
    # Directories against which the files of lines are looked for.
    bases: tuple[str, ...] = field(default=(), compare=False)


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
        raise ConfigError(f"{path}:{line}: this is no UTF-8 text") from None


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
    """All of a file."""
    _known(found, _TOP, (), "taps.toml", at)
    server = found.get("server", "")
    if not isinstance(server, str) or not server.isprintable() or len(server) > 200:
        raise ConfigError(f"{at(('server',))}{shown(server)} is no name for a server")
    sinks = tuple(
        sink(name, what, base, lambda path, name=name: at(("sinks", name, *path)))  # type: ignore[misc]
        for name, what in _table(found, "sinks", at).items()
    )
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
    _known(limits, [key.name for key in keys.LIMIT_KEYS], ("limits",), "[limits]", at)
    memory = DEFAULT_MEMORY
    if "memory" in limits:
        memory = _read(limits["memory"], quantities.size, at(("limits", "memory")) + "memory: ")
    return Settings(server, sinks, tuple(taps), memory, (base,))


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
    _known(what, ["kind", "path", *own], (), f"a sink of kind {kind}", at)
    values = {key.name: key.default for key in made.keys}
    for key in (own[word] for word in what if word in own):
        values[key.name] = _setting(key, what[key.name], f"{at((key.name,))}{key.name}: ")
    path = what.get("path", "" if "path" in own else kind)
    if not isinstance(path, str) or "\0" in path:
        raise ConfigError(f"{at(('path',))}{shown(path)} is no path")
    found = SinkSettings(name, kind, _inside(path, base, f"{at(('path',))}path: "), values)
    try:
        found.make()  # It knows best what its settings mean.
    except SinkError as error:
        raise ConfigError(f"{at(())}{error}") from None
    return found


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
        return _read(value, quantities.size, where)
    if key.type is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, key.type) or (isinstance(value, bool) and key.type is not bool):
        names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
        raise ConfigError(f"{where}{shown(value)} is not {names.get(key.type, key.type.__name__)}")
    return value


# ---- taps ----------------------------------------------------------------------------------------


def tap(what: object, bases: Iterable[str], at: At, sinks: Iterable[str]) -> TapSettings:
    """`bases` are folders in which files of lines are looked for; sinks, all names there are."""
    if not isinstance(what, Mapping):
        raise ConfigError(f"{at(())}a tap is a table of keys and values")
    _known(what, keys.BY_NAME, (), "a tap", at)
    said: dict[str, object] = {}
    for name, value in what.items():
        said[name] = _read(value, keys.BY_NAME[name].read, f"{at((name,))}{name}: ")
    places = [key for key in keys.PLACES if key.name in said]
    if len(places) != 1:
        choice = ", ".join(key.name for key in keys.PLACES)
        problem = (
            f"say one of {choice}" if not places else f"both {places[0].name} and {places[1].name}"
        )
        where = at((places[1].name,) if places else ())
        raise ConfigError(f"{where}which ops? {problem}{' are said' if places else ''}")
    _agree(said, at)
    to = said.get("to", ())
    assert isinstance(to, tuple)
    known = list(sinks)
    for one in to:
        if one not in known:
            hint = expr.suggest(one, known) or f"there are {', '.join(known) or 'none'}"
            raise ConfigError(f"{at(('to',))}there is no sink '{one}': {hint}")
    name = str(said.get("name", "")) or _place_name(places[0], what)
    return TapSettings(name, _message(name, said, list(bases)), to)


def _agree(said: Mapping[str, object], at: At) -> None:
    """Keys that only mean something beside another one."""
    what = said.get("what", ("stats",))
    assert isinstance(what, tuple)
    for name, needs in (("bins", "histogram"), ("samples", "samples")):
        if name in said and "what" in said and needs not in what:
            raise ConfigError(f'{at((name,))}{name} belongs to what = ["{needs}"]')
    if "seed" in said and "probability" not in said:
        raise ConfigError(f"{at(('seed',))}seed belongs to probability: say with which chance")
    if "value" in said and (said.get("outputs") or said.get("inputs")):
        raise ConfigError(f"{at(('value',))}value stands for itself: leave out outputs and inputs")
    if said.get("outputs") is False and not (said.get("inputs") or "value" in said):
        raise ConfigError(f"{at(('outputs',))}without outputs say inputs = true, or a value")
    if said.get("gradients") and "line" not in said:
        raise ConfigError(f"{at(('gradients',))}gradients belongs to line; 'ops' has grad:PATTERN")


def _message(name: str, said: Mapping[str, object], bases: list[str]) -> pb.Tap:
    what = said.get("what") or tuple(
        one for one, key in (("stats", "stats"), ("histogram", "bins"), ("samples", "samples"))
        if one == "stats" or key in said
    )  # fmt: skip
    assert isinstance(what, tuple)
    message = pb.Tap(
        name=name,
        where=_where(said, bases),
        gradient_of="gradient_of" in said,
        inputs=bool(said.get("inputs")),
        outputs=bool(said.get("outputs", not (said.get("inputs") or "value" in said))),
        statistics="stats" in what,
        full="full" in what,
        disabled=said.get("enabled") is False,
        with_server=bool(said.get("with_server")),
    )
    if "histogram" in what:
        message.histogram_bins = _int(said, "bins", keys.DEFAULT_BINS)
    if "samples" in what:
        message.samples = _int(said, "samples", keys.DEFAULT_SAMPLES)
    for text, parsed in (("value", message.value), ("condition", message.condition)):
        if text in said:
            parsed.CopyFrom(expr.parse(str(said[text])))
            setattr(message, f"{text}_text", str(said[text]))
    for key in ("every", "first", "seed", "count", "max_bytes"):
        setattr(message, key, _int(said, key, 0))
    for key, attribute in (
        ("probability",) * 2,
        ("per_second",) * 2,
        ("for", "seconds"),
        ("until",) * 2,
    ):
        value = said.get(key, 0.0)
        assert isinstance(value, float)
        setattr(message, attribute, value)
    return message


def _int(said: Mapping[str, object], key: str, default: int) -> int:
    value = said.get(key, default)
    assert isinstance(value, int)
    return value


def _where(said: Mapping[str, object], bases: list[str]) -> pb.Breakpoint:
    where = pb.Breakpoint(gradients=bool(said.get("gradients")))
    if "ops" in said:
        where.pattern = str(said["ops"])
    elif "variable" in said or "gradient_of" in said:
        where.data.variable = str(said.get("variable", said.get("gradient_of")))
    elif "op" in said:
        where.op.op = _int(said, "op", 0)
    elif "line" in said:
        file, line = _place(said["line"])
        where.line.CopyFrom(pb.SourceLine(file=_found(file, bases), line=line))
    else:
        program, line = _place(said["listing"])
        where.listing.CopyFrom(pb.ListingLine(program_name=program, line=line))
    return where


def _place(value: object) -> tuple[str, int]:
    assert isinstance(value, tuple)
    return value[0], value[1]


def _found(file: str, bases: list[str]) -> str:
    """As the executor knows it: whole, and without links."""
    for base in bases:
        candidate = os.path.join(base, file)
        if os.path.isfile(candidate):
            return os.path.realpath(candidate)
    return os.path.realpath(os.path.join(bases[0] if bases else "", file))


def _place_name(key: TapKey, what: Mapping[str, object]) -> str:
    """What it is called when it has no name: its place, as it was said."""
    text = str(what[key.name])
    named = {"gradient_of": f"gradient of {text}", "op": f"#{text}", "listing": f"listing {text}"}
    return named.get(key.name, text)


# ---- what all have -------------------------------------------------------------------------------


def _known(
    what: Mapping[str, object], names: Iterable[str], path: KeyPath, of: str, at: At
) -> None:
    known = list(names)
    for word in what:
        if word not in known:
            hint = expr.suggest(word, known) or f"there are {', '.join(known)}"
            raise ConfigError(f"{at((*path, word))}'{word}' is no key of {of}: {hint}")


def _table(found: Mapping[str, object], name: str, at: At) -> Mapping[str, object]:
    table = found.get(name, {})
    if not isinstance(table, Mapping):
        raise ConfigError(f"{at((name,))}{name} is a table: write [{name}]")
    return table


def _read(value, read, where: str):  # type: ignore[no-untyped-def]
    """What is meant by the value, by one of the readers in keys.py."""
    try:
        return read(value)
    except ValueError as error:
        raise ConfigError(f"{where}{error}") from None


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
