"""Generate the package opstep_server.wire from the .proto files, with imports made relative."""

from __future__ import annotations

import argparse
import re
import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

INIT = '"""Generated from proto/ by tools/generate_wire.py at build time."""\n'


def generate(protos: list[Path], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for stale in out.glob("*.py*"):
        stale.unlink()
    include = resources.files("grpc_tools") / "_proto"
    options = [f"-I{protos[0].parent}", f"-I{include}", f"--python_out={out}", f"--pyi_out={out}"]
    run(options, protos)
    services = [p for p in protos if re.search(r"^service\s", p.read_text(), re.MULTILINE)]
    if services:
        run([*options[:2], f"--grpc_python_out={out}"], services)

    # protoc writes `import program_pb2`, which works only for top-level modules.
    names = "|".join(p.stem for p in protos)
    absolute = re.compile(rf"^import ((?:{names})_pb2)\b", re.MULTILINE)
    for module in out.glob("*_pb2*.py*"):
        module.write_text(absolute.sub(r"from . import \1", module.read_text()))
    # Last, because for the build this file means that the package is complete.
    (out / "__init__.py").write_text(INIT)


def run(options: list[str], protos: list[Path]) -> None:
    if protoc.main(["protoc", *options, *map(str, protos)]) != 0:
        sys.exit("generate_wire: protoc failed; its message stands above")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("protos", type=Path, nargs="+")
    args = parser.parse_args()
    generate(args.protos, args.out)
