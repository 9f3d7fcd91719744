"""CompiledGraph: a graph as the function that torch calls."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from torch.fx import GraphModule

from opstep import _core
from opstep.executor import connection
from opstep.torch import coverage, sizes
from opstep.torch.graph_program import GraphProgram
from opstep.torch.memory import address, adopt, dense, is_dense
from opstep.torch.refusals import NotSupported
from opstep.torch.results import Results
from opstep.torch.traced_model import Model

log = logging.getLogger("opstep.torch")

_MOST_SIZES = 16


class CompiledGraph:
    """Runs a graph. The program is made at the first call, for dynamic sizes one for each of them.

    torch hands over the arguments as a list and wants it emptied, so that they can be freed.
    """

    def __init__(
        self, graph: GraphModule, model: Model, name: str, force_foreign: bool = False
    ) -> None:
        self._graph = graph
        self._model = model
        self._name = name
        self._force_foreign = force_foreign
        self._lock = threading.Lock()
        self._symbols = sizes.symbol_positions(graph)
        self._one: _Call | None = None
        self._many: OrderedDict[tuple[int, ...], _Call] = OrderedDict()
        # torch copies the attributes of an instance to its wrappers.
        self._boxed_call = True

    def __call__(self, args: list[Any]) -> Any:
        call = self._one
        if call is None:
            call = self._call_for(args)
        return call(args)

    def _call_for(self, args: list[Any]) -> _Call:
        key = tuple(int(args[i]) for i in self._symbols)
        with self._lock:
            known = self._many.get(key)
            if known is not None:
                self._many.move_to_end(key)
                return known
            call = self._make(args)
            if self._symbols:
                self._many[key] = call
                if len(self._many) > _MOST_SIZES:
                    self._many.popitem(last=False)
            else:
                self._one = call
            return call

    def _make(self, args: list[Any]) -> _Call:
        graph = sizes.with_sizes(self._graph, args) if self._symbols else self._graph
        try:
            made = GraphProgram(graph, self._model, self._name, self._force_foreign)
            call = _Call(graph, made)
        except NotSupported as reason:
            log.warning(
                "opstep: '%s' runs in torch and cannot be debugged: it has %s", self._name, reason
            )
            return _Fallback(self._graph)
        coverage.note(self._name, made.count)
        return call


class _Call:
    """A program with its feeds and results."""

    def __init__(self, graph: GraphModule, made: GraphProgram) -> None:
        (outputs,) = graph.graph.output_node().args
        assert isinstance(outputs, tuple | list)
        self.program = made.program
        self._results = Results(made, outputs)
        feeds = made.feeds
        self._indexes = [feed.index for feed in feeds]
        self._direct = self._indexes == list(range(len(feeds)))
        self._pick = itemgetter(*self._indexes) if len(feeds) > 1 else None
        # Inputs that are not dense, or held in another form.
        self._changed = [
            (place, feed.how)
            for place, feed in enumerate(feeds)
            if not feed.how.plain
            or not (feed.flip or is_dense(made.placeholders[feed.index].meta["val"]))
        ]
        self._run = _core.MemoryCall(
            made.program._core,
            [(feed.name, feed.how.type.dtype, feed.how.type.shape) for feed in feeds],
            self._results.fetches,
            address,
            adopt,
        )
        connection._open_doorbell()

    def __call__(self, args: list[Any]) -> Any:
        given: Sequence[Any] = args
        tensors: list[Any]
        if self._direct:
            tensors = args
        elif self._pick is not None:
            tensors = list(self._pick(args))
        else:
            tensors = [args[i] for i in self._indexes]
        if self._changed:
            tensors = list(tensors)
            for place, how in self._changed:
                tensors[place] = how.from_torch(dense(tensors[place]))
        fetched = self._run(tensors)
        results = self._results(given, fetched)
        args.clear()
        return results


class _Fallback(_Call):
    """A graph that the executor cannot hold, run by torch."""

    def __init__(self, graph: GraphModule) -> None:
        self._module = graph

    def __call__(self, args: list[Any]) -> Any:
        given = list(args)
        args.clear()
        return self._module(*given)
