"""Wild messages: random messages of a protobuf type, and their bytes with random changes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.message import DecodeError, Message

M = TypeVar("M", bound=Message)

# Texts that have a meaning somewhere, and harmful ones.
TEXTS = (
    "", "*", "x", "matmul", "grad:*", "fc_0.out", "main", "var", "max", "step", "shape",
    "[", "../../etc/passwd", "%s%n", "\x00", "é" * 40, "a" * 5000, "__class__", "?" * 60,
)  # fmt: skip
NUMBERS = (0, 1, 2, 3, 7, 14, 127, 128, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
STOCK = 5000
FLOATS = (0.0, -0.0, 1.0, -1.5, 1e30, -1e308, 5e-324, float("inf"), float("nan"))


class Wild:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def message(self, kind: type[M], depth: int = 6) -> M:
        """A valid message with random fields."""
        made = kind()
        self._fill(made, depth)
        return made

    def changed(self, data: bytes) -> bytes:
        """The bytes with some of them changed, removed, doubled or moved."""
        choose, wild = self._random, bytearray(data)
        for _ in range(choose.choice((1, 1, 1, 2, 3, 8))):
            at = choose.randrange(len(wild) + 1)
            to = min(len(wild), at + choose.choice((1, 1, 2, 4, 16)))
            how = choose.randrange(5)
            if how == 0 and wild:
                wild[at % len(wild)] ^= 1 << choose.randrange(8)
            elif how == 1 and wild:
                wild[at % len(wild)] = choose.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif how == 2:
                del wild[at:to]
            elif how == 3:
                wild[at:at] = wild[at:to]
            else:
                wild[at:at] = choose.randbytes(choose.randrange(1, 6))
        return bytes(wild)

    def stream(self, kind: type[M]) -> Iterator[tuple[bytes, M | None]]:
        """Endless wild bytes, each with its message if it can be parsed."""
        # Changing a message is faster than making one.
        stock = [self.message(kind).SerializeToString() for _ in range(STOCK)]
        while True:
            data = self._random.choice(stock)
            if self._random.random() < 0.9:
                data = self.changed(data)
            try:
                yield data, kind.FromString(data)
            except DecodeError:
                yield data, None

    def _fill(self, message: Message, depth: int) -> None:
        choose = self._random
        fields = list(message.DESCRIPTOR.fields)
        for group in message.DESCRIPTOR.oneofs:
            chosen = choose.choice([*group.fields, None] if depth < 5 else group.fields)
            fields = [f for f in fields if f.containing_oneof is not group or f is chosen]
        for field in fields:
            if field.containing_oneof is None and choose.random() < 0.3:
                continue
            if field.is_repeated:
                for _ in range(choose.choice((0, 1, 1, 2, 3))):
                    self._append(getattr(message, field.name), field, depth)
            elif field.message_type is None:
                setattr(message, field.name, self._value(field))
            elif depth > 0:
                getattr(message, field.name).SetInParent()
                self._fill(getattr(message, field.name), depth - 1)

    def _append(self, container: Any, field: Field, depth: int) -> None:
        entry = field.message_type
        if entry is None:
            container.append(self._value(field))
        elif entry.GetOptions().map_entry:
            container[self._value(entry.fields_by_name["key"])] = self._value(
                entry.fields_by_name["value"]
            )
        elif depth > 0:
            self._fill(container.add(), depth - 1)

    def _value(self, field: Field) -> Any:
        choose = self._random
        kind = field.cpp_type
        if kind == Field.CPPTYPE_STRING:
            if field.type == Field.TYPE_BYTES:
                return choose.randbytes(choose.choice((0, 1, 8, 1000)))
            return choose.choice(TEXTS)
        if kind == Field.CPPTYPE_BOOL:
            return choose.random() < 0.5
        if kind in (Field.CPPTYPE_DOUBLE, Field.CPPTYPE_FLOAT):
            return choose.choice(FLOATS)
        if kind == Field.CPPTYPE_ENUM:
            return choose.choice([*(v.number for v in field.enum_type.values), 99])
        number = choose.choice(NUMBERS)
        if kind in (Field.CPPTYPE_INT32, Field.CPPTYPE_UINT32):
            number %= 2**32 if kind == Field.CPPTYPE_UINT32 else 2**31
        return -number if kind == Field.CPPTYPE_INT64 and choose.random() < 0.3 else number
