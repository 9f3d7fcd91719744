"""Rules beside a request's handler: when it may come, how it runs, its capabilities."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from opstep_server.dap.protocol import types
from opstep_server.dap.protocol.request_arguments import Arguments

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Bodies are the dictionaries of types.py.
Handler = Callable[[Arguments], Awaitable[Mapping[str, object] | None]]
H = TypeVar("H", bound=Callable[..., Awaitable[Mapping[str, object] | None]])


class When(Enum):
    ANY = "any"
    INITIALIZED = "initialized"
    # Some thread is stopped; the handler checks which one.
    STOPPED = "stopped"


class Run(Enum):
    # In order, one at a time; events wait until the response is out.
    ORDERED = "ordered"
    # Begins in its turn, but the next request does not wait for it.
    BESIDE = "beside"
    # BESIDE, and cancelled when a thread goes on, when the client leaves, or by `cancel`.
    INSPECTION = "inspection"
    # Skips the queue.
    AT_ONCE = "at once"


@dataclass(frozen=True)
class Rule:
    when: When = When.INITIALIZED
    run: Run = Run.ORDERED
    # Requests that end a stop, or the session, cancel inspections too.
    ends_inspection: bool = False
    capabilities: types.Capabilities = field(default_factory=lambda: types.Capabilities())


_RULE = "_dap_rule"


def request(
    when: When = When.INITIALIZED,
    run: Run = Run.ORDERED,
    *,
    ends_inspection: bool = False,
    **capabilities: Unpack[types.Capabilities],
) -> Callable[[H], H]:
    def mark(handler: H) -> H:
        setattr(handler, _RULE, Rule(when, run, ends_inspection, capabilities))
        return handler

    return mark


def handlers(groups: list[object]) -> dict[str, tuple[Handler, Rule]]:
    """By command: the `<command>_request` of the first group that has one."""
    found: dict[str, tuple[Handler, Rule]] = {}
    for group in groups:
        for name in dir(group):
            command = name.removesuffix("_request")
            handler = getattr(group, name) if command != name else None
            rule = getattr(handler, _RULE, None)
            if handler is not None and rule is not None:
                found.setdefault(command, (handler, rule))
    return found


def capabilities(found: dict[str, tuple[Handler, Rule]]) -> types.Capabilities:
    declared: types.Capabilities = {}
    for _, rule in found.values():
        declared.update(rule.capabilities)
    return declared
