"""The message of one tap to executors, made from its keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from opstep_server import expr
from opstep_server.taps import keys
from opstep_server.taps.keys import TapKey
from opstep_server.taps.settings import At, ConfigError, TapSettings, check_known, read_value
from opstep_server.wire import debug_pb2 as pb


def tap(what: object, bases: Iterable[str], at: At, sinks: Iterable[str]) -> TapSettings:
    """`bases` are folders to search for files of `line`; `sinks` are all names of sinks."""
    if not isinstance(what, Mapping):
        raise ConfigError(f"{at(())}a tap is a table of keys and values")
    check_known(what, keys.BY_NAME, (), "a tap", at)
    said: dict[str, object] = {}
    for name, value in what.items():
        said[name] = read_value(value, keys.BY_NAME[name].read, f"{at((name,))}{name}: ")
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
    """Checks keys that need another key."""
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
            if (logged := _logged(said)) is not None:
                expr.replace(parsed, "out", logged)
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
    """The file's path as the executor knows it: absolute, and without links."""
    for base in bases:
        candidate = os.path.join(base, file)
        if os.path.isfile(candidate):
            return os.path.realpath(candidate)
    return os.path.realpath(os.path.join(bases[0] if bases else "", file))


def _place_name(key: TapKey, what: Mapping[str, object]) -> str:
    """The name of a tap without one: its place, as given."""
    text = str(what[key.name])
    named = {"gradient_of": f"gradient of {text}", "op": f"#{text}", "listing": f"listing {text}"}
    return named.get(key.name, text)


def _logged(said: Mapping[str, object]) -> pb.Expr | None:
    """The meaning of `out` in expressions of a tap on one variable, in any op."""
    if "gradient_of" in said:
        of = pb.Expr(name=str(said["gradient_of"]))
        return pb.Expr(call=pb.Expr.Call(function="grad", args=[of]))
    return pb.Expr(name=str(said["variable"])) if "variable" in said else None
