"""Names of notebook cells: `In[3]`, whose text is not in a file."""

from __future__ import annotations

import re


def is_cell(file: str) -> bool:
    """Whether this is an executor's name for a notebook cell."""
    return re.fullmatch(r"In\[\d+\]", file) is not None
