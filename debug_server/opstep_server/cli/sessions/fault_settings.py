"""The faults that a terminal session stops at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opstep_server.model import FaultKind, FaultSpec

FAULT_KINDS: tuple[FaultKind, ...] = ("nan", "inf", "overflow", "error")


class FaultSettings:
    def __init__(self) -> None:
        # A failing op ends the run anyway, so stop there first.
        self._specs: dict[FaultKind, list[FaultSpec]] = {"error": [FaultSpec("error")]}

    def specs(self) -> list[FaultSpec]:
        return [spec for kind in FAULT_KINDS for spec in self._specs.get(kind, ())]

    def set(self, kind: FaultKind, specs: Sequence[FaultSpec]) -> None:
        self._specs[kind] = list(specs)

    def replace(self, specs: Sequence[FaultSpec]) -> None:
        """Replaces all specs."""
        self._specs = {kind: [spec for spec in specs if spec.kind == kind] for kind in FAULT_KINDS}

    def words(self) -> list[str]:
        """The text of each kind, as typed."""
        return [_words(specs) for kind in FAULT_KINDS if (specs := self._specs.get(kind))]

    def off(self, kinds: Iterable[FaultKind]) -> None:
        for kind in kinds:
            self._specs.pop(kind, None)


def _words(specs: Sequence[FaultSpec]) -> str:
    """`overflow 100 in fc_0* relu if step > 3`: specs of one kind, which differ in their ops."""
    first = specs[0]
    text: str = first.kind
    if first.limit is not None:
        short = f"{first.limit:g}"
        text += f" {short if float(short) == first.limit else repr(first.limit)}"
    if first.ops:
        text += " in " + " ".join(spec.ops for spec in specs)
    return f"{text} if {first.condition}" if first.condition else text
