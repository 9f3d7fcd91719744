"""`opstep records`: describes, verifies or makes a record file."""

from __future__ import annotations

import argparse
import os
import sys

from opstep import records


def run(args: argparse.Namespace) -> int:
    if args.action == "convert":
        count = records.convert(args.source, args.out, args.codec)
        print(f"{args.out}: {count:,} records, {os.path.getsize(args.out):,} bytes")
        return 0
    reader = records.Reader(args.file, damaged="skip")
    if args.action == "info":
        sys.stdout.write(_info(reader))
        return 0
    lost = reader.verify()
    if lost:
        print(f"{args.file}: {_told(lost)}")
        return 1
    print(f"{args.file}: {len(reader):,} records in {reader.chunks:,} chunks, all intact")
    return 0


def _info(reader: records.Reader) -> str:
    (path,) = reader.paths
    width = max(len(name) for name in reader.fields)
    text = f"{len(reader):,} records in {reader.chunks:,} chunks, {os.path.getsize(path):,} bytes\n"
    for name, (dtype, sizes) in reader.fields.items():
        shown = ", ".join("?" if size is None else str(size) for size in sizes)
        text += f"{name:{width}}  {dtype}[{shown}]\n"
    return text + (f"damaged: {_told(reader.lost)}\n" if reader.lost else "")


def _told(lost: records.Lost) -> str:
    text = (
        f"{lost.chunks:,} chunks are damaged, {lost.records:,} records lost, "
        f"{lost.bytes:,} bytes skipped"
    )
    return text + ("; the end is missing, with it maybe more records" if lost.torn else "")
