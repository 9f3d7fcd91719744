"""Arguments of a request, checked as they are read: the first wrong one is its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class RequestError(Exception):
    """The one sentence with which a request fails."""


_KINDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


class Arguments:
    def __init__(self, values: Any, where: str = "arguments") -> None:
        # Some clients send null for "none".
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise RequestError(f"{where} must be an object, not {_show(values)}")
        self._values: Mapping[str, Any] = values
        self._where = where

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def string(self, name: str, default: str | None = None) -> str:
        return self._required(name, str, default)

    def optional_string(self, name: str) -> str | None:
        return self._read(name, str)

    def integer(self, name: str, default: int | None = None) -> int:
        return self._required(name, int, default)

    def natural(self, name: str, default: int | None = None) -> int:
        value = self._required(name, int, default)
        if value < 0:
            raise RequestError(f"{self._where}.{name} must not be negative, but is {value}")
        return value

    def line(self, name: str, default: int | None = None) -> int:
        value = self._required(name, int, default)
        if not 0 <= value < 1 << 31:
            raise RequestError(f"{self._where}.{name} is {value}, which is not a line number")
        return value

    def optional_integer(self, name: str) -> int | None:
        return self._read(name, int)

    def boolean(self, name: str, default: bool | None = None) -> bool:
        return self._required(name, bool, default)

    def optional_boolean(self, name: str) -> bool | None:
        return self._read(name, bool)

    def one_of(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self.string(name, default)
        if value not in choices:
            raise RequestError(
                f"{self._where}.{name} must be one of {', '.join(choices)}, not '{value}'"
            )
        return value

    def strings(self, name: str) -> list[str]:
        values = self._read(name, list) or []
        for position, value in enumerate(values):
            if not isinstance(value, str):
                raise RequestError(
                    f"{self._where}.{name}[{position}] must be a string, not {_show(value)}"
                )
            _check_range(f"{self._where}.{name}[{position}]", value)
        return values

    def integers(self, name: str) -> list[int]:
        values = self._read(name, list) or []
        for position, value in enumerate(values):
            if not isinstance(value, int) or isinstance(value, bool):
                raise RequestError(
                    f"{self._where}.{name}[{position}] must be an integer, not {_show(value)}"
                )
            _check_range(f"{self._where}.{name}[{position}]", value)
        return values

    def string_map(self, name: str) -> dict[str, str | None]:
        values = self._read(name, dict) or {}
        for key, value in values.items():
            if value is not None and not isinstance(value, str):
                raise RequestError(
                    f"{self._where}.{name}.{key} must be a string or null, not {_show(value)}"
                )
            _check_range(f"{self._where}.{name}.{key}", value)
            _check_range(f"a name in {self._where}.{name}", key)
        return values

    def object(self, name: str) -> Arguments:
        return Arguments(self._required(name, dict, None), f"{self._where}.{name}")

    def objects(self, name: str) -> list[Arguments]:
        values = self._read(name, list) or []
        return [Arguments(value, f"{self._where}.{name}[{i}]") for i, value in enumerate(values)]

    def _required(self, name: str, kind: type[T], default: T | None) -> T:
        value = self._read(name, kind)
        if value is not None:
            return value
        if default is None:
            raise RequestError(f"{self._where}.{name} is missing: it must be {_KINDS[kind]}")
        return default

    def _read(self, name: str, kind: type[T]) -> T | None:
        value = self._values.get(name)
        if value is None:
            return None
        # bool is an int in Python, but not in JSON.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise RequestError(f"{self._where}.{name} must be {_KINDS[kind]}, not {_show(value)}")
        if kind is not bool:
            self._check(name, value)
        return value

    def _check(self, name: str, value: Any) -> None:
        if type(value) is int and -(1 << 63) <= value < 1 << 63:
            return
        _check_range(f"{self._where}.{name}", value)


def _check_range(where: str, value: Any) -> None:
    """JSON has numbers and texts that cannot be sent on."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise RequestError(f"{where} is larger than 64 bits: {_show(value)}")
    if isinstance(value, str) and "\0" in value:
        raise RequestError(f"{where} has a NUL byte: leave it out: {_show(value)}")
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RequestError(f"{where} is not valid text: {_show(value)}") from None


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
