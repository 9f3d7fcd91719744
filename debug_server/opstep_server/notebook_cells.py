"""Names of notebook cells: `In[3]`, whose text is in no file."""

from __future__ import annotations

import re


def is_cell(file: str) -> bool:
    """Is it how an executor in a notebook calls one of its cells?"""
    return re.fullmatch(r"In\[\d+\]", file) is not None
