"""Which faults a terminal session stops at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opstep_server.model import FaultKind, FaultSpec

CATCHES: tuple[FaultKind, ...] = ("nan", "inf", "overflow", "error")


class Catches:
    def __init__(self) -> None:
        # A failing op ends the run anyway: there is never a reason not to look at it first.
        self._specs: dict[FaultKind, list[FaultSpec]] = {"error": [FaultSpec("error")]}

    def specs(self) -> list[FaultSpec]:
        return [spec for kind in CATCHES for spec in self._specs.get(kind, ())]

    def set(self, kind: FaultKind, specs: Sequence[FaultSpec]) -> None:
        self._specs[kind] = list(specs)

    def replace(self, specs: Sequence[FaultSpec]) -> None:
        """Makes these all that there are."""
        self._specs = {kind: [spec for spec in specs if spec.kind == kind] for kind in CATCHES}

    def off(self, kinds: Iterable[FaultKind]) -> None:
        for kind in kinds:
            self._specs.pop(kind, None)


def words(spec: FaultSpec) -> str:
    """As it is typed: `overflow 100 in fc_0* if step > 3`."""
    text: str = spec.kind
    if spec.limit is not None:
        text += f" {spec.limit:g}" if float(f"{spec.limit:g}") == spec.limit else f" {spec.limit!r}"
    if spec.ops:
        text += f" in {spec.ops}"
    return f"{text} if {spec.condition}" if spec.condition else text
