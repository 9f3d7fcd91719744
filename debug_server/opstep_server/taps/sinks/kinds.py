"""The kinds of sinks by name. Each is imported when it is used: most need packages of their own."""

from __future__ import annotations

import difflib
import importlib
import importlib.util

from opstep_server.taps.sinks.base import Sink, SinkError

_HERE = "opstep_server.taps.sinks"
KINDS: dict[str, str] = {
    "jsonl": f"{_HERE}.jsonl:JsonlSink",
    "tensorboard": f"{_HERE}.tensorboard:TensorboardSink",
    "parquet": f"{_HERE}.parquet:ParquetSink",
    "tensors": f"{_HERE}.tensors:TensorsSink",
    "prometheus": f"{_HERE}.prometheus:PrometheusSink",
    "otel": f"{_HERE}.otel:OtelSink",
}


def load(kind: str) -> type[Sink]:
    """The class of a kind; raises SinkError when its package is not installed."""
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(KINDS)}"
        raise SinkError(f"'{kind}' is not a kind of sink: {hint}")
    module, _, name = KINDS[kind].partition(":")
    found: type[Sink] = getattr(importlib.import_module(module), name)
    if found.module and not _there(found.module):
        raise SinkError(
            f"the sink '{kind}' needs the package {found.module.partition('.')[0]}: "
            f'pip install "{found.extra}"'
        )
    return found


def _there(module: str) -> bool:
    """Whether the module exists, without importing it; a missing parent raises in importlib."""
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
