"""The reasons for which an op or a graph is left to torch."""

from __future__ import annotations


class NotLowered(Exception):
    """An entry of the table does not handle these arguments exactly: the op becomes foreign."""


class NotSupported(Exception):
    """The executor cannot hold a value of the graph: torch runs the whole graph."""
