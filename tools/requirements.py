"""Print what pyproject.toml requires for `build`, or for one of its extras, one per line."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def requirements(group: str) -> list[str]:
    # Read by hand: tomllib came with Python 3.11.
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text()
    header, key = "[project.optional-dependencies]", group
    if group == "build":
        header, key = "[build-system]", "requires"
    section = text.split(header)[1].split("\n[")[0]
    block = re.search(rf"^{re.escape(key)} = \[(.*?)^\]", section, re.DOTALL | re.MULTILINE)
    if block is None:
        sys.exit(f"pyproject.toml has no requirements named '{group}'")
    return re.findall(r'"([^"]+)"', block.group(1))


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
