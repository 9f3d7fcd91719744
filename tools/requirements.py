"""Print what the pyproject.toml files require for `build`, or for an extra, one per line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def requirements(group: str) -> list[str]:
    if group == "build":
        server = _array(ROOT / "debug_server", "[build-system]", "requires")
        return _array(ROOT, "[build-system]", "requires") + server
    return _array(ROOT, "[project.optional-dependencies]", group)


def _array(project: Path, header: str, key: str) -> list[str]:
    # Read by hand: tomllib came with Python 3.11.
    text = (project / "pyproject.toml").read_text()
    section = text.split(header)[1].split("\n[")[0]
    block = re.search(rf"^{re.escape(key)} = \[(.*?)^\]", section, re.DOTALL | re.MULTILINE)
    if block is None:
        sys.exit(f"pyproject.toml has no requirements named '{key}'")
    return re.findall(r'"([^"]+)"', block.group(1))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
